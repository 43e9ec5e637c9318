"""Histories that differ silently, in a large run.

Three searches find together what the judge would find in the whole. Parts cut by message show what is missing in the
end. Inverted pairs lie within knots, as for order. And a message that a site has passed by is found in Spark's SQL: the
judges' facts say, part by part, who lacks what it is owed; each of these is held against the deliveries of the sites
that have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check.facts import Facts
from ordercast.check.verdict import WITNESSES_MAX, Finding, Witness
from ordercast.check.wording import SKIPPED
from ordercast.spark.verify.large.blocks import in_doubt
from ordercast.spark.verify.large.columns import kept
from ordercast.spark.verify.large.obligations import obliged
from ordercast.spark.verify.large.order import taken_apart
from ordercast.spark.verify.large.packs import Find, ask_parts
from ordercast.spark.verify.large.parts import cut_by_message, judge_parts, part_rows_of
from ordercast.spark.verify.large.tables import Tables
from ordercast.trace.schema import REFUSED, Run

DIVERGENCE: Final = "no-silent-divergence"

_LACKING: Final = pa.schema([("message", pa.string()), ("site", pa.string())])


def find_divergence(tables: Tables) -> Finding:
    """Everything that the judge would find, up to a thousand witnesses."""
    # Where every member has got what was sent, nobody lacks anything.
    parts = cut_by_message(in_doubt(tables, [DIVERGENCE]) or tables.events, tables.limits.part_rows)
    in_parts = judge_parts(parts, tables.run, [DIVERGENCE])[DIVERGENCE]
    witnesses = [*in_parts.witnesses, *_inverted(tables)]
    passed, skipped = _skipped(tables, parts)
    some = in_parts.obliged or passed or bool(obliged(tables, ["multiple-group-order"]))
    return Finding(some, list(dict.fromkeys([*witnesses, *skipped]))[:WITNESSES_MAX])


def _inverted(tables: Tables) -> Sequence[Witness]:
    """Deliveries and refusals only: nobody is owed a message that nobody has multicast, so only inversions are seen."""
    with taken_apart(tables) as apart:
        if apart is None or not apart.parts:
            return ()
        inverted = apart.pairs_meet(tables, tables.events.where(F.col("kind") == "deliver"))
        numbers = sorted(row["part"] for row in inverted.select("part").distinct().collect())
        refusals = _refusals(tables.events).withColumn("part", F.explode(F.array(*map(F.lit, numbers))))
        both = inverted.unionByName(refusals, allowMissingColumns=True)
        return judge_parts(both, tables.run, [DIVERGENCE], overlapping=True)[DIVERGENCE].witnesses


def _refusals(events: DataFrame) -> DataFrame:
    return events.where((F.col("kind") == "fail") & (F.col("reason") == REFUSED))


def _skipped(tables: Tables, parts: DataFrame) -> tuple[bool, list[Witness]]:
    """Whether any site has passed by a message that it is owed, and the witnesses of those that are not excused."""
    lacking = ask_parts(part_rows_of(parts), _lacking(tables.run), _LACKING)
    with kept(lacking) as missing:
        if missing.isEmpty():
            return False, []
        rows = tables.events.where((F.col("kind") == "deliver") & F.col("message").isNotNull())
        first = rows.groupBy("site", "message").agg(F.min(F.struct("seq", "time")).alias("at"))
        at_x = first.select(
            F.col("site").alias("x"), "message", F.col("at.seq").alias("seq"), F.col("at.time").alias("time")
        )
        at_y = first.select(F.col("site").alias("y"), "message", F.col("at.time").alias("late_time"))
        concerned = missing.select(F.col("site").alias("y")).distinct()
        common = (
            at_x.drop("time")
            .withColumnsRenamed({"seq": "late_seq"})
            .join(at_y.join(F.broadcast(concerned), "y"), "message")
            .where("x <> y")
            .withColumnRenamed("message", "late")
        )
        last = common.groupBy("x", "y").agg(F.max("late_seq").alias("last_seq"))
        owed = missing.select("message", F.col("site").alias("y"))
        suspects = (
            at_x.join(owed, "message").where("x <> y").join(F.broadcast(last), ["x", "y"]).where("seq < last_seq")
        )
        with kept(suspects) as passed:
            if passed.isEmpty():
                return False, []
            pairs = passed.join(common, ["x", "y"]).where("seq < late_seq")
            found = pairs.where(~_excused(tables)).limit(WITNESSES_MAX).select("x", "y", "message", "late").collect()
    witnesses = [
        Witness(
            (row["x"], row["y"]),
            (row["message"], row["late"]),
            SKIPPED.format(row["x"], row["y"], a=row["message"], b=row["late"]),
        )
        for row in found
    ]
    return True, witnesses


def _excused(tables: Tables) -> Column:
    """Whether one of the two sites was refused after its part of the difference and before the other one's."""
    refused: dict[str, list[float]] = {}
    for row in _refusals(tables.events).select("site", "time").collect():
        refused.setdefault(row["site"], []).append(row["time"])
    excused = F.lit(False)
    for site, times in refused.items():
        for moment in times:
            early = (F.col("x") == site) & (F.col("time") < moment) & (F.col("late_time") > moment)
            late = (F.col("y") == site) & (F.col("late_time") < moment) & (F.col("time") > moment)
            excused = excused | early | late
    return excused


def _lacking(run: Run) -> Find:
    """The facts, as a function from the rows of a part to who lacks what it is owed and others have."""

    def find(_: int, rows: pa.Table) -> pa.Table:
        facts = Facts(run, rows).counting(DIVERGENCE)
        delivered = facts.deliveries.first_row >= 0
        lacks = np.argwhere(facts.owed & ~delivered & delivered.any(axis=0))
        names, sites = facts.columns.message_name, facts.columns.sites
        return pa.table(
            {"message": [names(message) for _, message in lacks], "site": [sites[site] for site, _ in lacks]},
            schema=_LACKING,
        )

    return find
