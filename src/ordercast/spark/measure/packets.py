"""What a multicast costs on the network: packets and bytes, by the protocol's own type of packet."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from ordercast.measure.grouping import Grouping
from ordercast.measure.measures import COSTS
from ordercast.spark.measure.intervals import ratios_with_intervals

_CELL = ("protocol", "run", "window", "slice")


def sends(events: DataFrame) -> DataFrame:
    """run, site, seq, time, peer, packet, packet_id, messages, size, background: one row a packet that was sent.

    A packet that serves no message in particular (null, not an empty list) is background traffic: acknowledgements of
    many messages at once, heartbeats, membership.
    """
    return events.where(F.col("kind") == "send").select(
        "run",
        "site",
        "seq",
        "time",
        "peer",
        F.coalesce("packet", F.lit("")).alias("packet"),
        "packet_id",
        "messages",
        F.coalesce("size", F.lit(0)).alias("size"),
        F.col("messages").isNull().alias("background"),
    )


def packets_by_type(placed_sends: DataFrame, placed_multicasts: DataFrame, grouping: Grouping) -> DataFrame:
    """Keys, packet, background, packets, bytes, multicasts, and the first two per multicast with their intervals."""
    types = [*grouping.keys, "packet", "background"]
    # The cells in which something was multicast stand once for every type, so that a slice without a packet of some
    # type counts as one with none of them.
    asked = placed_multicasts.groupBy(*_CELL).agg(F.count("*").alias("multicasts"))
    totals = placed_sends.groupBy(*dict.fromkeys([*_CELL, *types])).agg(
        F.count("*").alias("packets"), F.sum("size").alias("bytes")
    )
    below = asked.join(totals.select(*types).distinct(), grouping.keys)
    nothing = F.lit(0).cast("long")
    units = totals.withColumn("multicasts", nothing).unionByName(
        below.select(*_CELL, "packet", "background", nothing.alias("packets"), nothing.alias("bytes"), "multicasts")
    )
    return ratios_with_intervals(units, types, ("packets", "bytes", "multicasts"), COSTS)
