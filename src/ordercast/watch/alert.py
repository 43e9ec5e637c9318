"""What a watch has to say."""

from __future__ import annotations

from typing import Final

import msgspec

ALERT_COLUMNS: Final = (
    "time double, run string, property string, sites array<string>, messages array<string>, why string"
)
"""The columns of a table of alerts, in Spark's words."""


class Alert(msgspec.Struct, frozen=True):
    """Something that must not be."""

    time: float
    """Of the row that showed it; seconds since 1970 in the trace of a live cluster."""
    run: str
    property: str
    sites: tuple[str, ...]
    messages: tuple[str, ...]
    why: str
