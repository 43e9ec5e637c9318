"""The tables of an experiment: one row a run, and one row a point with means and intervals, worked out by Spark.

Tables travel between driver and workers by themselves: no folder has to be seen by both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.spark.experiments.experiment import Experiment, Point
from ordercast.spark.experiments.precision import t_quantile

Row = tuple[Point, int, int, Mapping[str, float | None]]
_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}


def repetition_table(experiment: Experiment, rows: Sequence[Row]) -> pa.Table:
    """One row a run, in the order of the grid."""
    columns: dict[str, pa.Array] = {}
    for name in experiment.grid:
        values = [point[name] for point, _, _, _ in rows]
        columns[name] = pa.array(values, _TYPES[type(values[0])])
    columns["repetition"] = pa.array([repetition for _, repetition, _, _ in rows], pa.int64())
    columns["seed"] = pa.array([seed for _, _, seed, _ in rows], pa.int64())
    for measure in experiment.measures:
        columns[measure.name] = pa.array([values[measure.name] for _, _, _, values in rows], pa.float64())
    return pa.table(columns)


def aggregate(spark: SparkSession, experiment: Experiment, table: pa.Table) -> DataFrame:
    """One row a point: the parameters, `repetitions`, and of each measure its mean, `_half_width`, `_min` and `_max`.

    Sums are taken in the order of the repetitions: in whatever order the rows happen to lie, the last digit would be
    another one on every cluster.
    """
    names = [measure.name for measure in experiment.measures]
    parameters = list(experiment.grid)
    counts = sorted(set(table.group_by(parameters).aggregate([([], "count_all")]).column("count_all").to_pylist()))
    quantiles = (
        F.create_map(*(F.lit(value) for count in range(2, max(counts) + 1) for value in (count, t_quantile(count))))
        if max(counts) > 1
        else None
    )
    frame = spark.createDataFrame(table)
    gathered = frame.groupBy(*parameters).agg(
        F.count(F.lit(1)).alias("repetitions"),
        *(_in_order(name).alias(f"_{name}") for name in names),
    )
    columns: list[Column] = [*(F.col(name) for name in parameters), F.col("repetitions")]
    for name in names:
        values = F.col(f"_{name}")
        count = F.size(values)
        mean = F.when(count > 0, _total(values) / count)
        columns += [
            mean.alias(name),
            _half_width(values, mean, count, quantiles).alias(f"{name}_half_width"),
            F.array_min(values).alias(f"{name}_min"),
            F.array_max(values).alias(f"{name}_max"),
        ]
    return gathered.select(*columns).orderBy(*parameters)


def _in_order(name: str) -> Column:
    """The values of a measure in the order of the repetitions, without those that are missing."""
    pairs = F.array_sort(F.collect_list(F.struct("repetition", F.col(name).alias("value"))))
    return F.filter(F.transform(pairs, lambda pair: pair["value"]), lambda value: value.isNotNull())


def _total(values: Column) -> Column:
    return F.aggregate(values, F.lit(0.0), lambda total, value: total + value)


def _half_width(values: Column, mean: Column, count: Column, quantiles: Column | None) -> Column:
    if quantiles is None:
        return F.lit(None).cast("double")
    squares = _total(F.transform(values, lambda value: (value - mean) * (value - mean)))
    error = F.sqrt(squares / (count - 1) / count)
    return F.when(count > 1, F.element_at(quantiles, count) * error)
