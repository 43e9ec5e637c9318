"""The load of each site: the packets that it sends and receives (Spauster 1991, section 4.1.2)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from ordercast.measure.grouping import Grouping


def packet_ends(events: DataFrame) -> DataFrame:
    """run, site, time, kind, size: a row for each send and each receive, background traffic included."""
    return events.where(F.col("kind").isin("send", "receive")).select("run", "site", "time", "kind", "size")


def load_by_site(placed_ends: DataFrame, placed_multicasts: DataFrame, grouping: Grouping) -> DataFrame:
    """Keys, site, sends, receives, load, bytes, load_per_multicast."""
    keys = grouping.keys
    multicasts = placed_multicasts.groupBy(*keys).agg(F.count("*").alias("multicasts"))
    sent, received = (F.sum((F.col("kind") == kind).cast("long")) for kind in ("send", "receive"))
    return (
        placed_ends.groupBy(*keys, "site")
        .agg(sent.alias("sends"), received.alias("receives"), F.coalesce(F.sum("size"), F.lit(0)).alias("bytes"))
        .withColumn("load", F.col("sends") + F.col("receives"))
        .join(multicasts, keys, "left")
        .withColumn("load_per_multicast", F.col("load") / F.col("multicasts"))
        .drop("multicasts")
    )
