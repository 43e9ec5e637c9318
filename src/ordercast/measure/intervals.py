"""Confidence intervals for ratios of sums: mean latency, rates, packets per multicast.

A mean latency is the sum of latencies over their number, a throughput is messages over seconds. Single latencies of a
run are not independent (a lost packet delays all that come after it), so what is taken as independent are larger units:
the runs, where there are several, and else the slices of the one run (batch means). The interval is Student's t around
the ratio of all sums, with the spread of the units' residuals (the ratio estimator; Cochran 1977, chapter 6). With
units of one size it is the textbook interval for the mean of the units' means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

CONFIDENCE = 0.95

RUNS = "runs"
SLICES = "slices"

Ratios = Mapping[str, tuple[str, str]]
"""Name of the ratio -> the columns above and below the line."""


def ratio_interval(above: np.ndarray, below: np.ndarray) -> tuple[float, float, float]:
    """The ratio of the sums, and its interval; NaN for what the units are too few to say."""
    above, below = above[below > 0], below[below > 0]
    units = len(below)
    if units == 0:
        return np.nan, np.nan, np.nan
    ratio = above.sum() / below.sum()
    if units == 1:
        return ratio, np.nan, np.nan
    residuals = above - ratio * below
    error = np.sqrt((residuals**2).sum() / (units - 1) / units) / below.mean()
    half = stdtrit(units - 1, (1 + CONFIDENCE) / 2) * error
    low = ratio - half
    # What is counted, and time that clocks agree upon, is never below zero.
    return ratio, max(low, 0.0) if (above >= 0).all() else low, ratio + half


def choose_units(frame: pd.DataFrame, runs_min: int) -> tuple[str, list[str]]:
    """What counts as independent in these rows: their runs, or, where they are fewer, the slices of the runs."""
    return (RUNS, ["run"]) if frame["run"].nunique() >= runs_min else (SLICES, ["run", "slice"])


def ratio_line(frame: pd.DataFrame, keys: Sequence[str], sums: Sequence[str], ratios: Ratios) -> dict[str, Any]:
    """Of the rows of one line: the keys, the number of `runs`, the sums, and every ratio with NAME_low and NAME_high.

    `frame` has the keys, run, slice, and the columns to be summed (integers, or seconds). `units` and `unit_count` tell
    what the intervals come from.
    """
    # Two runs are enough for t to be right, if wide.
    kind, unit = choose_units(frame, runs_min=2)
    by_unit = frame.groupby(unit, sort=True)[list(sums)].sum()
    line: dict[str, Any] = {key: frame[key].iloc[0] for key in keys}
    line |= {"runs": frame["run"].nunique()} | {name: by_unit[name].sum() for name in sums}
    for name, (above, below) in ratios.items():
        ratio, low, high = ratio_interval(by_unit[above].to_numpy(), by_unit[below].to_numpy())
        line |= {name: ratio, f"{name}_low": low, f"{name}_high": high}
    return line | {"units": kind, "unit_count": len(by_unit)}
