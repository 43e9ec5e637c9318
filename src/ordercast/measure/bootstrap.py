"""Confidence intervals for quantiles: the bootstrap, over units as large as independence asks for (intervals.py)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ordercast.measure.intervals import CONFIDENCE, choose_units

RESAMPLES = 400
"""Ten of them lie outside the interval at each end, which is what its ends are read from."""

SAMPLE_MAX = 10_000
"""Values of one line that are looked at; ten of them lie above the 99.9th percentile, and 400 resamples take 50 ms."""

RUNS_MIN = 10
"""Two runs have three different resamples, ten have 92,378; with fewer runs their slices are drawn instead."""

_CHUNK = 50
"""Resamples at a time: 50 x 10,000 weights are 4 MB."""


def bootstrap_quantiles(
    values: np.ndarray, units: np.ndarray, probabilities: Sequence[float], seed: int
) -> list[tuple[float, float]]:
    """The interval of each quantile. `units` says to which unit (0, 1, …) each value belongs; units are drawn whole."""
    count = int(units.max()) + 1 if len(units) else 0
    if count < 2:
        return [(np.nan, np.nan)] * len(probabilities)
    order = np.argsort(values, kind="stable")
    values, units = values[order], units[order]
    random = np.random.default_rng(seed)
    found = np.empty((RESAMPLES, len(probabilities)))
    for begin in range(0, RESAMPLES, _CHUNK):
        drawn = random.multinomial(count, np.full(count, 1 / count), size=min(_CHUNK, RESAMPLES - begin))
        ranks = np.cumsum(drawn[:, units], axis=1)
        for row, cumulated in enumerate(ranks):
            # At least one value: of a resample of empty units there is none, but units without values are not drawn.
            wanted = np.maximum(np.array(probabilities) * cumulated[-1], 1)
            found[begin + row] = values[np.searchsorted(cumulated, wanted)]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(found, [tail, 1 - tail], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def quantile_line(
    frame: pd.DataFrame, keys: Sequence[str], value: str, quantiles: Mapping[str, float]
) -> dict[str, Any]:
    """Of the rows of one line: the keys, and NAME_low and NAME_high of each quantile. `frame` has the keys, run, slice
    and the value."""
    _, unit = choose_units(frame, RUNS_MIN)
    line: dict[str, Any] = {key: frame[key].iloc[0] for key in keys}
    # Numbered by name and sorted by value: the result must not depend on the order in which rows arrive.
    units = frame.groupby(unit, sort=True).ngroup().to_numpy()
    values = frame[value].to_numpy()
    order = np.lexsort((units, values))
    seed = zlib.crc32(repr(list(line.values())).encode())
    intervals = bootstrap_quantiles(values[order], units[order], list(quantiles.values()), seed)
    for name, (low, high) in zip(quantiles, intervals, strict=True):
        line |= {f"{name}_low": low, f"{name}_high": high}
    return line
