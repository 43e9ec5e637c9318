"""What the graphs of Spauster's chapter 4 have in common: grid, precision, how curves are drawn and compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ordercast.papers.artefact import Check
from ordercast.papers.style import dress, styles
from ordercast.spark.experiments import Experiment, Measure

FIXED_SIZE = 5
"""Of the groups, in all graphs over the number of sites."""
FIXED_SITES = 200
"""In the graphs over the size of the groups."""
RELATIVE, ABSOLUTE = 0.1, 0.5
"""The thesis' 95 % intervals: ±10 % of the mean; ±0.5 for extra nodes."""

Curve = tuple[str, str]
"""A measure, and what the legend calls it."""


def make_experiment(
    name: str,
    function: str,
    measures: Sequence[Measure],
    *,
    fast: bool,
    groups: Sequence[int],
    over_size: bool = False,
) -> Experiment:
    """Over 20 to 1000 sites with groups of 5, or over groups of 5 to 40 with 200 sites."""
    sites: Sequence[int] = (
        (20, 30, 50, 100, 200, 400, 1000) if fast else (20, 30, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1000)
    )
    sizes: Sequence[int] = (5, 10, 20, 40) if fast else (5, 7, 10, 12, 15, 20, 25, 30, 35, 40)
    return Experiment(
        name=name,
        grid={
            "sites": (FIXED_SITES,) if over_size else sites,
            "groups": groups,
            "group_size": sizes if over_size else (FIXED_SIZE,),
        },
        function=f"ordercast.papers.spauster.chapter_4_runs:{function}",
        measures=measures,
        # The widths that the thesis asks for need forty; shapes show better with more, and a run takes milliseconds.
        repetitions_min=20 if fast else 100,
        repetitions_max=200 if fast else 4000,
    )


def relative(*names: str) -> list[Measure]:
    """Measures known to ±10 %."""
    return [Measure(name, relative=RELATIVE) for name in names]


def absolute(*names: str) -> list[Measure]:
    """Measures known to ±0.5."""
    return [Measure(name, absolute=ABSOLUTE) for name in names]


def precise(data: pd.DataFrame, measures: Sequence[Measure]) -> Check:
    """Whether every point is known as well as the thesis knows it."""
    asked = [measure for measure in measures if measure.relative or measure.absolute]
    by_mean = any(measure.relative for measure in asked)
    widest = max(
        float((data[f"{measure.name}_half_width"] / (data[measure.name] if measure.relative else 1.0)).max())
        for measure in asked
    )
    bound = RELATIVE if by_mean else ABSOLUTE
    told = f"±{100 * widest:.1f} % of the mean" if by_mean else f"±{widest:.2f}"
    return Check(
        f"each point is asserted with 95 % confidence within {'±10 % of the mean' if by_mean else '±0.5'}",
        bool(widest <= bound),
        f"{len(data)} points, {int(data.repetitions.sum())} runs: the widest interval is {told}",
    )


def rises_and_falls(data: pd.DataFrame, measure: str, x: str, by: str = "groups") -> tuple[bool, str]:
    """Whether every curve has its highest point inside and ends clearly below it; told curve by curve."""
    told, holds = [], True
    for key, rows in data.groupby(by):
        rows = rows.sort_values(x)
        values, widths = rows[measure].to_numpy(), rows[f"{measure}_half_width"].to_numpy()
        top = int(np.argmax(values))
        # Highest inside, or not distinguishable from that with these intervals.
        begins_lower = top > 0 or values[0] - values[1] <= widths[0] + widths[1]
        ends_lower = values[-1] + widths[-1] < values[top] - widths[top]
        holds = holds and bool(begins_lower and ends_lower)
        told.append(
            f"{key} {by}: {values[0]:.2f} at {rows[x].iloc[0]}, {values[top]:.2f} at {rows[x].iloc[top]}, "
            f"{values[-1]:.2f} at {rows[x].iloc[-1]}"
        )
    return holds, "; ".join(told)


def goes_one_way(rows: pd.DataFrame, measure: str, x: str, sign: int) -> bool:
    """Whether a curve rises (1) or falls (-1) from each point to the next, as far as the intervals can tell, and from
    the first to the last in any case."""
    rows = rows.sort_values(x)
    steps = sign * np.diff(rows[measure].to_numpy())
    widths = rows[f"{measure}_half_width"].to_numpy()
    return bool((steps + widths[1:] + widths[:-1] > 0).all() and steps.sum() > widths[0] + widths[-1])


def plot_curves(axes: Axes, rows: pd.DataFrame, curves: Sequence[Curve], x: str) -> None:
    """A curve for each measure, with intervals."""
    for (measure, label), style in zip(curves, styles(), strict=False):
        plot_curve(axes, rows, measure, x, label, style)


def plot_by_groups(axes: Axes, data: pd.DataFrame, measure: str, x: str) -> None:
    """A curve for each number of groups."""
    for (groups, rows), style in zip(data.groupby("groups"), styles(), strict=False):
        plot_curve(axes, rows, measure, x, f"{groups} groups", style)


def plot_curve(axes: Axes, rows: pd.DataFrame, measure: str, x: str, label: str, style: tuple[str, str]) -> None:
    """Means with their intervals."""
    rows = rows.sort_values(x)
    colour, marker = style
    widths = rows[f"{measure}_half_width"]
    axes.errorbar(rows[x], rows[measure], widths, marker=marker, color=colour, markersize=4, label=label)


def label_axes(axes: Axes, title: str, x: str, y: str) -> None:
    """Over sites the axis is logarithmic."""
    dress(axes, title, "sites" if x == "sites" else "group size", y)
    if x == "sites":
        axes.set_xscale("log")
        ticks = (20, 50, 100, 200, 500, 1000)
        axes.set_xticks(ticks, labels=[str(tick) for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
