"""Rules of building blocks, judged on Spark: sound rows keep all of them, each planted row breaks one."""

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
    ("a", "map", "changing", 1, 1.0, 1),
    ("b", "map", "changing", 1, 1.01, 1),  # the first who comes changes it
    ("a", "map", "changed", 1, 1.1, 1),
    ("b", "map", "late", 1, 1.12, 1),
    ("c", "map", "seen", 1, 1.13, 0),
    ("b", "map", "changing", 2, 1.2, 2),  # killed before the answer
    ("c", "map", "seen", 2, 1.3, 0),
    ("c", "map", "reading", 0, 1.4, 1),
    ("a", "map", "changing", 3, 1.41, 2),
    ("a", "map", "changed", 3, 1.5, 2),  # while somebody reads, who may see it or not
    ("c", "map", "read", 2, 1.6, 1),
    ("c", "map", "seen", 3, 1.7, 0),
    ("a", "map", "left", 3, 9.0, 0),
    ("a", "counter", "changing", 0, 1.0, 3),
    ("a", "counter", "changed", 1, 1.1, 3),
    ("b", "counter", "reading", 0, 1.2, 3),
    ("b", "counter", "read", 1, 1.3, 3),
    ("a", "counter", "left", 1, 9.0, 0),
    ("a", "question", "answered", 3, 1.0, 2),
)

PLANTED: dict[str, tuple[Row, ...]] = {
    "one-holder": (("c", "lock", "held", 2, 2.4, 0),),
    "no-overlap": (("a", "election", "held", 1, 3.5, 0),),
    "fenced": (("a", "register", "written", 1, 2.2, 3),),
    "one-worker": (("c", "queue", "given", 1, 2.1, 2),),
    "done-once": (("a", "queue", "done", 1, 2.6, 1),),
    "nothing-lost": (("a", "queue", "put", 5, 5.0, 0),),
    "one-change": (
        ("c", "map", "changing", 3, 1.45, 2),
        ("c", "map", "changed", 3, 1.55, 2),
    ),
    "in-time": (("b", "counter", "reading", 0, 1.2, 4), ("b", "counter", "read", 0, 1.3, 4)),
    "no-change-lost": (("a", "counter", "left", 3, 9.1, 0),),
    "watched": (("c", "map", "seen", 2, 1.8, 0),),
    "answered": (("b", "question", "answered", 1, 2.0, 2),),
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
    assert judged.counts == {
        "grants": 2,
        "terms": 2,
        "writes_refused": 1,
        "items_done": 2,
        "items_given_again": 1,
        "swaps": 2,
        "swaps_late": 1,
        "changes_seen": 3,
        "additions": 1,
        "questions": 1,
    }


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_broken_by_the_row_that_was_planted_for_it_and_by_no_other(
    rule: str, spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path, SOUND + PLANTED[rule])
    (broken,) = judge_uses(spark, tmp_path).broken
    assert broken.name == rule
    assert broken.broken == len(broken.examples) == 1
