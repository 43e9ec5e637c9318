"""How the figures look."""

from __future__ import annotations

from itertools import cycle

from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")
"""Okabe and Ito's, which the colour-blind can tell apart too."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def styles() -> cycle[tuple[str, str]]:
    """A colour and a marker for one curve after the other."""
    return cycle(zip(COLOURS, MARKERS, strict=True))


def dress(axes: Axes, title: str, x: str, y: str, legend: bool = True) -> None:
    """Title, labels, a faint grid."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(frameon=False, fontsize=8)
