"""What reaches the driver of a large run does not grow with its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from ordercast.spark.verify.large import judge_large
from ordercast.spark.verify.large.tables import Limits
from ordercast.trace.schema import EVENTS
from tests.spark import test_digests
from tests.spark.test_digests import CLAIMS, far_ones_swapped, one_missing, totally_ordered

LIMITS = Limits(window_rows=1000, knot_rows_max=50_000, part_rows=5_000, block_rows=500)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The rows of each answer that Spark gives to the driver: by `collect` (`isEmpty`, `count` and `first` use it, or
    give one row) and as Arrow."""
    answers: list[int] = []
    frame = type(SparkSession.getActiveSession().range(1))  # type: ignore[union-attr]
    with monkeypatch.context() as patch:
        for name in ("collect", "toArrow"):
            whole = getattr(frame, name)

            def ask(own: DataFrame, *rest: Any, whole: Any = whole) -> Any:
                answer = whole(own, *rest)
                answers.append(len(answer))
                return answer

            patch.setattr(frame, name, ask)
        yield answers


def test_ten_times_the_rows_bring_no_more_to_the_driver(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = []
    for messages in (300, 3_000):
        monkeypatch.setattr(test_digests, "MESSAGES", messages)
        run, rows = totally_ordered()
        far_ones_swapped(rows)
        one_missing(rows)
        events = spark.createDataFrame(pa.Table.from_pylist(rows, schema=EVENTS)).coalesce(1)
        # As many blocks for both: their number has a bound, and the bound is not what is looked at.
        limits = LIMITS._replace(block_rows=messages // 10)
        with counted(monkeypatch) as answers:
            found = judge_large(spark, events, run, CLAIMS, limits)
        assert any(verdict.verdict == "violated" for verdict in found.values())
        witnesses = sum(verdict.witnesses for verdict in found.values())
        brought.append(max(answers) - witnesses)
    assert brought[1] <= max(brought[0], 60), brought
