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
from ordercast.spark.verify.large.order import Apart, taken_apart
from ordercast.spark.verify.large.packs import Find, ask_parts
from ordercast.spark.verify.large.parts import judge_parts, of_sites, part_rows_of
from ordercast.spark.verify.large.tables import Tables
from ordercast.trace.schema import Run

LOGICAL: Final = "R2-logical"
FAILURES: Final = frozenset(
    {LOGICAL, *(f"{name}{of}" for name in ("R1", "R2") for of in ("", "-single-source", "-multiple-source"))}
)

_BEHIND: Final = pa.schema([("site", pa.string()), ("since", pa.float64()), ("until", pa.int64())])
"""A site that is behind the majority from a moment on, and the seq of the row at which it no longer is, if there is."""


def find_disorder_despite_failures(tables: Tables, properties: Sequence[str]) -> dict[str, Finding]:
    """What is wrong, for those of these properties that are violated."""
    with taken_apart(tables) as apart:
        if apart is None:
            return {}
        about = apart.pairs_meet(tables, tables.events)
        if not apart.stuck and not apart.by_key and tables.repeats:
            about = about.unionByName(_repeats(tables, apart))
        numbers = sorted(row["part"] for row in about.select("part").distinct().collect())
        if not numbers:
            return {}
        rows = about.unionByName(of_sites(tables.events, numbers))
        findings = judge_parts(rows, tables.run, properties, apart.stuck)
    return {name: finding for name, finding in findings.items() if finding.witnesses}


def _repeats(tables: Tables, apart: Apart) -> DataFrame:
    """Other messages that a site delivers more than once, in parts of their own. (A message that comes again with its
    key makes a span, but no knot.)"""
    repeated = tables.messages.where("rows > at").join(apart.ids, "id", "left_anti")
    parts = 1 + (repeated.agg(F.sum("rows")).collect()[0][0] or 0) // tables.limits.part_rows
    first = max(apart.parts, default=-1) + 1
    number = (F.pmod("id", F.lit(parts)) + F.lit(first)).cast("int")
    ids = repeated.select(number.alias("part"), "id")
    return Apart(ids, frozenset(range(first, first + parts)), tables.id_of).rows(tables.events)


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
