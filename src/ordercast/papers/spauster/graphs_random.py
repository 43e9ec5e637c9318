"""Graphs 4.6 and 4.7: Heuristic I against random graphs."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.spauster.chapter_4 import (
    FIXED_SIZE,
    Curve,
    label_axes,
    make_experiment,
    plot_curves,
    precise,
    relative,
)
from ordercast.papers.spauster.chapter_4_runs import column
from ordercast.spark.experiments import Experiment

HEURISTIC = column("depth", "most-groups")
RANDOM: tuple[Curve, ...] = (
    (column("depth", "random"), "random, any site of the partition"),
    (column("depth", "random-intersecter"), "random, among the intersecters"),
)
CURVES: tuple[Curve, ...] = ((HEURISTIC, "Heuristic I"), *RANDOM)
_MEASURES = relative(*(name for name, _ in CURVES))


def _checks(data: pd.DataFrame) -> Sequence[Check]:
    found = [precise(data, _MEASURES)]
    for measure, label in RANDOM:
        ratio = data[measure] / data[HEURISTIC]
        width = data[f"{measure}_half_width"] + data[f"{HEURISTIC}_half_width"]
        worse = data[measure] < data[HEURISTIC] - width
        deeper = ratio > 1
        found.append(
            Check(
                f"the heuristic yields better trees than just picking sites randomly ({label})",
                bool(not worse.any() and deeper.mean() > 0.5),
                f"the random tree is deeper at {int(deeper.sum())} of {len(data)} points, {ratio.min():.2f} to "
                f"{ratio.max():.2f} times as deep; lower beyond the intervals at {int(worse.sum())}",
            )
        )
    return found


def _artefact(number: str, groups: int) -> Artefact:
    name = f"spauster-graph-4-{number}"

    def experiment(fast: bool) -> Experiment:
        return make_experiment(name, "run_random", _MEASURES, fast=fast, groups=(groups,))

    def draw(data: pd.DataFrame, figure: Figure) -> None:
        axes = figure.subplots()
        plot_curves(axes, data, CURVES, "sites")
        label_axes(axes, f"{groups} groups of {FIXED_SIZE}", "sites", "average depth d")

    return Artefact(
        name=name,
        title=f"Heuristic I and random graphs, {groups} groups",
        paper=f"Spauster 1991, Graph 4.{number}",
        says="""
"By a random graph, we mean a graph for which the root is chosen randomly, the remaining sites are partitioned as before
and the children are chosen randomly from each partition. [...] As shown in the graphs, the heuristic we have studied
yields better trees than just picking sites randomly."
""",
        made="""
Groups of 5, uniform without replacement; in each run all three graphs are made of the same groups. The sentence can
be read in two ways, and both are here: a child is any site of the partition, or one of its intersecters (sites that
share a group with the parent). The root is drawn among sites that are in a group.
""",
        experiment=experiment,
        draw=draw,
        checks=_checks,
    )


GRAPH_4_6 = _artefact("6", 20)
GRAPH_4_7 = _artefact("7", 40)
