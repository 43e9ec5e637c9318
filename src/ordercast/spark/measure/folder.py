"""A trace folder in, all its measures out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from ordercast.spark.measure.cells import Grouping
from ordercast.spark.measure.prepare import Prepared, prepare
from ordercast.spark.measure.tables import Rows, latency_rows, measure_trace, throughput_rows
from ordercast.spark.sound import refuse_unsound
from ordercast.spark.tables import Trace, open_trace, read_events
from ordercast.spark.tasks import plain_errors

COLUMNS = (
    *("run", "site", "seq", "time", "kind", "message", "groups", "destinations", "count", "size"),
    *("peer", "packet", "packet_id", "messages", "reason", "view"),
)
"""The columns of a trace that measures look at."""


class Measured(NamedTuple):
    """What came of it."""

    rows: dict[str, Rows]
    exact: bool
    """Whether the quantiles are exact."""
    runs: int
    events: int


def measure_folder(
    spark: SparkSession,
    folder: str | Path,
    grouping: Grouping,
    also: Callable[[Prepared, Grouping, Measured], None] | None = None,
) -> Measured:
    """Measure a trace; `also` may take more from it before it is put away."""
    with plain_errors():
        trace = open_trace(spark, folder)
        events = read_events(spark, trace, columns=COLUMNS)
        if all(piece.exact for piece in trace.pieces):
            refuse_unsound(trace, events)
        else:
            # Read by Python, which checks the values as it goes; and read once, for it is slow.
            events = events.persist()
        try:
            with prepare(events, list(trace.runs.values())) as prepared:
                rows, exact = measure_trace(prepared, grouping)
                measured = Measured(rows, exact, len(trace.runs), trace.rows)
                if also is not None:
                    also(prepared, grouping, measured)
        finally:
            events.unpersist()
    return measured


def measure_speed(spark: SparkSession, trace: Trace) -> dict[str, Rows]:
    """Latency and throughput of each protocol alone, which takes a fraction of the time."""
    grouping = Grouping("protocol", None)
    with plain_errors():
        events = read_events(spark, trace, columns=COLUMNS).persist()
        try:
            with prepare(events, list(trace.runs.values())) as prepared:
                return {
                    "latency": latency_rows(prepared, grouping)[0],
                    "throughput": throughput_rows(prepared, grouping),
                }
        finally:
            events.unpersist()
