"""Graphs 4.1 to 4.3: depth and extra nodes of Heuristic I; and its depth with exponential group sizes (4.1.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.spauster.chapter_4 import (
    FIXED_SITES,
    FIXED_SIZE,
    absolute,
    label_axes,
    make_experiment,
    plot_by_groups,
    precise,
    relative,
    rises_and_falls,
)
from ordercast.papers.style import styles
from ordercast.spark.experiments import Experiment

CLOSE_TO_TWO = 2.5
"""What still counts as a depth "close to 2"."""
LOW = 2.5
"""And as a number of extra nodes that is "low in general": half of a group of five."""

MORE_THAN_STARS = 1.5
"""Below this depth nearly every group is a star of its own, and there is nothing to compare."""
SAME_SHAPE = 0.8
"""Correlation of two curves above which they have the same shape."""


def _groups(fast: bool) -> tuple[int, ...]:
    return (10, 20, 40) if fast else (10, 20, 30, 40)


def _experiment(name: str, function: str, over_size: bool, extra: bool) -> Callable[[bool], Experiment]:
    def experiment(fast: bool) -> Experiment:
        measures = [*(absolute("extra") if extra else relative("depth"))]
        if function == "run_exponential":
            measures += relative("depth_fixed", "mean_size")
        return make_experiment(name, function, measures, fast=fast, groups=_groups(fast), over_size=over_size)

    return experiment


def _draw(measure: str, x: str, title: str, y: str) -> Callable[[pd.DataFrame, Figure], None]:
    def draw(data: pd.DataFrame, figure: Figure) -> None:
        axes = figure.subplots()
        plot_by_groups(axes, data, measure, x)
        label_axes(axes, title, x, y)

    return draw


# ---------------------------------------------------------------------- 4.1, 4.2, 4.3
def _checks_depth(x: str) -> Callable[[pd.DataFrame], Sequence[Check]]:
    def checks(data: pd.DataFrame) -> Sequence[Check]:
        holds, told = rises_and_falls(data, "depth", x)
        found = [
            precise(data, relative("depth")),
            Check(
                "many intersections make short bushy trees; with fewer of them the trees get longer; with very few "
                "there are many short trees",
                holds,
                told,
            ),
        ]
        if x == "sites":
            small = data.depth <= CLOSE_TO_TWO
            top = data.loc[data.depth.idxmax()]
            found.append(
                Check(
                    "in most cases of interest d is relatively small: less than or close to 2 when groups are small",
                    bool(small.mean() > 0.5),
                    f"at most {CLOSE_TO_TWO:g} at {int(small.sum())} of {len(data)} points; "
                    f"the largest is {top.depth:.2f}, with {int(top.groups)} groups on {int(top.sites)} sites",
                )
            )
        return found

    return checks


def _checks_extra(data: pd.DataFrame) -> Sequence[Check]:
    holds, told = rises_and_falls(data, "extra", "sites")
    low = data.extra <= LOW
    return [
        precise(data, absolute("extra")),
        Check(
            "the number of extra nodes is low in general",
            bool(low.mean() > 0.5),
            f"at most {LOW:g} at {int(low.sum())} of {len(data)} points; the largest is {data.extra.max():.2f}",
        ),
        Check("the curves display the same behavior as those for the depth", holds, told),
    ]


_MADE = """
Groups uniform without replacement; Heuristic I (the appendix' generator), ties at random. The depth of a group is
the number of edges from its primary destination to its farthest member; of a run, the mean over its groups; of a
point, the mean over runs, with as many runs as the interval asks for. The scanned graphs have no readable numbers,
so the claims are about shape.
"""

GRAPH_4_1 = Artefact(
    name="spauster-graph-4-1",
    title="Average depth over the number of sites",
    paper="Spauster 1991, Graph 4.1",
    says="""
Group size 5. "When this ratio [of group size to number of sites] is large (left end of the horizontal axis), there are
many intersections among the groups; the abundance of common nodes leads to short bushy trees. As the ratio decreases,
there are fewer intersections, the trees get longer, so d increases. However, when the ratio is very small (right end
of the horizontal axis), there are so few intersections that the algorithm produces a forest of many sparse, short
trees." And: "in most cases of interest, ε and d are relatively small"; "we expect d to be less than or close to 2 when
the group size is small."
""",
    made=_MADE,
    experiment=_experiment("spauster-graph-4-1", "run_heuristic", over_size=False, extra=False),
    draw=_draw("depth", "sites", f"groups of {FIXED_SIZE}, Heuristic I", "average depth d"),
    checks=_checks_depth("sites"),
)

GRAPH_4_2 = Artefact(
    name="spauster-graph-4-2",
    title="Average depth over the size of groups",
    paper="Spauster 1991, Graph 4.2",
    says="""
A static number of sites (200, as in Graph 4.5) and varying group sizes. The explanation is that of Graph 4.1: what
matters is the ratio of group size to number of sites.
""",
    made=_MADE,
    experiment=_experiment("spauster-graph-4-2", "run_heuristic", over_size=True, extra=False),
    draw=_draw("depth", "group_size", f"{FIXED_SITES} sites, Heuristic I", "average depth d"),
    checks=_checks_depth("group_size"),
)

GRAPH_4_3 = Artefact(
    name="spauster-graph-4-3",
    title="Extra nodes over the number of sites",
    paper="Spauster 1991, Graph 4.3",
    says="""
Group size 5, confidence interval ±0.5. "The number of extra nodes is low in general and the curves display the same
behavior as those for the depth."
""",
    made=_MADE,
    experiment=_experiment("spauster-graph-4-3", "run_heuristic", over_size=False, extra=True),
    draw=_draw("extra", "sites", f"groups of {FIXED_SIZE}, Heuristic I", "average number of extra nodes ε"),
    checks=_checks_extra,
)


# ---------------------------------------------------------------------- exponential sizes
def _checks_exponential(data: pd.DataFrame) -> Sequence[Check]:
    _, told = rises_and_falls(data, "depth", "sites")
    lower = data.depth < data.depth_fixed
    trees = data[data.depth_fixed >= MORE_THAN_STARS]
    ratio = data.depth / data.depth_fixed
    shapes = [float(rows.depth.corr(rows.depth_fixed)) for _, rows in data.groupby("groups")]
    return [
        precise(data, relative("depth", "depth_fixed")),
        Check(
            "the graphs have the same shape as those of groups of one size",
            min(shapes) > SAME_SHAPE,
            f"correlation of the two curves {', '.join(f'{value:.3f}' for value in shapes)}; {told}",
        ),
        Check(
            "they generally give lower numbers for the average depth",
            bool(ratio.mean() < 1 and lower[trees.index].mean() > 0.5),
            f"{ratio.min():.2f} to {ratio.max():.2f} times as deep, on average {ratio.mean():.2f}; lower at "
            f"{int(lower[trees.index].sum())} of the {len(trees)} points where groups of one size make trees deeper "
            f"than {MORE_THAN_STARS:g}, and at {int(lower.sum())} of all; mean size {data.mean_size.mean():.2f}",
        ),
    ]


def _draw_exponential(data: pd.DataFrame, figure: Figure) -> None:
    axes = figure.subplots()
    plot_by_groups(axes, data, "depth", "sites")
    for (_, rows), (colour, _) in zip(data.groupby("groups"), styles(), strict=False):
        rows = rows.sort_values("sites")
        axes.plot(rows.sites, rows.depth_fixed, "--", color=colour, linewidth=1)
    title = f"sizes exponential with mean {FIXED_SIZE}; dashed: all of {FIXED_SIZE}"
    label_axes(axes, title, "sites", "average depth d")


EXPONENTIAL = Artefact(
    name="spauster-exponential-sizes",
    title="Average depth with exponential group sizes",
    paper="Spauster 1991, section 4.1.2",
    says="""
"We have performed many other experiments using the exponential distribution for determining the size of the groups,
instead of the fixed value [...]. The graphs produced by these runs have the same shape but generally give lower
numbers for the average depth."
""",
    made="""
As Graph 4.1, with sizes drawn from an exponential distribution of mean 5, rounded, at least 2 (in a group of one
there is nothing to order, and its depth of 0 would make the claim true by itself). Beside it in each run: as many
groups of 5. The peak lies further left than with groups of one size: the few large groups meet with everything.
""",
    experiment=_experiment("spauster-exponential-sizes", "run_exponential", over_size=False, extra=False),
    draw=_draw_exponential,
    checks=_checks_exponential,
)
