"""Sending order in a large run: where the numbers of a source ascend at a site, digests say so.

Elsewhere each site's deliveries are put beside the numbers of their multicasts, by Spark's SQL.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check.facts.streams import ALL_AT_ONCE
from ordercast.check.verdict import WITNESSES_MAX, Finding, Witness
from ordercast.spark.verify.large.evidence import Evidence
from ordercast.spark.verify.large.obligations import EXPLICIT, first_multicasts
from ordercast.spark.verify.large.tables import Tables, tabulate

_BY_GROUP: Final = "source-order"
_BY_ADDRESS: Final = "group-source-order"
SENDING_ORDER: Final = frozenset({_BY_GROUP, _BY_ADDRESS})

_STREAM: Final = ("code", "source", "stream")
"""What is delivered at one site, of one source, and judged together."""


def find_sending_disorder(tables: Tables, name: str) -> Finding:
    """Where a site does not deliver the messages of a source in the order in which it multicast them: all that it sends
    to a group, or all that it sends to one address."""
    if not tables.sites:
        return Finding(obliged=False)
    evidence = tables.evidence
    if evidence is None or not evidence.numbers_are_sound or not evidence.two_of_a_source:
        return _find_in_rows(tables, name)
    if evidence.sending_disorder.isEmpty():
        return Finding(obliged=True)
    with tabulate(_where_numbers_fall(tables, evidence), tables.run, tables.limits, digests=False) as few:
        return Finding(True, _find_in_rows(few, name).witnesses)


def _where_numbers_fall(tables: Tables, evidence: Evidence) -> DataFrame:
    """The events with the deliveries of those sources at those sites where their numbers do not ascend."""
    deliveries = tables.events.where(F.col("kind") == "deliver")
    doubtful = F.broadcast(evidence.sending_disorder.toDF("at", "of"))
    own = (F.xxhash64("site") == F.col("at")) & (F.xxhash64("source") == F.col("of"))
    return deliveries.join(doubtful, own, "left_semi").unionByName(tables.events.where(F.col("kind") != "deliver"))


def _find_in_rows(tables: Tables, name: str) -> Finding:
    if not tables.sites:
        return Finding(obliged=False)
    multicasts = first_multicasts(tables)
    if name == _BY_ADDRESS:
        streams = multicasts.withColumn("stream", F.col("address").cast("string"))
    else:
        streams = multicasts.withColumn("stream", F.explode(_streams(tables, multicasts)))
    sent = tables.first_deliveries().join(streams.select("id", "source", "sent", "stream"), "id")
    begun = sent.withColumn("begun", F.lit(0)) if name == _BY_ADDRESS else _begun(tables, sent)
    stretch = Window.partitionBy(*_STREAM, "begun").orderBy("seq")
    neighbours = begun.select(
        *_STREAM,
        "seq",
        "sent",
        "id",
        F.lag("sent").over(stretch).alias("sent_before"),
        F.lag("id").over(stretch).alias("id_before"),
    )
    against = F.col("sent") < F.col("sent_before")
    said = neighbours.agg(F.max(F.col("sent_before").isNotNull()), F.max(against)).collect()[0]
    if not said[1]:
        return Finding(bool(said[0]))
    # In two groups a message may have the same neighbour.
    wrong = neighbours.where(against).dropDuplicates(["code", "id", "id_before"])
    rows = wrong.orderBy("code", "source", "seq").limit(WITNESSES_MAX).collect()
    names = _names(tables, {row["id"] for row in rows} | {row["id_before"] for row in rows})
    return Finding(True, [_witness(tables, row, names) for row in rows])


def _streams(tables: Tables, multicasts: DataFrame) -> Column:
    """What a message is judged in: each group of its address, or everything at once where the run claims one order.
    Messages with explicit destinations are of no group, so they are in each."""
    everything = F.array(F.lit(""))
    if ALL_AT_ONCE in tables.run.guarantees:
        return everything
    is_explicit = F.get("address", F.lit(0)) == EXPLICIT
    if tables.run.groups and multicasts.where(is_explicit).isEmpty():
        return F.col("address")
    named = multicasts.where(~is_explicit).select(F.explode("address").alias("group")).distinct().collect()
    groups = sorted({row["group"] for row in named} | set(tables.run.groups))
    if not groups:
        return everything
    return F.when(is_explicit, F.array(*map(F.lit, groups))).otherwise(F.col("address"))


def _begun(tables: Tables, sent: DataFrame) -> DataFrame:
    """The deliveries with how often their site had begun anew with their source, in their stream, before them."""
    chosen = tables.events.where(F.col("kind") == "activate").select(
        "site",
        F.col("seq").alias("chosen_at"),
        F.col("groups").alias("for_groups"),
        F.col("source").alias("for_source"),
    )
    if chosen.isEmpty():
        return sent.withColumn("begun", F.lit(0))
    codes = F.create_map(*(item for code, site in enumerate(tables.sites) for item in (F.lit(site), F.lit(code))))
    chosen = chosen.withColumn("code", codes[F.col("site")]).drop("site")
    for_all = F.coalesce(F.size("for_groups") <= 0, F.lit(True)) | (F.col("stream") == "")
    concerned = (for_all | F.array_contains("for_groups", F.col("stream"))) & (
        F.col("for_source").isNull() | (F.col("for_source") == F.col("source"))
    )
    marks = (
        F.broadcast(chosen)
        .join(sent.select(*_STREAM).distinct(), "code")
        .where(concerned)
        .select(*_STREAM, F.col("chosen_at").alias("seq"), F.lit(1).alias("begins"))
    )
    both = sent.withColumn("begins", F.lit(0)).unionByName(marks, allowMissingColumns=True)
    so_far = F.sum("begins").over(Window.partitionBy(*_STREAM).orderBy("seq"))
    return both.withColumn("begun", so_far).where("begins = 0").drop("begins")


def _witness(tables: Tables, row: Row, names: dict[int, str]) -> Witness:
    site, source = tables.sites[row["code"]], str(row["source"])
    first, second = names[row["id_before"]], names[row["id"]]
    why = f"{site} delivers {first} before {second}, but {source} multicast {second} first"
    return Witness((site, source), (first, second), why)


def _names(tables: Tables, wanted: set[int]) -> dict[int, str]:
    rows = tables.events.where(F.col("kind") == "multicast").select(
        tables.id_of(F.col("message")).alias("id"), "message"
    )
    found = rows.where(F.col("id").isin(sorted(wanted))).distinct().collect()
    return {row["id"]: row["message"] for row in found}
