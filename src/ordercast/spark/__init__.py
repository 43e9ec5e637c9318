"""The Spark pipeline: sessions, tables, verification, measurements, experiments, streams.

Importing this package imports no PySpark; its modules do, and so does whoever asks for `register` (a session reads no
more of a trace than conditions ask for) or `read_trace` (a trace as a DataFrame).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {"read_trace": "ordercast.spark.notebook", "register": "ordercast.spark.source"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
