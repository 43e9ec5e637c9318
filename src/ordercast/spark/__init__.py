"""The Spark pipeline: sessions, tables, verification, measurements, experiments, streams.

Importing this package imports no PySpark; its modules do, and so does whoever asks for one of these names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordercast.spark.notebook import read_trace
    from ordercast.spark.source import register

__all__ = ["read_trace", "register"]

_HOMES = {"read_trace": "ordercast.spark.notebook", "register": "ordercast.spark.source"}


def __getattr__(name: str) -> Any:
    """The names above, when they are asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
