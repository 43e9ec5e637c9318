"""A trace folder in, all its measures out, in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ordercast.measure.grouping import Grouping
from ordercast.measure.measures import COLUMNS, Measured, Measures
from ordercast.measure.tables import LocalMeasures
from ordercast.trace.read import read_events, read_runs


def measure_here(
    folder: str | Path,
    grouping: Grouping,
    also: Callable[[Measures, Grouping, Measured], None] | None = None,
) -> Measured:
    """Measure a trace that fits into memory; `also` may take more from it."""
    runs, events = read_runs(folder), read_events(folder)
    measures = LocalMeasures(events.select(COLUMNS), runs)
    measured = Measured(measures.everything(grouping), True, len(runs), len(events))
    if also is not None:
        also(measures, grouping, measured)
    return measured
