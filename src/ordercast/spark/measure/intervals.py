"""Confidence intervals for many lines at once: a task computes each (how: `ordercast.measure.intervals`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from ordercast.measure.bootstrap import SAMPLE_MAX, quantile_line
from ordercast.measure.intervals import Ratios, ratio_line


def ratios_with_intervals(units: DataFrame, keys: list[str], sums: Sequence[str], ratios: Ratios) -> DataFrame:
    """For each key what `ratio_line` says. `units` has the keys, run, slice, and the columns to be summed."""
    fields = [units.schema[key] for key in keys]
    fields += [StructField("runs", LongType()), *(units.schema[name] for name in sums)]
    fields += [StructField(f"{name}{end}", DoubleType()) for name in ratios for end in ("", "_low", "_high")]
    fields += [StructField("units", StringType()), StructField("unit_count", IntegerType())]
    # A run may be a key as well as a unit.
    columns = list(dict.fromkeys([*keys, "run", "slice"]))
    small = units.groupBy(*columns).agg(*(F.sum(name).alias(name) for name in sums))
    plain = dict(ratios)

    def compute(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame([ratio_line(frame, keys, list(sums), plain)])

    return small.groupBy(*keys).applyInPandas(compute, StructType(fields))


def sample(rows: DataFrame, keys: list[str], sizes: DataFrame, identity: Sequence[str]) -> DataFrame:
    """About SAMPLE_MAX rows of each key, evenly, and always the same: chosen by a hash of the `identity` columns.

    `sizes` has the keys and their number of rows, `size`.
    """
    # A row stays when its hash, one of 2^32 numbers, lies below the share that is wanted.
    number = F.pmod(F.xxhash64(*identity), F.lit(1 << 32)) / F.lit(1 << 32)
    return rows.join(F.broadcast(sizes), keys).where(number < F.lit(SAMPLE_MAX) / F.col("size")).drop("size")


def quantile_intervals(rows: DataFrame, keys: list[str], value: str, quantiles: Mapping[str, float]) -> DataFrame:
    """For each key what `quantile_line` says. `rows` has the keys, run, slice and the value."""
    fields = [rows.schema[key] for key in keys]
    fields += [StructField(f"{name}{end}", DoubleType()) for name in quantiles for end in ("_low", "_high")]
    columns = list(dict.fromkeys([*keys, "run", "slice", value]))
    plain = dict(quantiles)

    def compute(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame([quantile_line(frame, keys, value, plain)])

    return rows.select(*columns).groupBy(*keys).applyInPandas(compute, StructType(fields))
