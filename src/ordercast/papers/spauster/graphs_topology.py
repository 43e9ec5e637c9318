"""Graphs 4.8 to 4.14: a square grid as network; Heuristics I, II and III, spanning trees and shortest path trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.spauster.chapter_4 import (
    FIXED_SIZE,
    RELATIVE,
    absolute,
    label_axes,
    make_experiment,
    plot_curves,
    precise,
    relative,
)
from ordercast.papers.spauster.chapter_4_runs import column
from ordercast.spark.experiments import Experiment

LABELS = {
    "most-groups": "Heuristic I",
    "most-groups-near": "Heuristic II",
    "nearest": "Heuristic III",
    "spanning-tree": "minimum spanning tree (Prim)",
    "kruskal": "minimum spanning tree (Kruskal)",
    "shortest-path": "shortest path tree",
}
FEW_SITES = 50
"""What counts as "smaller numbers of sites"."""
TREES = ("spanning-tree", "kruskal", "shortest-path")

Checks = Callable[[pd.DataFrame], list[Check]]


def _path(data: pd.DataFrame, method: str) -> pd.Series:
    return data.sort_values("sites").set_index("sites")[column("path", method)]


def _compare(data: pd.DataFrame, better: str, worse: str, claim: str) -> Check:
    """Lower at most points and on average, and nowhere higher by more than the thesis could have seen."""
    first, second = _path(data, better), _path(data, worse)
    ratio = first / second
    return Check(
        claim,
        bool(ratio.mean() < 1 and (ratio < 1).mean() > 0.5 and ratio.max() <= 1 + RELATIVE),
        f"lower at {int((ratio < 1).sum())} of {len(ratio)} points; {ratio.min():.2f} to {ratio.max():.2f} times, "
        f"on average {ratio.mean():.2f}",
    )


# ---------------------------------------------------------------------- 4.8, 4.9
def _fall(curve: pd.Series) -> float:
    """By which share a curve falls from a peak to a later point, at most."""
    return float((1 - curve / curve.cummax()).max())


def _checks_8(data: pd.DataFrame) -> list[Check]:
    few = data[data.sites <= FEW_SITES]
    found = [
        _compare(
            data, "most-groups-near", "most-groups", "Heuristic II yields slightly better results than Heuristic I"
        )
    ]
    for tree in ("spanning-tree", "kruskal"):
        ahead = _path(few, tree) < _path(few, "most-groups-near")
        found.append(
            Check(
                f"for smaller numbers of sites the minimum spanning tree does very well ({LABELS[tree]})",
                bool(ahead.all()),
                "; ".join(
                    f"{sites} sites: {_path(few, tree)[sites]:.1f} against {_path(few, 'most-groups-near')[sites]:.1f}"
                    for sites in ahead.index
                ),
            )
        )
        curve = _path(data, tree)
        found.append(
            Check(
                f"the depth always increases for the minimum spanning tree ({LABELS[tree]})",
                bool((np.diff(curve.to_numpy()) > 0).all()),
                f"{curve.iloc[0]:.1f} at {curve.index[0]} sites to {curve.iloc[-1]:.1f} at {curve.index[-1]}",
            )
        )
    return found


def _checks_4_8(data: pd.DataFrame) -> list[Check]:
    falls = {method: _fall(_path(data, method)) for method in ("most-groups", "most-groups-near")}
    return [
        *_checks_8(data),
        Check(
            "both heuristics decrease as the large trees break up into sets of smaller trees",
            min(falls.values()) > RELATIVE,
            "; ".join(f"{LABELS[method]} falls by {100 * fall:.0f} % from its peak" for method, fall in falls.items()),
        ),
    ]


def _checks_4_9(data: pd.DataFrame) -> list[Check]:
    """The thesis does not print the range of its graphs. Beyond 200 sites the grid's growth lengthens all paths, so
    curves that decrease end about there."""
    shown = data[data.groups == data.groups.max()]
    curves = {int(groups): _path(rows, "most-groups") for groups, rows in data.groupby("groups")}
    falls = {groups: _fall(curve[curve.index <= FALL_UP_TO]) for groups, curve in curves.items()}
    few, many = min(falls), max(falls)
    return [
        *_checks_8(shown),
        Check(
            f"the decrease is not as marked with more groups, for intersections are likelier (to {FALL_UP_TO} sites)",
            falls[many] < falls[few],
            f"Heuristic I falls by {100 * falls[few]:.0f} % with {few} groups, by {100 * falls[many]:.0f} % with "
            f"{many}; there it peaks at {int(curves[many].idxmax())} sites and falls {100 * _fall(curves[many]):.0f} %",
        ),
    ]


FALL_UP_TO = 200


# ---------------------------------------------------------------------- 4.10 to 4.14
def _checks_4_10(data: pd.DataFrame) -> list[Check]:
    ahead = _path(data, "spanning-tree") < _path(data, "nearest")
    return [
        _compare(data, "nearest", "most-groups-near", "Heuristic III outperforms Heuristic II"),
        Check(
            "Heuristic III cannot beat the minimum spanning tree in some cases",
            bool(ahead.any()),
            f"the spanning tree is better at {', '.join(str(sites) for sites in ahead.index[ahead]) or 'no'} sites",
        ),
    ]


def _checks_4_12(data: pd.DataFrame) -> list[Check]:
    many = data[data.sites >= data.sites.max() / 2]
    poorer = _path(many, "spanning-tree") > _path(many, "nearest")
    below = _path(data, "shortest-path") < _path(data, "spanning-tree")
    return [
        Check(
            "minimum spanning trees perform poorly for higher numbers of sites",
            bool(poorer.all()),
            "; ".join(
                f"{sites} sites: {_path(many, 'spanning-tree')[sites]:.1f}, "
                f"Heuristic III {_path(many, 'nearest')[sites]:.1f}"
                for sites in poorer.index
            ),
        ),
        Check(
            "the shortest path tree is below the minimum spanning tree",
            bool(below.all()),
            f"at {int(below.sum())} of {len(below)} points",
        ),
        _compare(
            data,
            "shortest-path",
            "nearest",
            "by depth alone one might usually build a shortest path tree instead of using a heuristic",
        ),
    ]


def _checks_4_14(data: pd.DataFrame) -> list[Check]:
    found = []
    for tree in TREES:
        most = data[[column("extra", method) for method in ("most-groups", "most-groups-near", "nearest")]].max(axis=1)
        more = data[column("extra", tree)] / most
        found.append(
            Check(
                f"{LABELS[tree]}: many more extra nodes than any of the heuristics",
                bool((more > 1.5).all()),
                f"{more.min():.1f} times as many as the worst heuristic at the least; at most "
                f"{data[column('extra', tree)].max():.0f} against {most.max():.1f}",
            )
        )
    return found


_SAYS_8 = """
A square grid, every link costs 1; depth is the cost of the physical path from the primary destination to the farthest
member. "A smarter heuristic yields slightly better results than the original, but for smaller numbers of sites, the
minimum spanning tree does very well. The depth always increases, though, for the minimum spanning tree algorithm as
opposed to both the heuristics, which decrease in Graph 4.8. [...] This behavior is not as marked in Graph 4.9 as the
larger number of groups makes group intersection likelier."
"""
_SAYS_10 = """
"The closest site is always chosen as a child, but if there is a selection among sites that are tied for closest
site then an intersector in the most groups is picked. [...] This third heuristic indeed outperforms Heuristic II,
though cannot beat minimum spanning tree in some cases."
"""
_SAYS_12 = """
"The poorer performance of minimum spanning tree for higher numbers of sites lead us to consider [...] the shortest
path tree. [...] The results in Graphs 4.12 and 4.13 might lead one to conclude that it usually does not make sense
to use any of the heuristics described here; instead, simply build a shortest path tree."
"""
_SAYS_14 = """
"The logical tree structures generated by minimum spanning trees and shortest path trees yield many more extra nodes
than the heuristics. (The results for 40 groups are similar and are not included.)"
"""
_MADE = """
Groups of 5, uniform without replacement, on a grid as square as the number of sites allows; in each run all graphs
are made of the same groups, ties at random. Heuristic III may choose any site of the partition: restricted to
intersecters it often does not outperform Heuristic II. Of spanning trees there are two curves, since every spanning
tree of a unit grid is minimal, and "other choices of equal cost were determined randomly" does not say how; the
root is the site in most groups and has all its neighbours as children. For trees, the primary destination is the
lowest common ancestor, an extra node when it is not a member. The way from the source is not included.
"Outperforms": lower on average and at most points, and nowhere higher by more than the ±10 % to which points are
known.
"""


def _artefact(
    number: int,
    groups: int,
    methods: Sequence[str],
    checks: Checks,
    says: str,
    *,
    extra: bool = False,
    compared: tuple[int, ...] = (),
) -> Artefact:
    name = f"spauster-graph-4-{number}"
    what = "extra" if extra else "path"
    columns = [column(what, method) for method in methods]
    measures = absolute(*columns) if extra else relative(*columns)

    def experiment(fast: bool) -> Experiment:
        return make_experiment(name, "run_topology", measures, fast=fast, groups=(*compared, groups))

    def draw(data: pd.DataFrame, figure: Figure) -> None:
        axes = figure.subplots()
        rows = data[data.groups == groups]
        plot_curves(axes, rows, [(column(what, method), LABELS[method]) for method in methods], "sites")
        y = "average number of extra nodes ε" if extra else "average cost of the path to the farthest member"
        label_axes(axes, f"square grid, {groups} groups of {FIXED_SIZE}", "sites", y)
        if extra:
            axes.set_yscale("symlog", linthresh=1.0)
            axes.set_ylim(bottom=-0.2)

    return Artefact(
        name=name,
        title=f"{'Extra nodes' if extra else 'Depth'} on a square grid, {groups} groups",
        paper=f"Spauster 1991, Graph 4.{number}",
        says=says,
        made=_MADE,
        experiment=experiment,
        draw=draw,
        checks=lambda data: [precise(data, measures), *checks(data)],
    )


_8 = ("most-groups", "most-groups-near", "spanning-tree", "kruskal")
_10 = ("most-groups-near", "nearest", "spanning-tree", "kruskal")
_12 = ("nearest", "spanning-tree", "kruskal", "shortest-path")
GRAPH_4_8 = _artefact(8, 20, _8, _checks_4_8, _SAYS_8)
GRAPH_4_9 = _artefact(9, 40, _8, _checks_4_9, _SAYS_8, compared=(20,))
GRAPH_4_10 = _artefact(10, 20, _10, _checks_4_10, _SAYS_10)
GRAPH_4_11 = _artefact(11, 40, _10, _checks_4_10, _SAYS_10)
GRAPH_4_12 = _artefact(12, 20, _12, _checks_4_12, _SAYS_12)
GRAPH_4_13 = _artefact(13, 40, _12, _checks_4_12, _SAYS_12)
GRAPH_4_14 = _artefact(14, 20, tuple(LABELS), _checks_4_14, _SAYS_14, extra=True)
