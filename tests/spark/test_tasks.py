"""Several questions to one session, side by side."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ordercast.core.errors import UsageError
from ordercast.spark.tasks import ASKED_AT_ONCE, ask_together


def test_questions_asked_together_are_answered_in_their_order(spark: SparkSession) -> None:
    questions = [spark.range(number).count for number in range(2 * ASKED_AT_ONCE)]
    assert ask_together(spark, questions) == list(range(2 * ASKED_AT_ONCE))
    assert ask_together(spark, []) == []


def test_where_one_question_fails_the_others_end_and_later_ones_are_not_asked(spark: SparkSession) -> None:
    asked: list[str] = []

    def refuse() -> None:
        raise UsageError("not so")

    def wait(name: str) -> Any:
        asked.append(name)
        # Ten minutes, unless it is cancelled.
        return spark.sparkContext.parallelize([600.0], 1).map(time.sleep).collect()

    with pytest.raises(UsageError, match="not so"):
        ask_together(spark, [refuse, partial(wait, "first"), *(partial(wait, str(n)) for n in range(9))])
    assert len(asked) < 9
    assert spark.range(3).count() == 3
