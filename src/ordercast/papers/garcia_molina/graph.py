"""Figure 3.2 in motion: the host parent graph organises itself, breaks and heals."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from ordercast.core import SiteId
from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.garcia_molina.graph_run import HOSTS, MOMENTS, PLACES
from ordercast.papers.style import COLOURS
from ordercast.spark.experiments import Experiment, Measure

ORGANISED = (8.0, 16.0, 22.0, 30.0, 44.0)
"""Moments at which every cluster has had time to agree on a leader."""


def experiment(fast: bool) -> Experiment:
    """One run, looked at several times."""
    return Experiment(
        name="garcia-molina-graph",
        grid={"moment": tuple(MOMENTS)},
        function="ordercast.papers.garcia_molina.graph_run:run_moment",
        measures=[
            *(Measure(f"parent_of_{host.lower()}") for host in HOSTS),
            Measure("clusters"),
            Measure("leaders_max"),
            Measure("on_cycles"),
        ],
        repetitions_min=1,
        repetitions_max=1,
    )


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """A cluster tree whenever there was time for one, and no cycle ever."""
    organised = data[data.moment.isin(ORGANISED)]
    return [
        Check(
            "4.3: hosts of a cluster tend to organise into a single cluster tree node",
            bool((organised.leaders_max == 1).all()),
            ", ".join(
                f"{row.moment:g} s: {int(row.clusters)} clusters, at most {int(row.leaders_max)} leaders in one"
                for row in organised.sort_values("moment").itertuples()
            ),
        ),
        Check(
            "4.3: there are no persistent cycles",
            bool((data.on_cycles == 0).all()),
            f"{int(data.on_cycles.sum())} hosts on cycles at {len(data)} moments",
        ),
    ]


def _position(host: SiteId) -> tuple[float, float]:
    x, y = PLACES[host[0]]
    angle = pi / 4 + (int(host[1]) - 1) * pi / 2
    return x + 0.62 * cos(angle), y + 0.42 * sin(angle)


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """A picture a moment, from left to right and down."""
    grid = figure.subplots(2, (len(MOMENTS) + 1) // 2)
    for axes, row in zip(grid.flat, data.sort_values("moment").itertuples(), strict=False):
        _draw_moment(axes, {host: getattr(row, f"parent_of_{host.lower()}") for host in HOSTS})
        axes.set_title(f"{row.moment:g} s: {MOMENTS[float(row.moment)]}", fontsize=9)


def _draw_moment(axes: Axes, parents: dict[SiteId, float]) -> None:
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(-1.3, 7.3)
    axes.set_ylim(-2.6, 2.6)
    for cluster, (x, y) in PLACES.items():
        axes.add_patch(Ellipse((x, y), 2.2, 1.7, facecolor="#f2f2f2", edgecolor="#bbbbbb", linewidth=0.8))
        axes.text(x, y, cluster, color="#bbbbbb", fontsize=11, ha="center", va="center")
    for host, parent in parents.items():
        if pd.notna(parent) and parent >= 0:
            leads = HOSTS[int(parent)][0] != host[0]
            axes.annotate(
                "",
                xy=_position(host),
                xytext=_position(HOSTS[int(parent)]),
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": COLOURS[1] if leads else COLOURS[0],
                    "linewidth": 1.4 if leads else 0.9,
                    "shrinkA": 4,
                    "shrinkB": 4,
                },
            )
    for host, parent in parents.items():
        x, y = _position(host)
        up = pd.notna(parent)
        axes.plot([x], [y], "s", markersize=6, color=COLOURS[6] if up else "white", markeredgecolor=COLOURS[6])
        axes.text(x, y + 0.2, host, fontsize=6, ha="center")


ARTEFACT = Artefact(
    name="garcia-molina-graph",
    title="The host parent graph organises itself, breaks and heals",
    paper="Garcia-Molina, Kogan, Lynch 1987, Figure 3.2 and sections 4.1 to 4.3",
    says="""
Hosts attempt to configure themselves into a tree with the source as its root. The children of every cluster leader
include all other hosts of its cluster: the host parent graph induces a cluster tree. When links and hosts fail the
tree is broken, and the hosts reconfigure into another one if at all possible. No cycle is stable.
""",
    made="""
Four clusters of four hosts, A1 the source; pictures of one run. Arrows go from parent to child, those between clusters
are orange; ellipses are the clusters as they are when all links work, hollow squares hosts that are down. B4 is down
from 10 to 26 s, D is split from 18 to 26 s, A is cut off from 31 to 38 s. `parent_of_…` are numbers of hosts from 0 in
the order A1, A2, …, D4; −1 is none.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
    figure_inches=(14.0, 6.0),
)
