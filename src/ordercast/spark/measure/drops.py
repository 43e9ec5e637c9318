"""Packets that did not make it, by the reason."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from ordercast.measure.grouping import Grouping


def arrivals(events: DataFrame) -> DataFrame:
    """run, time, kind, reason: a row for each packet that reached a site or was lost on the way to it."""
    return events.where(F.col("kind").isin("receive", "drop")).select(
        "run", "time", "kind", F.coalesce("reason", F.lit("unknown")).alias("reason")
    )


def drops_by_reason(placed_arrivals: DataFrame, grouping: Grouping) -> DataFrame:
    """Keys, reason, packets, share: the share is of all packets received or dropped."""
    keys = grouping.keys
    everything = placed_arrivals.groupBy(*keys).agg(F.count("*").alias("all"))
    return (
        placed_arrivals.where(F.col("kind") == "drop")
        .groupBy(*keys, "reason")
        .agg(F.count("*").alias("packets"))
        .join(everything, keys)
        .withColumn("share", F.col("packets") / F.col("all"))
        .drop("all")
    )
