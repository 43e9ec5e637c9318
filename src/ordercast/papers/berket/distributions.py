"""Distributions of latencies as curves: which share of the messages is there after so long."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from ordercast.papers.berket.latencies import QUANTILES
from ordercast.papers.style import curve, styles


def draw_distributions(axes: Axes, rows: pd.DataFrame) -> None:
    """One curve a row, with the row's `system` for a name."""
    for (_, row), style in zip(rows.iterrows(), styles(), strict=False):
        times = [row.least_ms, *(row[f"q{share:02}_ms"] for share in QUANTILES), row.largest_ms]
        curve(axes, times, [0, *QUANTILES, 100], style, row.system)
