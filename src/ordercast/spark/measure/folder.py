"""A trace folder in, all its measures out, on Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from ordercast.measure import Grouping, Measured, Measures
from ordercast.measure.measures import COLUMNS
from ordercast.spark.measure.prepare import prepare
from ordercast.spark.measure.tables import SparkMeasures
from ordercast.spark.sound import refuse_unsound
from ordercast.spark.tables import open_trace, read_events
from ordercast.spark.tasks import plain_errors


def measure_folder(
    spark: SparkSession,
    folder: str | Path,
    grouping: Grouping,
    also: Callable[[Measures, Grouping, Measured], None] | None = None,
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
                measures = SparkMeasures(prepared)
                rows, exact = measures.everything(grouping)
                measured = Measured(rows, exact, len(trace.runs), trace.rows)
                if also is not None:
                    also(measures, grouping, measured)
        finally:
            events.unpersist()
    return measured
