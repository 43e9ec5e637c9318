"""The tables that a trace is measured by, wherever they are computed, and their rows as plain values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ordercast.measure.grouping import Grouping

Rows = list[dict[str, Any]]

EACH: Final = "each"
"""A latency for each first delivery."""
ALL: Final = "all"
"""A latency for each message that all its destinations have: that of the last one."""

QUANTILES: Final[dict[str, float]] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
CURVE: Final = tuple(sorted({*(step / 200 for step in range(201)), 0.999, 0.9999}))
"""The probabilities of a curve: evenly spaced, and finer in the tail."""

COUNTS: Final = ("multicasts", "messages", "completed", "deliveries")
RATES: Final = {f"{name}_per_second": (name, "seconds") for name in ("messages", "completed", "deliveries")}
COSTS: Final = {"packets_per_multicast": ("packets", "multicasts"), "bytes_per_multicast": ("bytes", "multicasts")}

COLUMNS: Final = (
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


class Measures(Protocol):
    """A trace that has been prepared, to be asked for its tables."""

    @property
    def times(self) -> Mapping[str, tuple[float, float]]:
        """Run -> when its first and last event happened."""
        ...

    def latency(self, grouping: Grouping) -> tuple[Rows, bool]:
        """A row for each line and `at`, and whether the quantiles are exact."""
        ...

    def curves(self, grouping: Grouping) -> Rows:
        """The distributions of the latencies."""
        ...

    def throughput(self, grouping: Grouping) -> Rows:
        """A row for each window in which a run was busy, also where nothing happened."""
        ...

    def packets(self, grouping: Grouping) -> Rows:
        """Packets and bytes by type."""
        ...

    def load(self, grouping: Grouping) -> Rows:
        """What each site sends and receives (Spauster 1991, section 4.1.2)."""
        ...

    def retransmissions(self, grouping: Grouping) -> Rows:
        """Packets that carry a message again, by type."""
        ...

    def drops(self, grouping: Grouping) -> Rows:
        """Packets that did not make it, by the reason."""
        ...

    def views(self, grouping: Grouping) -> Rows:
        """How many view changes, and how long they take."""
        ...


def plain_rows(rows: Iterable[Mapping[str, Any]], order: Sequence[str], grouping: Grouping) -> Rows:
    """The rows sorted, as plain values: a window as its ends in seconds, what is not a number as None."""
    by_key = sorted(rows, key=lambda row: tuple(row[name] for name in order))
    return [_plain(row, order, grouping.window_seconds) for row in by_key]


def _plain(row: Mapping[str, Any], order: Sequence[str], window_seconds: float | None) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name in [*order, *(name for name in row if name not in order)]:
        value = row[name]
        if name == "window" and window_seconds is not None:
            plain |= {"from": value * window_seconds, "to": (value + 1) * window_seconds}
        else:
            plain[name] = None if isinstance(value, float) and not math.isfinite(value) else value
    return plain
