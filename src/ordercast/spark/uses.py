"""What processes did with building blocks (`ordercast.trace.uses`), judged: never two holders by fencing number, each
item of a queue to one member, no change of a value lost, doubled or unseen, and as many answers as were asked for. Each
step takes the rows and gives those that break a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

SCHEMA = "holder string, block string, what string, number bigint, time double, place bigint"

NAMED_MAX = 5
"""Of what breaks a rule, how much is named."""

_BEFORE = (Window.unboundedPreceding, -1)


class Rule(msgspec.Struct, frozen=True):
    """What came of one rule."""

    name: str
    words: str
    broken: int
    examples: list[str]


class Judged(msgspec.Struct, frozen=True):
    """What came of all of them."""

    rules: list[Rule]
    counts: dict[str, int]
    """How much there was to judge: grants of locks, terms, writes that were refused, items, changes, questions."""

    @property
    def broken(self) -> list[Rule]:
        """Those that do not hold."""
        return [rule for rule in self.rules if rule.broken]


def read_uses(spark: SparkSession, folder: str | Path) -> DataFrame:
    """The rows of all processes; a line that was cut off by a kill says nothing."""
    rows = spark.read.schema(SCHEMA).option("mode", "DROPMALFORMED").json(str(folder))
    return rows.where(f.col("holder").isNotNull() & f.col("number").isNotNull())


# ---------------------------------------------------------------------- rules
def find_shared_numbers(uses: DataFrame) -> DataFrame:
    """A fencing number or a term that two have held."""
    held = uses.where(f.col("what").isin("held", "written") & (f.col("block") != "queue"))
    block = f.when(f.col("block") == "register", "lock").otherwise(f.col("block")).alias("block")
    return _held_by_several(held.withColumn("place", f.lit(0)), block)


def find_overlaps(uses: DataFrame) -> DataFrame:
    """Somebody holds a lock, or leads, at a time after another one has done so with a greater number."""
    window = Window.partitionBy("block").orderBy("time", "number").rowsBetween(*_BEFORE)
    held = uses.where(f.col("what") == "held").withColumn("greatest", f.max("number").over(window))
    return _shown(held.where(f.col("number") < f.col("greatest")), "{block} {number} of {holder}, after {greatest}")


def find_backward_writes(uses: DataFrame) -> DataFrame:
    """The register has taken a write with a smaller number than one before."""
    window = Window.partitionBy("block").orderBy("place", "number").rowsBetween(*_BEFORE)
    written = uses.where(f.col("what") == "written").withColumn("greatest", f.max("number").over(window))
    broken = written.where(f.col("number") < f.col("greatest"))
    return _shown(broken, "write {place} with {number} of {holder}, after {greatest}")


def find_shared_items(uses: DataFrame) -> DataFrame:
    """An attempt at an item that was given to two."""
    return _held_by_several(uses.where(f.col("what") == "given"), f.col("block"))


def find_doubled_items(uses: DataFrame) -> DataFrame:
    """An item that was done twice."""
    done = uses.where(f.col("what") == "done").groupBy("block", "number").agg(f.collect_list("holder").alias("holder"))
    return _shown(done.where(f.size("holder") > 1), "item {number} by {holder}")


def find_lost_items(uses: DataFrame) -> DataFrame:
    """An item that was put, and that is neither done nor left. Who is killed before the answer may have done it."""
    uses = uses.where(f.col("block") == "queue")
    outcome = uses.where(f.col("what").isin("done", "late")).select("number", "place", "holder")
    unknown = uses.where(f.col("what") == "finishing").join(outcome, ["number", "place", "holder"], "left_anti")
    known = uses.where(f.col("what").isin("done", "left")).select("number").union(unknown.select("number"))
    lost = uses.where(f.col("what") == "put").join(known, "number", "left_anti")
    return _shown(lost, "item {number}, put by {holder}")


def find_shared_changes(uses: DataFrame) -> DataFrame:
    """A change of a value that two have made: each is by one, so no two may have come to the same value."""
    changed = uses.where(f.col("what") == "changed").groupBy("block", "number")
    calls = changed.agg(f.sort_array(f.collect_list("holder")).alias("holder"))
    return _shown(calls.where(f.size("holder") > 1), "{block} came to {number} by {holder}")


def find_stale_calls(uses: DataFrame) -> DataFrame:
    """A call that began when another one had returned, and whose answer is older than that one's."""
    values = uses.where(f.col("block").isin("map", "counter"))
    window = Window.partitionBy("block").orderBy("time").rowsBetween(*_BEFORE)
    is_answer = f.col("what").isin("changed", "read")
    known = values.withColumn("known", f.max(f.when(is_answer, f.col("number"))).over(window))
    began = known.where(f.col("what").isin("changing", "reading")).select("block", "holder", "place", "known")
    answers = values.where(is_answer).join(began, ["block", "holder", "place"])
    # A change comes to a value that nobody had come to before.
    old = f.col("number") < f.col("known") + f.when(f.col("what") == "changed", 1).otherwise(0)
    return _shown(answers.where(old), "{block} {number} {what} by {holder}, after {known}")


def find_lost_changes(uses: DataFrame) -> DataFrame:
    """A value that is in the end less than the changes that were acknowledged, or more than those that were tried."""

    def rows(*what: str) -> Column:
        return f.count(f.when(f.col("what").isin(*what), True))

    blocks = uses.where(f.col("block").isin("map", "counter")).groupBy("block")
    counted = blocks.agg(
        rows("changed").alias("changed"),
        rows("changing").alias("tried"),
        f.max(f.when(f.col("what") == "left", f.col("number"))).alias("left"),
    )
    left = f.coalesce("left", f.lit(0))
    wrong = counted.withColumn("left", left).where((left < f.col("changed")) | (left > f.col("tried")))
    return _shown(wrong, "{block} is {left}, after {changed} changes of {tried} that were tried")


def find_unseen_changes(uses: DataFrame) -> DataFrame:
    """A watch that has left out a change, or told it twice or too late."""
    window = Window.partitionBy("block", "holder").orderBy("time")
    seen = uses.where(f.col("what") == "seen").withColumn("last", f.lag("number").over(window))
    return _shown(seen.where(f.col("number") != f.col("last") + 1), "{holder} saw {number} after {last}")


def find_missing_answers(uses: DataFrame) -> DataFrame:
    """A question that fewer have answered than were asked for, or with an answer to another question."""
    questions = uses.where(f.col("block") == "question")
    wrong = questions.where((f.col("what") == "mistaken") | (f.col("number") < f.col("place")))
    return _shown(wrong, "{holder} has {number} answers of {place}, {what}")


RULES: Mapping[str, tuple[str, Callable[[DataFrame], DataFrame]]] = {
    "one-holder": ("every fencing number and every term belongs to one holder", find_shared_numbers),
    "no-overlap": ("nobody holds while another one does, by the clock that they share", find_overlaps),
    "fenced": ("what a lock protects takes no write of an earlier holder", find_backward_writes),
    "one-worker": ("every attempt at an item is given to one worker", find_shared_items),
    "done-once": ("no item is done twice", find_doubled_items),
    "nothing-lost": ("every item that was put is done, or still there", find_lost_items),
    "one-change": ("every change of a key and of a counter is one call's", find_shared_changes),
    "in-time": ("no call that began after another one's answer is answered with something older", find_stale_calls),
    "no-change-lost": ("values are in the end what was acknowledged, and nothing that nobody tried", find_lost_changes),
    "watched": ("whoever watches sees every change, one after the other", find_unseen_changes),
    "answered": ("as many have answered the very question as were asked for", find_missing_answers),
}


def judge_uses(spark: SparkSession, folder: str | Path) -> Judged:
    """All rules, on the rows of a folder."""
    uses = read_uses(spark, folder).cache()
    try:
        return Judged([_judge(uses, name) for name in RULES], _count(uses))
    finally:
        uses.unpersist()


def _judge(uses: DataFrame, name: str) -> Rule:
    words, find = RULES[name]
    broken = find(uses).cache()
    try:
        examples = [row["example"] for row in broken.orderBy("example").limit(NAMED_MAX).collect()]
        return Rule(name, words, broken.count(), examples)
    finally:
        broken.unpersist()


def _count(uses: DataFrame) -> dict[str, int]:
    def distinct(block: str, what: str) -> int:
        return uses.where((f.col("block") == block) & (f.col("what") == what)).select("number").distinct().count()

    again = uses.where((f.col("what") == "given") & (f.col("place") > 1)).count()
    refused = uses.where(f.col("what") == "refused").count()
    return {
        "grants": distinct("lock", "held"),
        "terms": distinct("election", "held"),
        "writes_refused": refused,
        "items_done": distinct("queue", "done"),
        "items_given_again": again,
        "swaps": distinct("map", "changed"),
        "swaps_late": uses.where((f.col("block") == "map") & (f.col("what") == "late")).count(),
        "changes_seen": uses.where(f.col("what") == "seen").count(),
        "additions": distinct("counter", "changed"),
        "questions": uses.where(f.col("what") == "answered").count(),
    }


def _held_by_several(rows: DataFrame, block: Column) -> DataFrame:
    holders = rows.groupBy(block, "number", "place").agg(f.sort_array(f.collect_set("holder")).alias("holder"))
    return _shown(holders.where(f.size("holder") > 1), "{block} {number} by {holder}")


def _shown(rows: DataFrame, words: str) -> DataFrame:
    """One sentence for each row, with the values of the columns that it names."""
    parts: list[Column] = []
    for piece in words.split("{"):
        column, found, rest = piece.rpartition("}")
        if found:
            is_list = dict(rows.dtypes)[column].startswith("array")
            parts.append(f.concat_ws(", ", column) if is_list else f.col(column).cast("string"))
        parts.append(f.lit(rest))
    return rows.select(f.concat(*parts).alias("example"))
