"""Cut a large run into parts that a worker can hold, and let the judges judge the parts.

What a part may be depends on the property: the judges look at one message at a time for some, at the messages of a
knot for others. Whoever cuts sees to it that the judges find in some part everything that they would find in the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check import WITNESSES_MAX, Verdict, Witness, choose, judge
from ordercast.check.verdict import Finding
from ordercast.spark.verify.large.packs import Find, ask_parts
from ordercast.trace.schema import COLUMNS, EVENTS, Run

BY_MESSAGE: Final = frozenset(
    {
        "integrity",
        "no-duplication",
        "uniform-agreement",
        "agreement",
        "termination",
        "view-termination",
        "selective-information",
        "atomic-receipt",
    }
)
"""Properties of single messages: what the judges say about one of them hangs on the rows that are about it or serve it,
and on who was up and member of what."""

BY_SOURCE: Final = frozenset({"reliable-source-order"})
"""Properties of the messages of one source: what the judges say about them hangs on nobody else's."""

BY_SITE: Final = frozenset({"recovery", "transitional-set", "view-agreement"})
"""Properties of sites, whatever they deliver: the few rows that are about sites say everything."""

_COLUMNS: Final = (
    *("site", "seq", "time", "kind", "message", "groups", "destinations", "messages", "reason"),
    *("service", "source", "view", "members", "transitional", "depends"),
)
"""What the judges of parts look at."""
_ONLY_OF: Final = {"source": "activate", "view": "view"}
"""Of these columns, the only kind of row in which they look at them; deliveries have them too, and are many."""
ABOUT_A_MESSAGE: Final = ("multicast", "deliver", "rollback")
ABOUT_SITES: Final = ("fail", "awake", "recover", "view", "join", "leave", "activate")

_FOUND: Final = pa.schema(
    [
        ("part", pa.int32()),
        ("place", pa.int32()),
        ("property", pa.string()),
        ("verdict", pa.string()),
        ("sites", pa.list_(pa.string())),
        ("messages", pa.list_(pa.string())),
        ("why", pa.string()),
    ]
)
"""A row a witness; one row, without `why`, for a property of a part that has none."""


def judge_by_message(events: DataFrame, run: Run, properties: Sequence[str], part_rows: int) -> dict[str, Finding]:
    """Properties of single messages: every message with all that concerns it in one part."""
    return judge_parts(cut_by_message(events, part_rows), run, properties)


def cut_by_message(events: DataFrame, part_rows: int) -> DataFrame:
    """The events with the number of their part: every message with all that concerns it in one."""
    relevant = events.where(F.col("kind").isin(*ABOUT_A_MESSAGE, *ABOUT_SITES, "send"))
    parts = max(1, -(-relevant.count() // part_rows))

    def part_of(message: Column) -> Column:
        return F.pmod(F.xxhash64(message), F.lit(parts)).cast("int")

    about = relevant.where(F.col("kind").isin(*ABOUT_A_MESSAGE)).withColumn("part", part_of(F.col("message")))
    # A packet that serves messages of several parts goes to all of these.
    served = F.array_distinct(F.transform("messages", part_of))
    sends = relevant.where(F.col("kind") == "send").withColumn("part", F.explode(served))
    return about.unionByName(of_sites(relevant, range(parts))).unionByName(sends)


def judge_by_source(events: DataFrame, run: Run, properties: Sequence[str], part_rows: int) -> dict[str, Finding]:
    """Properties of the messages of one source: all of these in one part."""
    return judge_parts(cut_by_source(events, part_rows), run, properties)


def cut_by_source(events: DataFrame, part_rows: int) -> DataFrame:
    """The events with the number of their part: every source with all that concerns its messages in one. (A message
    that nobody has multicast is of no source, and has a part by itself.)"""
    relevant = events.where(F.col("kind").isin(*ABOUT_A_MESSAGE, *ABOUT_SITES, "send"))
    parts = max(1, -(-relevant.count() // part_rows))
    multicasts = relevant.where(F.col("kind") == "multicast")
    # A message is its source's who multicasts it first.
    first = F.min_by("site", F.struct("time", "site", "seq"))
    number = F.pmod(F.xxhash64(first), F.lit(parts)).cast("int")
    parts_of = multicasts.groupBy("message").agg(number.alias("part"))
    own = F.pmod(F.xxhash64("message"), F.lit(parts)).cast("int")
    about = relevant.where(F.col("kind").isin(*ABOUT_A_MESSAGE)).join(parts_of, "message", "left")
    about = about.withColumn("part", F.coalesce("part", own))
    sends = relevant.where(F.col("kind") == "send").withColumn("served", F.explode("messages"))
    sends = sends.join(parts_of.withColumnRenamed("message", "served"), "served").drop("served")
    once = sends.dropDuplicates(["site", "seq", "part"])
    return about.unionByName(of_sites(relevant, range(parts))).unionByName(once)


def of_sites(events: DataFrame, parts: Iterable[int]) -> DataFrame:
    """The rows about sites, in each of these parts."""
    numbers = F.explode(F.array(*map(F.lit, parts)))
    return events.where(F.col("kind").isin(*ABOUT_SITES)).withColumn("part", numbers)


def judge_by_site(events: DataFrame, run: Run, properties: Sequence[str]) -> dict[str, Finding]:
    """Properties of sites: one part, with all that concerns them."""
    about = events.where(F.col("kind").isin(*ABOUT_SITES))
    return judge_parts(about.withColumn("part", F.lit(0)), run, properties)


def judge_parts(parts: DataFrame, run: Run, properties: Sequence[str], overlapping: bool = False) -> dict[str, Finding]:
    """Judge each part by itself; a witness in any of them is one. Parts that overlap may find the same ones."""
    found = ask_parts(part_rows_of(parts), _part_judge(run, properties), _FOUND)
    if overlapping:
        found = found.dropDuplicates(["property", "verdict", "sites", "messages", "why"])
    # What is wrong a thousand times is wrong; more need not reach the driver.
    number = F.row_number().over(Window.partitionBy("property", "verdict").orderBy("part", "place"))
    enough = F.when(F.col("why").isNull(), 1).otherwise(WITNESSES_MAX)
    kept = found.withColumn("number", number).where(F.col("number") <= enough)
    return _combine(kept.toArrow(), run, properties)


def part_rows_of(parts: DataFrame) -> DataFrame:
    """Of the rows of parts what the judges, and their facts, look at."""
    return parts.select("part", *(_filled(name) for name in _COLUMNS))


def _filled(name: str) -> Column:
    """A column, with nulls where nobody looks, and empty lists for nulls, which mean the same to the judges.

    For a column of lists on its way to Python, Spark takes a time that grows with the square of the nulls, unless told
    not to limit the bytes of a batch.
    """
    if name in _ONLY_OF:
        return F.when(F.col("kind") == _ONLY_OF[name], F.col(name)).alias(name)
    if not COLUMNS[name].startswith("list"):
        return F.col(name)
    none = F.array().cast("array<string>")
    return F.when(F.col("kind") == "deliver", none).otherwise(F.coalesce(name, none)).alias(name)


def _part_judge(run: Run, properties: Sequence[str]) -> Find:
    """The judges, as a function from the rows of a part to what is found in it."""

    choice = choose(properties)

    def judge_part(part: int, rows: pa.Table) -> pa.Table:
        verdicts = judge(run, rows, choice)
        found = [row for verdict in verdicts.values() for row in _rows(part, verdict)]
        return pa.Table.from_pylist(found, schema=_FOUND)

    return judge_part


def _rows(part: int, verdict: Verdict) -> Iterator[dict[str, object]]:
    common = {"part": part, "property": verdict.property, "verdict": verdict.verdict}
    if not verdict.all_witnesses:
        yield {**common, "place": 0}
    for place, witness in enumerate(verdict.all_witnesses):
        yield {
            **common,
            "place": place,
            "sites": list(witness.sites),
            "messages": list(witness.messages),
            "why": witness.why,
        }


def _combine(found: pa.Table, run: Run, properties: Sequence[str]) -> dict[str, Finding]:
    rows = sorted(found.to_pylist(), key=lambda row: (row["part"], row["place"]))
    findings = {}
    for name in properties:
        own = [row for row in rows if row["property"] == name]
        outcomes = {row["verdict"] for row in own}
        witnesses = [Witness(tuple(row["sites"]), tuple(row["messages"]), row["why"]) for row in own if row["why"]]
        findings[name] = Finding("holds" in outcomes, witnesses, judged=outcomes != {"not-judged"})
        if not own:
            # Not a single part: what the judge says of a run in which nothing happens.
            nothing = judge(run, EVENTS.empty_table(), choose([name]))[name]
            findings[name] = Finding(nothing.verdict == "holds", judged=nothing.verdict != "not-judged")
    return findings
