"""Traces: what happened at the sites of a run, as a folder of tables (docs/trace.md).

Reading and writing need pyarrow; it is imported when they are first used, not when this package is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ordercast.trace.schema import KINDS, Run

if TYPE_CHECKING:
    from ordercast.trace.read import iterate_runs, read_events, read_runs
    from ordercast.trace.schema import EVENTS
    from ordercast.trace.write import TraceWriter, write_trace

__all__ = ["EVENTS", "KINDS", "Run", "TraceWriter", "iterate_runs", "read_events", "read_runs", "write_trace"]

_HOME = {
    "EVENTS": "ordercast.trace.schema",
    "TraceWriter": "ordercast.trace.write",
    "write_trace": "ordercast.trace.write",
    "iterate_runs": "ordercast.trace.read",
    "read_events": "ordercast.trace.read",
    "read_runs": "ordercast.trace.read",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
