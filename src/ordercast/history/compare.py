"""What has changed between two commits, and whether it has: the bootstrap of the difference.

The values of one name and thing under a commit are a sample, one value a run and addition. Both samples are drawn anew
with replacement 2,000 times, and the interval of the ratio of their means (of the difference, for shares, which can be
0) is read from what comes out: the percentile bootstrap (Efron and Tibshirani 1993, chapter 13). A share of so many
runs is drawn as that many runs. A single value has no interval: what it differs by is shown, and never called
significant.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from ordercast.core.errors import UsageError
from ordercast.history.rows import HISTORY

RESAMPLES: Final = 2000
"""Fifty of them lie outside the interval at each end."""
CONFIDENCE: Final = 0.95

_MORE_IS_BETTER: Final = ("throughput.", "campaign.runs_per_second")
_DIFFERENCES: Final = ("verdict.", "campaign.violations", "campaign.vacuous_runs")
"""Shares, which are often 0: of these the difference is told, of everything else the ratio."""


class Change(NamedTuple):
    """One thing under both commits."""

    name: str
    of: str
    before: float
    after: float
    change: float
    """By which share it has grown; for shares themselves, by how much."""
    low: float
    high: float
    """The interval of the change; NaN where a commit has one value only."""
    worse_when_more: bool

    @property
    def has_interval(self) -> bool:
        """Whether both commits have more than one value."""
        return not np.isnan(self.low)

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out no change at all."""
        return self.low > 0 or self.high < 0

    def is_worse_by(self, share: float) -> bool:
        """Whether it is worse by more than this share, with the whole interval; of a change without an interval, that
        of a share from none to some counts."""
        if not self.has_interval:
            return self.worse_when_more and self.before == 0 and self.change > share and _is_share(self.name)
        return self.low > share if self.worse_when_more else self.high < -share


def compare(table: pa.Table, before: str, after: str) -> list[Change]:
    """Every thing that has values under both commits, by name."""
    values = [_values(table, commit) for commit in (before, after)]
    both = sorted(values[0].keys() & values[1].keys())
    if not both:
        raise UsageError(f"{before} and {after} have nothing in common that could be compared")
    return list(_changes(both, values))


class _Sample(NamedTuple):
    values: np.ndarray
    counts: np.ndarray
    """Of how many runs each value is the share; 0: it is a value."""

    @property
    def mean(self) -> float:
        weights = self.counts if self.counts.all() else np.ones(len(self.values))
        return float(np.average(self.values, weights=weights))

    @property
    def units(self) -> int:
        return int(self.counts.sum()) if self.counts.all() else len(self.values)

    def resampled(self, random: np.random.Generator) -> np.ndarray:
        """Means of samples like this one."""
        if self.counts.all():
            return random.binomial(self.units, self.mean, RESAMPLES) / self.units
        return self.values[random.integers(0, len(self.values), (RESAMPLES, len(self.values)))].mean(axis=1)


def _values(table: pa.Table, commit: str) -> dict[tuple[str, str], _Sample]:
    known = table.column("commit").to_pylist()
    if commit not in known:
        told = ", ".join(list(dict.fromkeys(reversed(known)))[:10]) or "none"
        raise UsageError(f"the table has nothing of commit {commit!r}; the latest that it has: {told}")
    found: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for row in table.select(HISTORY.names).to_pylist():
        if row["commit"] == commit and row["value"] is not None:
            found.setdefault((row["name"], row["of"]), []).append((row["value"], row["count"] or 0))
    return {
        thing: _Sample(*(np.array(column) for column in zip(*values, strict=True))) for thing, values in found.items()
    }


def _changes(things: Iterable[tuple[str, str]], values: list[dict[tuple[str, str], _Sample]]) -> Iterator[Change]:
    for name, of in things:
        old, new = (sample[name, of] for sample in values)
        # The same rows give the same interval, in whatever order they were added.
        random = np.random.default_rng(zlib.crc32(f"{name} {of}".encode()))
        share = _is_share(name)
        low = high = np.nan
        if old.units > 1 and new.units > 1:
            drawn = _change(old.resampled(random), new.resampled(random), share)
            tail = (1 - CONFIDENCE) / 2
            low, high = (float(end) for end in np.quantile(drawn, [tail, 1 - tail]))
        change = float(_change(np.array([old.mean]), np.array([new.mean]), share)[0])
        worse_when_more = not name.startswith(_MORE_IS_BETTER)
        yield Change(name, of, old.mean, new.mean, change, low, high, worse_when_more)


def _change(old: np.ndarray, new: np.ndarray, share: bool) -> np.ndarray:
    if share:
        return new - old
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(old == new, 0.0, new / old - 1)


def _is_share(name: str) -> bool:
    return name.startswith(_DIFFERENCES)
