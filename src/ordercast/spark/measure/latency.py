"""How long messages take: to each site that delivers them, and until the last destination has them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from ordercast.measure.measures import ALL, EACH


def latencies(completed_messages: DataFrame) -> DataFrame:
    """run, message, site, multicast_at, latency, at: both kinds, of the messages whose multicast is known."""
    one = F.transform("deliveries", lambda first: _latency(first["site"], first["time"], EACH))
    whole = F.when(F.col("completed_at").isNotNull(), F.array(_latency(F.lit(""), F.col("completed_at"), ALL)))
    both = F.concat(one, F.coalesce(whole, F.array()))
    return (
        completed_messages.where(F.col("multicast_at").isNotNull())
        .select("run", "message", "multicast_at", F.explode(both).alias("one"))
        .select("run", "message", "one.site", "multicast_at", "one.latency", "one.at")
    )


def _latency(site: Column, time: Column, at: str) -> Column:
    return F.struct(site.alias("site"), (time - F.col("multicast_at")).alias("latency"), F.lit(at).alias("at"))
