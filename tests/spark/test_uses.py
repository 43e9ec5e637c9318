"""Rules of locks, elections and queues, judged on Spark: sound rows keep all of them, each planted row breaks one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ordercast.spark.uses import RULES, judge_uses
from ordercast.trace.uses import Block, UseFile, What

Row = tuple[str, Block, What, int, float, int]

SOUND: tuple[Row, ...] = (
    ("a", "lock", "held", 1, 1.0, 0),
    ("a", "register", "written", 1, 1.1, 1),
    ("b", "lock", "held", 2, 2.0, 0),
    ("b", "register", "written", 2, 2.1, 2),
    ("a", "register", "refused", 1, 2.2, 2),  # it was paused, and finds out
    ("b", "lock", "held", 2, 2.3, 0),
    ("a", "election", "held", 1, 1.0, 0),
    ("b", "election", "held", 3, 3.0, 0),
    ("a", "queue", "put", 1, 1.0, 0),
    ("a", "queue", "put", 2, 1.0, 0),
    ("a", "queue", "put", 3, 1.0, 0),
    ("a", "queue", "put", 4, 1.0, 0),
    ("a", "queue", "given", 1, 1.1, 1),
    ("b", "queue", "given", 1, 2.1, 2),
    ("a", "queue", "finishing", 1, 2.2, 1),
    ("a", "queue", "late", 1, 2.3, 1),
    ("b", "queue", "finishing", 1, 2.4, 2),
    ("b", "queue", "done", 1, 2.5, 2),
    ("a", "queue", "given", 2, 3.1, 1),
    ("a", "queue", "finishing", 2, 3.2, 1),  # killed before the answer
    ("a", "queue", "left", 3, 9.0, 0),
    ("b", "queue", "given", 4, 4.0, 1),
    ("b", "queue", "finishing", 4, 4.1, 1),
    ("b", "queue", "done", 4, 4.2, 1),
)

PLANTED: dict[str, tuple[Row, ...]] = {
    "one-holder": (("c", "lock", "held", 2, 2.4, 0),),
    "no-overlap": (("a", "election", "held", 1, 3.5, 0),),
    "fenced": (("a", "register", "written", 1, 2.2, 3),),
    "one-worker": (("c", "queue", "given", 1, 2.1, 2),),
    "done-once": (("a", "queue", "done", 1, 2.6, 1),),
    "nothing-lost": (("a", "queue", "put", 5, 5.0, 0),),
}


def write(folder: Path, rows: tuple[Row, ...]) -> None:
    files = {process: UseFile(folder, process, 0) for process in "abc"}
    for process, block, what, number, time, place in rows:
        files[process].write(block, what, number, time, place)


def test_sound_rows_keep_every_rule_and_a_line_that_was_cut_off_says_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, SOUND)
    with (tmp_path / "a.0.jsonl").open("a") as file:
        file.write('{"holder": "a.0", "block": "lock", "wh')
    judged = judge_uses(spark, tmp_path)
    assert [rule.name for rule in judged.rules] == [*RULES]
    assert not judged.broken
    assert judged.counts == {"grants": 2, "terms": 2, "writes_refused": 1, "items_done": 2, "items_given_again": 1}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_broken_by_the_row_that_was_planted_for_it_and_by_no_other(
    rule: str, spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, SOUND + PLANTED[rule])
    (broken,) = judge_uses(spark, tmp_path).broken
    assert broken.name == rule
    assert broken.broken == len(broken.examples) == 1
