"""Graphs 4.4 and 4.5: the load of the busiest site, of the propagation graph, the two-phase and the centralised
solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.spauster.chapter_4 import (
    FIXED_SITES,
    FIXED_SIZE,
    Curve,
    goes_one_way,
    label_axes,
    make_experiment,
    plot_curves,
    precise,
    relative,
)
from ordercast.spark.experiments import Experiment

CURVES: tuple[Curve, ...] = (
    ("load_centralized", "centralized"),
    ("load", "propagation graph"),
    ("load_two_phase", "two-phase (receivers)"),
)
_MEASURES = [name for name, _ in CURVES]


def _experiment(name: str, over_size: bool) -> Callable[[bool], Experiment]:
    return lambda fast: make_experiment(
        name,
        "run_heuristic",
        relative(*_MEASURES),
        fast=fast,
        groups=(20, 40) if fast else (10, 20, 30, 40),
        over_size=over_size,
    )


def _checks(x: str) -> Callable[[pd.DataFrame], Sequence[Check]]:
    def checks(data: pd.DataFrame) -> Sequence[Check]:
        compromise = (data.load_two_phase <= data.load) & (data.load < data.load_centralized)
        share = data.load / data.load_centralized
        found = [
            precise(data, relative(*_MEASURES)),
            Check(
                "the propagation graph strikes a compromise: more load than two-phase has at receivers, less than "
                "centralized",
                bool(compromise.all()),
                f"at {int(compromise.sum())} of {len(data)} points; its busiest site has "
                f"{100 * share.min():.0f} to {100 * share.max():.0f} % of the centre's load",
            ),
        ]
        parts = [rows.sort_values(x) for _, rows in data.groupby("groups")]
        curves = [rows.load for rows in parts]
        ends = "; ".join(f"{curve.iloc[0]:.1f} to {curve.iloc[-1]:.1f}" for curve in curves)
        if x == "sites":
            falls = all(goes_one_way(rows, "load", x, -1) for rows in parts)
            claim = (
                "load is high with short, bushy trees, decreases as trees get longer, and is very low with sparse ones"
            )
            found.append(Check(claim, falls, ends))
        else:
            rises = all(goes_one_way(rows, "load", x, 1) for rows in parts)
            found.append(Check("load grows with the size of the groups", rises, ends))
            largest = data[data.group_size == data.group_size.max()]
            ratio = largest.load_centralized / largest.load
            found.append(
                Check(
                    "for large group sizes the central site is a bottleneck",
                    bool((ratio > 1).all()),
                    f"groups of {int(data.group_size.max())}: {ratio.min():.2f} to {ratio.max():.2f} times the load",
                )
            )
        return found

    return checks


def _draw(x: str) -> Callable[[pd.DataFrame, Figure], None]:
    def draw(data: pd.DataFrame, figure: Figure) -> None:
        numbers = sorted(data.groups.unique())
        chosen = [numbers[0], numbers[-1]]
        for groups, axes in zip(chosen, figure.subplots(1, 2, sharey=True), strict=True):
            plot_curves(axes, data[data.groups == groups], CURVES, x)
            fixed = f"groups of {FIXED_SIZE}" if x == "sites" else f"{FIXED_SITES} sites"
            label_axes(axes, f"{groups} groups, {fixed}", x, "load of the busiest site")
            axes.set_yscale("log")

    return draw


_MADE = """
Groups uniform without replacement; Heuristic I, ties at random. The load of a site is how many messages it sends
and receives when one goes to each group, the one from the source included; of a run, that of the busiest site. The
centre is the site that is in most groups, which makes its load as low as it can be: for each group one message in
and n out, or n - 1 when it is a member. `spauster-classic-load` counts the other two solutions' load in simulation.
"""

GRAPH_4_4 = Artefact(
    name="spauster-graph-4-4",
    title="Load over the number of sites",
    paper="Spauster 1991, Graph 4.4",
    says="""
Group size 5. "For the propagation graph method, load is high when just a few sites are primary destinations and we have
short, bushy trees. As trees get longer, load decreases until trees are sparse and load is very low. The load for the
two-phase method is very well distributed, yielding low average numbers. [...] As expected, load in the centralized case
is high [...]. The propagation graph method strikes a good compromise between minimizing delay and distributing load."
""",
    made=_MADE,
    experiment=_experiment("spauster-graph-4-4", over_size=False),
    draw=_draw("sites"),
    checks=_checks("sites"),
    figure_inches=(10.0, 4.5),
)

GRAPH_4_5 = Artefact(
    name="spauster-graph-4-5",
    title="Load over the size of groups",
    paper="Spauster 1991, Graph 4.5",
    says="""
200 sites in the system; see Graph 4.4. "For large group sizes, the central site of the centralized solution is a
bottleneck."
""",
    made=_MADE,
    experiment=_experiment("spauster-graph-4-5", over_size=True),
    draw=_draw("group_size"),
    checks=_checks("group_size"),
    figure_inches=(10.0, 4.5),
)
