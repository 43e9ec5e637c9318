"""View changes: how many, and how long it takes until all who install a view have it."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from ordercast.measure.grouping import Grouping


def installations(events: DataFrame) -> DataFrame:
    """run, site, view, time, changes, view_began: a row for each `view` row.

    `changes` says that the site had an earlier view (of the same groups), `view_began` when the first site
    installed this one.
    """
    at_site = Window.partitionBy("run", "site", "groups")
    of_view = Window.partitionBy("run", "view")
    return (
        events.where(F.col("kind") == "view")
        .select("run", "site", "seq", "groups", "view", "time")
        .withColumn("changes", F.col("seq") > F.min("seq").over(at_site))
        .withColumn("view_began", F.min("time").over(of_view))
        .drop("seq", "groups")
    )


def view_changes(placed_installations: DataFrame, grouping: Grouping) -> DataFrame:
    """Keys, views, installations, changes, spread_mean, spread_max (seconds from first to last installation).

    A view belongs to the window in which the first site installed it.
    """
    keys = grouping.keys
    per_view = placed_installations.groupBy(*dict.fromkeys([*keys, "run", "view"])).agg(
        F.count("*").alias("installations"),
        F.sum(F.col("changes").cast("long")).alias("changes"),
        F.max(F.col("time") - F.col("view_began")).alias("spread"),
    )
    return per_view.groupBy(*keys).agg(
        F.count("*").alias("views"),
        F.sum("installations").alias("installations"),
        F.sum("changes").alias("changes"),
        F.avg("spread").alias("spread_mean"),
        F.max("spread").alias("spread_max"),
    )
