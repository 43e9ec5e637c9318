"""Packets that carry a message again: same message, same two sites, same type of packet, and not the first one."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from ordercast.measure.grouping import Grouping


def carried(sends: DataFrame, events: DataFrame) -> DataFrame:
    """run, site, seq, time, packet, receiver, message: every message that a packet carries to every receiver.

    A network multicast goes to all who got it or should have got it, i.e. have a `receive` or `drop` row of it, so that
    a repair sent to one of them alone is known for what it is. It also goes to "everyone" (null): when nobody hears
    the first one, the second one is still a repetition.
    """
    one = sends.where(~F.col("background")).select(
        "run", "site", "seq", "time", "packet", "packet_id", F.col("peer").alias("receiver"), "messages"
    )
    to_all = one.where(F.col("receiver").isNull()).drop("receiver")
    heard = (
        events.where(F.col("kind").isin("receive", "drop"))
        .select("run", "packet_id", F.col("site").alias("receiver"))
        .distinct()
    )
    both = one.unionByName(to_all.join(heard, ["run", "packet_id"]))
    # A message that is listed twice in a packet is still carried once by it.
    return both.withColumn("message", F.explode(F.array_distinct("messages"))).drop("packet_id", "messages")


def repetitions(carried: DataFrame) -> DataFrame:
    """Those rows of `carried` that are not the first of their message, sites and type."""
    same = Window.partitionBy("run", "site", "receiver", "packet", "message")
    return (
        carried.withColumn("first_seq", F.min("seq").over(same))
        .where(F.col("seq") > F.col("first_seq"))
        .drop("first_seq")
    )


def retransmissions(placed_repetitions: DataFrame, placed_sends: DataFrame, grouping: Grouping) -> DataFrame:
    """Keys, packet, packets, repeated_messages, share: for each type of packet that serves messages.

    `packets` are those that repeat at least one message, `repeated_messages` the repetitions that they carry,
    `share` the part of all packets of the type that `packets` are.
    """
    types = [*grouping.keys, "packet"]
    all_packets = placed_sends.where(~F.col("background")).groupBy(*types).agg(F.count("*").alias("all"))
    # A packet may repeat a message to several receivers.
    per_packet = placed_repetitions.groupBy(*dict.fromkeys([*types, "run", "site", "seq"])).agg(
        F.countDistinct("message").alias("repeated")
    )
    counted = per_packet.groupBy(*types).agg(
        F.count("*").alias("packets"), F.sum("repeated").alias("repeated_messages")
    )
    nothing = F.lit(0)
    return (
        all_packets.join(counted, types, "left")
        .withColumns(
            {
                "packets": F.coalesce("packets", nothing),
                "repeated_messages": F.coalesce("repeated_messages", nothing),
            }
        )
        .withColumn("share", F.col("packets") / F.col("all"))
        .drop("all")
    )
