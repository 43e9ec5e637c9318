"""How much gets through: application messages multicast, delivered, and delivered everywhere, per second."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from ordercast.measure.grouping import Grouping
from ordercast.measure.measures import COUNTS, RATES
from ordercast.spark.measure.intervals import ratios_with_intervals


def throughput_units(
    cells: DataFrame, multicasts: DataFrame, completions: DataFrame, deliveries: DataFrame
) -> DataFrame:
    """protocol, run, window, slice, seconds and COUNTS, to be summed: what happened in each slice of the busy time.

    A message counts when it is multicast, a completion when its last destination has it, a delivery when it happens;
    all are application messages but `multicasts`, which are what the protocol orders.
    """
    nothing = F.lit(0).cast("long")
    parts = [
        cells.select("protocol", "run", "window", "slice", "seconds", *(nothing.alias(name) for name in COUNTS)),
        _part(multicasts, multicasts=F.lit(1), messages=F.col("count")),
        _part(completions, completed=F.col("count")),
        _part(deliveries, deliveries=F.col("count")),
    ]
    return reduce(DataFrame.unionByName, parts)


def throughput(units: DataFrame, grouping: Grouping) -> DataFrame:
    """Keys, `runs`, `seconds`, COUNTS, and the RATES with their intervals; not a number where no time has passed."""
    return ratios_with_intervals(units, grouping.keys, ("seconds", *COUNTS), RATES)


def _part(rows: DataFrame, **counts: Column) -> DataFrame:
    columns = {name: F.lit(0) for name in COUNTS} | counts
    return rows.select(
        "protocol",
        "run",
        "window",
        "slice",
        F.lit(0.0).alias("seconds"),
        *(columns[name].cast("long").alias(name) for name in COUNTS),
    )
