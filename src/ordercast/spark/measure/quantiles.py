"""Latencies summed up: number, mean, extremes, quantiles, and how sure one can be of them."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from ordercast.measure.bootstrap import SAMPLE_MAX
from ordercast.measure.grouping import Grouping
from ordercast.measure.measures import CURVE, QUANTILES
from ordercast.spark.measure.intervals import quantile_intervals, ratios_with_intervals, sample

IDENTITY = ("run", "message", "site", "at")
"""What tells one latency from another."""

EXACT_MAX = 1_000_000
"""The exact quantile keeps every different value of a line in the memory of one task, at some 100 bytes each: a million
is 100 MB, which the smallest executor has. Beyond that Spark's approximation, whose sketch has a fixed size."""

ACCURACY = 10_000
"""The approximate quantile's rank is off by at most a 10,000th of the number of values: the 99.9th percentile is one
between the 99.89th and the 99.91st."""


def quantile_column(value: str, probabilities: list[float], exact: bool) -> Column:
    """An array with the quantiles of a group."""
    wanted = F.array(*(F.lit(probability) for probability in probabilities))
    return F.percentile(value, wanted) if exact else F.percentile_approx(value, wanted, ACCURACY)


class Sizes(NamedTuple):
    """How many values each line has, known before they are looked at."""

    table: DataFrame
    """The keys and `size`."""
    largest: int


def count_lines(latencies: DataFrame, keys: list[str]) -> Sizes:
    """Count the values of each key; the lines are few, so the driver keeps them."""
    counted = latencies.groupBy(*keys).agg(F.count("*").alias("size"))
    rows = counted.collect()
    table = latencies.sparkSession.createDataFrame(rows, counted.schema)
    return Sizes(table, max((row["size"] for row in rows), default=0))


def summarize_latency(latencies: DataFrame, grouping: Grouping, sizes: Sizes, exact: bool) -> DataFrame:
    """Keys, `at`, and what there is to say about the latencies; they have been placed by their multicast."""
    keys = [*grouping.keys, "at"]
    summary = latencies.groupBy(*keys).agg(
        F.sum((F.col("latency") < 0).cast("long")).alias("negative"),
        F.min("latency").alias("min"),
        F.max("latency").alias("max"),
        quantile_column("latency", list(QUANTILES.values()), exact).alias("quantiles"),
    )
    for place, name in enumerate(QUANTILES):
        summary = summary.withColumn(name, F.col("quantiles")[place])
    counted = latencies.withColumn("count", F.lit(1).cast("long")).withColumnRenamed("latency", "total")
    means = ratios_with_intervals(counted, keys, ("count", "total"), {"mean": ("total", "count")})
    looked_at = latencies if sizes.largest <= SAMPLE_MAX else sample(latencies, keys, sizes.table, IDENTITY)
    intervals = quantile_intervals(looked_at, keys, "latency", QUANTILES)
    return means.drop("total").join(summary.drop("quantiles"), keys).join(intervals, keys, "left")


def latency_curve(latencies: DataFrame, keys: list[str], exact: bool) -> DataFrame:
    """Keys, `probabilities`, `latencies`: the distribution as a curve of evenly spaced quantiles, its tail finer."""
    return latencies.groupBy(*keys).agg(
        F.array(*(F.lit(probability) for probability in CURVE)).alias("probabilities"),
        quantile_column("latency", list(CURVE), exact).alias("latencies"),
    )
