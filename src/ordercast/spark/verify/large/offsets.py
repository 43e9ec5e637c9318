"""Offsets in a large run: where messages stand in their groups, worked out in Spark's SQL.

The rows of one site and group are walked through in their order, from one entry to the next; nothing of them is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check.verdict import WITNESSES_MAX, Finding, Witness
from ordercast.check.wording import OFFSETS_AT_THE_END, OFFSETS_DIFFER
from ordercast.spark.verify.large.columns import kept
from ordercast.trace.schema import Run

OFFSETS: Final = "offset-agreement"

_BEFORE_EVERYTHING: Final = -(2**63)
_STEP: Final = "site string, group string, seq long, kind string, message string, offset long, step long, failed long"


def find_differing_offsets(events: DataFrame, run: Run) -> Finding:
    """Everything that the judge would find, up to a thousand witnesses."""
    with kept(_walked(events, run)) as walked:
        obliged, witnesses = _find_differing(walked)
        if run.settled and not _is_anybody_down(events):
            at_rest, more = _find_differing_in_the_end(walked)
            obliged, witnesses = obliged or at_rest, [*witnesses, *more]
    return Finding(obliged, witnesses[:WITNESSES_MAX])


def _walked(events: DataFrame, run: Run) -> DataFrame:
    """site, group, seq, kind, message, step, and `start`: the offset at the last entry (null: none, or left since), and
    all steps before it; `before`: all steps before the row."""
    spark = events.sparkSession
    beginnings = [
        (site, group, _BEFORE_EVERYTHING, "join", None, 0, 0, None)
        for group, members in run.groups.items()
        for site in dict.fromkeys(members)
    ]
    by_group = Window.partitionBy("site", "group").orderBy("seq")
    steps = F.sum("step").over(by_group.rowsBetween(Window.unboundedPreceding, -1))
    moves = F.col("kind").isin("join", "leave")
    entry = F.when(moves, F.struct("offset", F.col("before").alias("steps")))
    entered = F.last(F.when(moves, F.col("seq")), ignorenulls=True).over(by_group)
    # What is read again from the log counts again behind an entry that was read again.
    counts = (F.col("kind") != "replay") | (F.col("failed") < F.col("entered"))
    return (
        spark.createDataFrame(beginnings, _STEP)
        .unionByName(_moves(events))
        .unionByName(_steps(events))
        .withColumn("entered", entered)
        .withColumn("step", F.when(counts, F.col("step")).otherwise(0))
        .withColumn("before", F.coalesce(steps, F.lit(0)))
        .withColumn("start", F.last(entry, ignorenulls=True).over(by_group))
        .withColumn("at", F.col("start.offset") + F.col("before") - F.col("start.steps"))
    )


def _moves(events: DataFrame) -> DataFrame:
    rows = events.where(F.col("kind").isin("join", "leave"))
    group = F.explode(F.array_distinct("groups")).alias("group")
    offset = F.when(F.col("kind") == "join", F.col("offset")).alias("offset")
    nothing = F.lit(None).cast("string").alias("message")
    none = F.lit(None).cast("long").alias("failed")
    return rows.select("site", group, "seq", "kind", nothing, offset, F.lit(0).cast("long").alias("step"), none)


def _steps(events: DataFrame) -> DataFrame:
    """Deliveries, rollbacks and replays, once for each group of their message's address. `failed`: the `seq` of the
    site's last fail before a replay."""
    first = F.min_by(F.struct("groups", "destinations"), F.struct("time", "site", "seq")).alias("first")
    addresses = events.where(F.col("kind") == "multicast").groupBy("message").agg(first)
    named = F.coalesce(F.size("first.destinations") > 0, F.lit(False))
    groups = F.explode(F.array_distinct("first.groups")).alias("group")
    of_site = Window.partitionBy("site").orderBy("seq")
    failed = F.last(F.when(F.col("kind") == "fail", F.col("seq")), ignorenulls=True).over(of_site).alias("failed")
    columns = ("site", "seq", "kind", "message", "count")
    replays = events.where(F.col("kind").isin("replay", "fail")).select(*columns, failed).where("kind = 'replay'")
    others = events.where(F.col("kind").isin("deliver", "rollback"))
    rows = others.select(*columns, F.lit(None).cast("long").alias("failed")).unionByName(replays)
    sign = F.when(F.col("kind") == "rollback", -1).otherwise(1)
    step = (sign * F.coalesce("count", F.lit(1))).cast("long").alias("step")
    nowhere = F.lit(None).cast("long").alias("offset")
    return rows.join(addresses.where(~named).select("message", groups), "message").select(
        "site", "group", "seq", "kind", "message", nowhere, step, "failed"
    )


def _find_differing(walked: DataFrame) -> tuple[bool, Sequence[Witness]]:
    delivered = (F.col("kind") == "deliver") & F.col("at").isNotNull()
    at = F.when(delivered, F.col("seq"))
    standing = (
        walked.where(F.col("message").isNotNull())
        .groupBy("group", "message", "site")
        .agg(
            F.max(at).alias("delivered"),
            F.max_by("at", at).alias("offset"),
            F.max(F.when(F.col("kind") == "rollback", F.col("seq"))).alias("taken_back"),
        )
        .where("delivered is not null and (taken_back is null or taken_back < delivered)")
    )
    with kept(standing) as stands:
        by_message = stands.groupBy("group", "message").agg(
            F.min_by(F.struct("site", "offset"), "site").alias("first"),
            F.count("*").alias("sites"),
            F.min("offset").alias("lowest"),
            F.max("offset").alias("highest"),
        )
        common = by_message.where("sites > 1")
        if common.isEmpty():
            return False, []
        differing = common.where("lowest <> highest").join(stands, ["group", "message"])
        found = (
            differing.where(F.col("offset") != F.col("first.offset"))
            .limit(WITNESSES_MAX)
            .select("group", "message", "site", "offset", "first.site", F.col("first.offset").alias("other"))
            .toDF("group", "message", "second", "two", "first", "one")
            .collect()
        )
    return True, [
        Witness(
            (row["first"], row["second"]),
            (row["message"],),
            OFFSETS_DIFFER.format(
                row["first"], row["second"], a=row["message"], group=row["group"], one=row["one"], two=row["two"]
            ),
        )
        for row in found
    ]


def _is_anybody_down(events: DataFrame) -> bool:
    last = {kind: F.max(F.when(F.col("kind") == kind, F.col("seq"))).alias(kind) for kind in ("fail", "recover")}
    sites = events.where(F.col("kind").isin(*last)).groupBy("site").agg(*last.values())
    return not sites.where("fail is not null and (recover is null or recover < fail)").isEmpty()


def _find_differing_in_the_end(walked: DataFrame) -> tuple[bool, Sequence[Witness]]:
    last = walked.groupBy("group", "site").agg(F.max_by("start", "seq").alias("start"), F.sum("step").alias("steps"))
    at = F.col("start.offset") + F.col("steps") - F.col("start.steps")
    rows = last.where("start.offset is not null").select("group", "site", at.alias("at"))
    there: dict[str, list[tuple[str, int]]] = {}
    for row in rows.orderBy("group", "site").collect():
        there.setdefault(row["group"], []).append((row["site"], row["at"]))
    obliged = any(len(sites) > 1 and any(at for _, at in sites) for sites in there.values())
    witnesses = []
    for group, ((first, one), *others) in there.items():
        for site, two in others:
            if two != one:
                why = OFFSETS_AT_THE_END.format(first, site, group=group, one=one, two=two)
                witnesses.append(Witness((first, site), (), why))
    return obliged, witnesses
