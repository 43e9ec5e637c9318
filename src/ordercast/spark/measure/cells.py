"""Where a row counts: for which protocol or run, in which time window, and in which slice of that.

Times are cut into windows [k·S, (k+1)·S) of the trace's own clock, so that the windows of different runs lie on each
other and on the times of a scenario's faults.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

SLICES = 16
"""Into so many equal parts the time of a run (or of a window of it) is cut for confidence intervals within one run:
enough for Student's t to be close to normal, few enough for a slice to be long beside what ties messages together (the
usual advice for batch means is 10 to 30). A power of two, so that the parts of a second add up to a second."""


class Grouping(NamedTuple):
    """One line of results for each …"""

    by: Literal["protocol", "run"] = "protocol"
    window_seconds: float | None = None

    @property
    def keys(self) -> list[str]:
        """The columns that tell one line from another."""
        keys = ["protocol"] if self.by == "protocol" else ["protocol", "run"]
        return keys if self.window_seconds is None else [*keys, "window"]

    def window_of(self, time: Column) -> Column:
        """The number of the window."""
        if self.window_seconds is None:
            return F.lit(0).cast("long")
        return F.floor(time / F.lit(self.window_seconds)).cast("long")


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
        "window", grouping.window_of(F.col(time))
    )
    begin, seconds = _busy_part(grouping)
    part = F.floor(F.lit(SLICES) * (F.col(time) - begin) / seconds)
    part = F.when(seconds > 0, F.greatest(F.lit(0), F.least(F.lit(SLICES - 1), part))).otherwise(F.lit(0))
    return placed.withColumn("slice", part.cast("int")).drop("busy_from", "busy_to")


def cells(spans: DataFrame, grouping: Grouping) -> DataFrame:
    """protocol, run, window, slice, seconds: all the time in which runs were busy, cut up."""
    first, last = (grouping.window_of(F.col(name)) for name in ("busy_from", "busy_to"))
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
