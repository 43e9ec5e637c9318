"""How the figures look."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import pandas as pd
from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")
"""Okabe and Ito's, which the colour-blind can tell apart too."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


Style = tuple[str, str]
"""A colour and a marker."""


def styles() -> cycle[Style]:
    """A colour and a marker for one curve after the other."""
    return cycle(zip(COLOURS, MARKERS, strict=True))


def curve(
    axes: Axes,
    x: pd.Series | Sequence[float],
    y: pd.Series | Sequence[float],
    style: Style,
    label: str | None = None,
    line: str = "-",
) -> None:
    """A line through its points, each of them marked."""
    colour, marker = style
    axes.plot(x, y, marker + line, color=colour, markersize=4, linewidth=1, label=label)


def dress(axes: Axes, title: str, x: str, y: str, legend: bool = True) -> None:
    """Title, labels, a faint grid."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(frameon=False, fontsize=8)
