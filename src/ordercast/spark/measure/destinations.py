"""Who is to get each message, and who can be expected to have it in the end."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

ALWAYS = float("-inf")
"""Since before the run began."""


def membership(events: DataFrame, initial_groups: DataFrame) -> DataFrame:
    """run, owed (group -> array of site and since), down (array of sites): a row a run.

    A message to a group is owed to those who were members when it was multicast and have not left since. So all that
    matters of a site's joins and leaves is the stretch after its last leave, and one number says when that began.
    A site is down when it has a failure and no recovery after it.
    """
    moves = events.where(F.col("kind").isin("join", "leave", "fail", "recover")).select(
        "run", "site", "seq", "time", "kind", F.explode_outer("groups").alias("group")
    )
    begins = initial_groups.select(
        "run",
        "site",
        F.lit(-1).cast("long").alias("seq"),
        F.lit(ALWAYS).alias("time"),
        F.lit("join").alias("kind"),
        "group",
    )
    joins = F.collect_list(F.when(F.col("kind") == "join", F.struct("seq", "time")))
    by_site = (
        moves.unionByName(begins)
        .groupBy("run", "site", "group")
        .agg(joins.alias("joins"), *(_last(kind) for kind in ("leave", "fail", "recover")))
    )
    since = F.array_min(
        F.transform(F.filter("joins", lambda join: join["seq"] > F.col("leave")), lambda join: join["time"])
    )
    by_group = (
        by_site.withColumn("since", since)
        .groupBy("run", "group")
        .agg(
            F.collect_list(F.when(F.col("since").isNotNull(), F.struct("site", "since"))).alias("members"),
            # Failures and recoveries name no group.
            F.collect_list(F.when(F.col("fail") > F.col("recover"), F.col("site"))).alias("down"),
        )
    )
    return by_group.groupBy("run").agg(
        F.map_from_entries(F.collect_list(F.when(F.col("group").isNotNull(), F.struct("group", "members")))).alias(
            "owed"
        ),
        F.flatten(F.collect_list("down")).alias("down"),
    )


def with_completion(messages: DataFrame, membership: DataFrame) -> DataFrame:
    """The messages with `completed_at`: when the last destination delivered, null where one never did.

    A destination that is down at the end of the run is not waited for; else one site that crashes for good in the first
    second would leave nothing to measure. If it delivered the message before, that delivery counts as any other.
    """
    delivered_at = F.transform("deliveries", lambda delivery: delivery["site"])
    missing = F.array_except(F.array_except(_destinations(), F.coalesce("down", F.array())), delivered_at)
    last = F.array_max(F.transform("deliveries", lambda delivery: delivery["time"]))
    is_complete = F.col("multicast_at").isNotNull() & (F.size(missing) == 0)
    return (
        messages.join(F.broadcast(membership), "run", "left")
        .withColumn("completed_at", F.when(is_complete, last))
        .drop("owed", "down", "groups", "destinations")
    )


def _destinations() -> Column:
    """Of a message and the membership of its run. Explicit destinations are the address; an empty list is none."""
    none = F.array().cast("array<string>")

    def members(group: Column) -> Column:
        in_time = F.filter(F.col("owed")[group], lambda member: member["since"] <= F.col("multicast_at"))
        return F.coalesce(F.transform(in_time, lambda member: member["site"]), none)

    through_groups = F.coalesce(F.flatten(F.transform("groups", members)), none)
    return F.when(F.size("destinations") > 0, F.col("destinations")).otherwise(through_groups)


def _last(kind: str) -> Column:
    """The seq of the last row of a kind; before every other where there is none."""
    return F.coalesce(F.max(F.when(F.col("kind") == kind, F.col("seq"))), F.lit(-2)).alias(kind)
