"""Where a row counts: for which protocol or run, in which time window, and in which slice of that."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from ordercast.measure.grouping import SLICES, Grouping


def busy_spans(messages: DataFrame) -> DataFrame:
    """run, busy_from, busy_to; null where nothing was multicast.

    A run is busy from its first multicast to its last multicast or first delivery of a message: the time that a
    scenario lets it settle, in which nothing is asked of it, is not held against its throughput.
    """
    last = F.array_max(F.transform("deliveries", lambda delivery: delivery["time"]))
    return messages.groupBy("run").agg(
        F.min("multicast_at").alias("busy_from"), F.max(F.greatest("multicast_at", last)).alias("busy_to")
    )


def whole_spans(events: DataFrame) -> DataFrame:
    """run, first_at, last_at: of all its events."""
    return events.groupBy("run").agg(F.min("time").alias("first_at"), F.max("time").alias("last_at"))


def place(rows: DataFrame, time: str, spans: DataFrame, grouping: Grouping) -> DataFrame:
    """The rows with `protocol`, `window` and `slice`, by their column `time`; `spans` has the protocol of each run."""
    placed = rows.join(F.broadcast(spans.select("run", "protocol", "busy_from", "busy_to")), "run").withColumn(
        "window", _window_of(grouping, F.col(time))
    )
    begin, seconds = _busy_part(grouping)
    part = F.floor(F.lit(SLICES) * (F.col(time) - begin) / seconds)
    part = F.when(seconds > 0, F.greatest(F.lit(0), F.least(F.lit(SLICES - 1), part))).otherwise(F.lit(0))
    return placed.withColumn("slice", part.cast("int")).drop("busy_from", "busy_to")


def cells(spans: DataFrame, grouping: Grouping) -> DataFrame:
    """protocol, run, window, slice, seconds: all the time in which runs were busy, cut up."""
    first, last = (_window_of(grouping, F.col(name)) for name in ("busy_from", "busy_to"))
    windows = spans.where(F.col("busy_from").isNotNull()).withColumn("window", F.explode(F.sequence(first, last)))
    _, seconds = _busy_part(grouping)
    return windows.withColumn("slice", F.explode(F.sequence(F.lit(0), F.lit(SLICES - 1)))).select(
        "protocol", "run", "window", "slice", (seconds / F.lit(SLICES)).alias("seconds")
    )


def _busy_part(grouping: Grouping) -> tuple[Column, Column]:
    """Of the columns busy_from, busy_to and window: when the busy part of the window begins, and how long it is."""
    begin, end = F.col("busy_from"), F.col("busy_to")
    if grouping.window_seconds is not None:
        length = F.lit(grouping.window_seconds)
        begin = F.greatest(begin, F.col("window") * length)
        end = F.least(end, (F.col("window") + 1) * length)
    return begin, F.greatest(end - begin, F.lit(0.0))


def _window_of(grouping: Grouping, time: Column) -> Column:
    """The number of the window."""
    if grouping.window_seconds is None:
        return F.lit(0).cast("long")
    return F.floor(time / F.lit(grouping.window_seconds)).cast("long")
