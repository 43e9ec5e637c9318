"""Traces in a session of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ordercast.core.errors import UsageError
from ordercast.spark.notebook import measure, read_trace, verify
from tests.spark.traces import by_hand

TEXT = "@1 a multicast m g\n@2 a deliver m\n@3 b deliver m\n@4 c deliver m\n@5 b deliver m"


def test_events_are_read_verified_and_measured_as_tables(spark: SparkSession, tmp_path: Path) -> None:
    events = read_trace(spark, str(by_hand(tmp_path / "trace", TEXT)))
    assert events.where("kind = 'deliver'").count() == 4
    found = {row.property: row.verdict for row in verify(events, ["integrity", "no-duplication"]).collect()}
    assert found == {"integrity": "holds", "no-duplication": "violated"}
    # A condition on the events is one on what is judged.
    only_once = verify(events.where("time < 5"), ["no-duplication"]).collect()
    assert [row.verdict for row in only_once] == ["holds"]
    tables = measure(events)
    assert tables["throughput"].collect()[0].deliveries == 3
    with pytest.raises(UsageError, match="by is 'protocol' or 'run', not 'site'"):
        measure(events, by="site")


def test_what_is_missing_is_said_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no such folder|no runs\.jsonl"):
        read_trace(spark, str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match=r"begin with read_trace\(spark, path\)"):
        verify(spark.range(1).toDF("run"))
    events = read_trace(spark, str(by_hand(tmp_path / "trace", TEXT)))
    with pytest.raises(UsageError, match="these events have no column 'seq'"):
        verify(events.drop("seq"))
