"""Each message once, with its multicast and its first delivery at each site."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it


def message_table(events: DataFrame) -> DataFrame:
    """run, message, multicast_at, groups, destinations, count, deliveries (site, seq, time, count; by site).

    The multicast is the earliest one (null where there is none), a site's delivery the one with the lowest seq: a
    redelivery adds nothing, and a replay is no delivery. One shuffle of the `multicast` and `deliver` rows: a message
    has hardly more deliveries than a run has sites, so they fit in an array, and nothing has to be joined afterwards.
    """
    is_multicast = F.col("kind") == "multicast"
    multicast = F.struct("time", "site", "seq", "groups", "destinations", F.coalesce("count", F.lit(1)).alias("count"))
    delivery = F.struct("site", "seq", "time", "count")
    return (
        events.where(F.col("kind").isin("multicast", "deliver"))
        .groupBy("run", "message")
        .agg(
            F.min(F.when(is_multicast, multicast)).alias("first"),
            F.array_sort(F.collect_list(F.when(~is_multicast, delivery))).alias("all"),
        )
        .select(
            "run",
            "message",
            F.col("first.time").alias("multicast_at"),
            F.col("first.groups").alias("groups"),
            F.col("first.destinations").alias("destinations"),
            F.coalesce("first.count", F.lit(1)).alias("count"),
            F.filter("all", _is_first_of_site).alias("deliveries"),
        )
    )


def _is_first_of_site(delivery: Column, place: Column) -> Column:
    before = F.get(F.col("all"), place - 1)
    return (place == 0) | (delivery["site"] != before["site"])


def multicasts(messages: DataFrame) -> DataFrame:
    """run, message, multicast_at, count: of the messages whose multicast is known."""
    known = messages.where(F.col("multicast_at").isNotNull())
    return known.select("run", "message", "multicast_at", "count")


def deliveries(messages: DataFrame) -> DataFrame:
    """run, message, site, multicast_at, delivered_at, count: each first delivery at a site."""
    return messages.select(
        "run",
        "message",
        "multicast_at",
        F.col("count").alias("multicast_count"),
        F.explode("deliveries").alias("first"),
    ).select(
        "run",
        "message",
        F.col("first.site").alias("site"),
        "multicast_at",
        F.col("first.time").alias("delivered_at"),
        # The number of application messages may be told by the multicast only.
        F.coalesce("first.count", "multicast_count").alias("count"),
    )
