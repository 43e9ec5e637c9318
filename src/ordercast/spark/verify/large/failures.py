"""Consistent order in the presence of failures, in a large run: R1, R2 and their kin.

Inverted pairs lie within knots, as for order; the judges look at the knots, beside all that failed. Messages that a
site delivers more than once are looked at with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check.facts import Facts
from ordercast.check.facts.logical_failures import logical_failures
from ordercast.check.verdict import Finding
from ordercast.spark.verify.large.order import block_pairs, events_with_id, find_knots, is_certified, is_stuck
from ordercast.spark.verify.large.packs import Find, ask_parts
from ordercast.spark.verify.large.parts import judge_parts, of_sites, part_rows_of
from ordercast.spark.verify.large.tables import Tables, kept
from ordercast.trace.schema import Run

LOGICAL: Final = "R2-logical"
FAILURES: Final = frozenset(
    {LOGICAL, *(f"{name}{of}" for name in ("R1", "R2") for of in ("", "-single-source", "-multiple-source"))}
)

_BEHIND: Final = pa.schema([("site", pa.string()), ("since", pa.float64()), ("until", pa.int64())])
"""A site that is behind the majority from a moment on, and the seq of the row at which it no longer is, if there is."""


def find_disorder_despite_failures(tables: Tables, properties: Sequence[str]) -> dict[str, Finding]:
    """What is wrong, for those of these properties that are violated."""
    if not tables.sites or is_certified(tables):
        return {}
    events = events_with_id(tables)
    with kept(find_knots(tables)) as knots:
        if is_stuck(knots):
            apart, overlapping = block_pairs(tables, events), True
        else:
            apart, overlapping = events.join(_with_repeats(tables, knots), "id"), False
        numbers = sorted(row["part"] for row in apart.select("part").distinct().collect())
        if not numbers:
            return {}
        rows = apart.drop("id").unionByName(of_sites(tables.events, numbers))
        findings = judge_parts(rows, tables.run, properties, overlapping)
    return {name: finding for name, finding in findings.items() if finding.witnesses}


def _with_repeats(tables: Tables, knots: DataFrame) -> DataFrame:
    """part, id: the knots, and in parts of their own other messages that a site delivers more than once."""
    if not tables.repeats:
        return knots
    repeated = tables.messages.where("rows > at").join(knots, "id", "left_anti")
    parts = 1 + (repeated.agg(F.sum("rows")).collect()[0][0] or 0) // tables.limits.part_rows
    last = knots.agg(F.max("part")).collect()[0][0]
    first = 0 if last is None else last + 1
    number = (F.pmod("id", F.lit(parts)) + F.lit(first)).cast("int")
    return knots.unionByName(repeated.select(number.alias("part"), "id"))


def without_what_does_not_count(events: DataFrame, run: Run) -> DataFrame:
    """The events without deliveries that were taken back later, and without those of sites behind the majority."""
    deliveries = events.where(F.col("kind") == "deliver")
    others = events.where(~F.col("kind").isin("deliver", "rollback"))
    rollbacks = events.where(F.col("kind") == "rollback")
    if not rollbacks.isEmpty():
        last = rollbacks.groupBy("site", "message").agg(F.max("seq").alias("taken_back"))
        later = deliveries.join(last, ["site", "message"], "left")
        stays = F.col("taken_back").isNull() | (F.col("taken_back") < F.col("seq"))
        deliveries = later.where(stays).drop("taken_back")
    views = events.where(F.col("kind") == "view")
    if not views.isEmpty():
        about = part_rows_of(views.withColumn("part", F.lit(0)))
        found = ask_parts(about, _behind(run), _BEHIND)
        behind = F.broadcast(found.withColumnRenamed("site", "of"))
        during = (
            (F.col("of") == F.col("site"))
            & (F.col("time") >= F.col("since"))
            & (F.col("until").isNull() | (F.col("seq") < F.col("until")))
        )
        deliveries = deliveries.join(behind, during, "left_anti")
    return deliveries.unionByName(others)


def _behind(run: Run) -> Find:
    """The facts, as a function from all view rows to who is behind the majority, and when."""

    def find(_: int, rows: pa.Table) -> pa.Table:
        facts = Facts(run, rows)
        columns = facts.columns
        seq = columns.take("seq", columns.rows("view")).to_pylist()
        found = logical_failures(facts.views)
        until = [None if each.until == columns.site_start[each.site + 1] else seq[each.until] for each in found]
        return pa.table(
            {
                "site": [columns.sites[each.site] for each in found],
                "since": [each.moment for each in found],
                "until": until,
            },
            schema=_BEHIND,
        )

    return find
