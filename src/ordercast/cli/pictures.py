"""Pictures of a run: its space-time diagram, and its deliveries over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure

from ordercast.cli.diagram import what_happens

HAPPENINGS_MAX = 80
"""More do not fit side by side."""
LINES_MAX = 12
"""Curves that can be told apart."""

_COLOURS = {
    "multicast": "#0969da",
    "deliver": "#1a7f37",
    "replay": "#7fb08c",
    "rollback": "#a040a0",
    "fail": "#cf222e",
    "awake": "#bf8700",
    "recover": "#9a6700",
    "drop": "#cf222e",
    "receive": "#8c959f",
}
_MARKERS = {"fail": "X", "drop": "x", "receive": ".", "multicast": "D"}


def space_time_figure(events: pa.Table, messages: set[str] | None, sites: Sequence[str]) -> Figure:
    """Sites as lines, time from left to right, one step a happening; packets as arrows into what they lead to."""
    happenings = [each for each in what_happens(events, messages) if each.site in sites][:HAPPENINGS_MAX]
    level = {site: len(sites) - 1 - number for number, site in enumerate(sites)}
    figure = Figure(figsize=(max(7.0, 2.0 + 0.62 * len(happenings)), 1.4 + 0.85 * len(sites)))
    axes = figure.subplots()
    for site in sites:
        axes.axhline(level[site], color="#8c959f", linewidth=1, zorder=1)
    for at, each in enumerate(happenings):
        colour = _COLOURS.get(each.kind, "#57606a")
        height = level[each.site]
        if each.peer in level and each.peer != each.site:
            axes.annotate(
                "",
                (at, height),
                (at - 0.8, level[each.peer]),
                arrowprops={"arrowstyle": "-|>", "color": colour, "linestyle": ":" if each.kind == "drop" else "-"},
            )
        axes.plot(at, height, marker=_MARKERS.get(each.kind, "o"), color=colour, markersize=7, zorder=3)
        axes.annotate(
            each.text,
            (at, height),
            (0, 8),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=colour,
            zorder=4,
            # An arrow may pass behind it.
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.8},
        )
    axes.set_yticks([level[site] for site in sites], labels=list(sites))
    step = max(1, len(happenings) // 12)
    shown = range(0, len(happenings), step)
    axes.set_xticks(list(shown), labels=[f"{happenings[at].time:.3f}" for at in shown], fontsize=7)
    axes.set_xlabel("seconds (not to scale: one step for each thing that happens)", fontsize=8)
    axes.set_xlim(-1, max(1, len(happenings)))
    axes.set_ylim(-0.6, len(sites) - 0.55)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return figure


def delivery_figure(curves: pa.Table) -> Figure:
    """How many messages each site has delivered by when; failures and recoveries as marks on its curve."""
    figure = Figure(figsize=(9.0, 4.2))
    axes = figure.subplots()
    sites = sorted(pc.unique(curves.column("site")).to_pylist())
    for number, site in enumerate(sites[:LINES_MAX]):
        here = curves.filter(pc.equal(curves.column("site"), site))
        times, counts = _cumulative(here, "deliver")
        if not len(times):
            continue
        # Sites that do the same have the same curve: the first are drawn broad, and show behind the others.
        (line,) = axes.step(times, counts, where="post", label=site, linewidth=4.0 - 0.28 * number)
        for kind, marker in (("fail", "X"), ("recover", "^")):
            for time in here.filter(pc.equal(here.column("kind"), kind)).column("time").to_pylist():
                height = counts[max(0, int(np.searchsorted(times, time, "right")) - 1)]
                axes.plot(time, height, marker=marker, color=line.get_color(), markersize=9, zorder=3)
    times, counts = _cumulative(curves.sort_by("time"), "multicast")
    if len(times):
        axes.step(times, counts, where="post", color="#8c959f", linestyle="--", linewidth=1, label="multicast by all")
    axes.set_xlabel("seconds")
    axes.set_ylabel("messages so far")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, frameon=False)
    if len(sites) > LINES_MAX:
        axes.set_title(f"the first {LINES_MAX} of {len(sites)} sites", fontsize=9, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def _cumulative(curves: pa.Table, kind: str) -> tuple[np.ndarray, np.ndarray]:
    of_kind = curves.filter(pc.equal(curves.column("kind"), kind))
    return of_kind.column("time").to_numpy(), np.cumsum(of_kind.column("count").to_numpy())
