"""Section 4.1.2: the load of the busiest site when a message goes to each group; two-phase and centralized, and the two
beside them (Graphs 4.4 and 4.5 have the propagation graph as well)."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.spauster.classic import ALGORITHMS, NETWORKS
from ordercast.papers.style import dress, styles
from ordercast.spark.experiments import Experiment, Measure, Point

FIXED_SIZE = 5
"""Graph 4.4."""
SITES_MAX_EVERYONE_SPEAKS = 50
"""With timestamps every site tells every other one its clock, the token visits all: beyond this a run takes seconds."""


def experiment(fast: bool) -> Experiment:
    """Graph 4.4: groups of 5 over the number of sites; Graph 4.5: 200 sites over the size of the groups."""
    fixed_sites = 50 if fast else 200

    def sensible(point: Point) -> bool:
        sites, size = int(point["sites"]), int(point["group_size"])
        if size > sites or (size != FIXED_SIZE and sites != fixed_sites):
            return False
        many = point["algorithm"] not in ("two-phase", "centralized")
        # What the others add on a broadcast network is one frame instead of several packets; the shape is the same.
        return not many or (
            sites <= SITES_MAX_EVERYONE_SPEAKS and point["network"] == "point-to-point" and size == FIXED_SIZE
        )

    return Experiment(
        name="spauster-classic-load",
        grid={
            "network": NETWORKS,
            "algorithm": tuple(name for name in ALGORITHMS if name != "token, L = 3"),
            "sites": (20, 50, 100) if fast else (20, 50, 100, 200, 400),
            "group_size": (5, 10, 20) if fast else (5, 10, 20, 30, 40),
            "groups": (20,) if fast else (10, 20, 40),
        },
        function="ordercast.papers.spauster.classic:run_load",
        measures=[
            Measure("load", relative=0.1),
            Measure("load_all", relative=0.1),
            Measure("load_mean"),
            Measure("load_of_source"),
            Measure("load_formula"),
            Measure("load_differs"),
        ],
        repetitions_min=3 if fast else 5,
        repetitions_max=60 if fast else 200,
        where=sensible,
    )


def _wide(data: pd.DataFrame, network: str) -> pd.DataFrame:
    rows = data[(data.network == network) & data.algorithm.isin(["two-phase", "centralized"])]
    return rows.pivot(index=["sites", "group_size", "groups"], columns="algorithm", values="load").reset_index()


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """What 4.1.2 says about the two."""
    counted = data[data.algorithm.isin(["two-phase", "centralized"])]
    direct = _wide(data, "point-to-point")
    higher = direct["centralized"] > direct["two-phase"]
    ratio = direct["centralized"] / direct["two-phase"]
    centre = direct[direct.group_size == FIXED_SIZE].groupby("groups").centralized.agg(["min", "max"])
    flatness = float((centre["max"] / centre["min"]).max())
    large = data[(data.algorithm == "two-phase") & (data.network == "point-to-point") & (data.group_size >= 10)]
    source_ratio = large.load_of_source / large.load
    per_site = direct[direct.group_size == FIXED_SIZE].sort_values("sites").groupby("groups")["two-phase"]
    falls = per_site.apply(lambda loads: bool(loads.is_monotonic_decreasing and loads.iloc[-1] < loads.iloc[0]))
    widths = counted.load_half_width / counted.load
    return [
        Check(
            "the counted load is what follows from the algorithms "
            "(two-phase: 3 for each group of a site; centralized: one in, the rest out)",
            bool((counted.load_differs_max == 0).all()),
            f"{int(counted.repetitions.sum())} runs of {len(counted)} points, "
            f"off by at most {counted.load_differs_max.max():g}",
        ),
        Check(
            "each point is known within ±10 % of the mean with 95 % confidence",
            bool((widths <= 0.1).all()),
            f"the widest interval is ±{100 * widths.max():.1f} %",
        ),
        Check(
            "load in the centralized case is high, reflecting the central site bottleneck",
            bool(higher.all()),
            f"above two-phase at {int(higher.sum())} of {len(higher)} points, "
            f"{ratio.min():.1f} to {ratio.max():.1f} times as high",
        ),
        Check(
            "the central site's load does not depend on how many sites there are",
            flatness < 1.1,
            f"groups of {FIXED_SIZE}: the highest is {flatness:.3f} times the lowest",
        ),
        Check(
            "the load of the two-phase method is very well distributed: it falls as sites are added",
            bool(falls.all()),
            "; ".join(f"{groups} groups: {loads.iloc[0]:.1f} to {loads.iloc[-1]:.1f}" for groups, loads in per_site),
        ),
        Check(
            "two-phase: load at the source is higher, possibly much higher, if the groups are large",
            bool((source_ratio > 1).all()),
            "groups of 10 and more: the source has "
            f"{source_ratio.min():.1f} to {source_ratio.max():.1f} times the busiest receiver's load",
        ),
    ]


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """Both graphs, with 20 groups, point-to-point."""
    left, right = figure.subplots(1, 2)
    rows = data[(data.network == "point-to-point") & (data.groups == 20)]
    fixed_sites = int(rows.loc[rows.group_size == rows.group_size.max(), "sites"].max())
    for (algorithm, curve), (colour, marker) in zip(rows.groupby("algorithm", sort=True), styles(), strict=False):
        counted = algorithm in ("two-phase", "centralized")
        measure = "load" if counted else "load_all"
        for axes, part, x in (
            (left, curve[curve.group_size == FIXED_SIZE], "sites"),
            (right, curve[curve.sites == fixed_sites], "group_size"),
        ):
            if len(part) > 1:
                part = part.sort_values(x)
                label = algorithm if counted else f"{algorithm} (with background)"
                axes.errorbar(
                    part[x],
                    part[measure],
                    part[f"{measure}_half_width"],
                    marker=marker,
                    color=colour,
                    markersize=4,
                    label=label,
                )
    dress(left, f"groups of {FIXED_SIZE}, 20 groups", "sites", "load of the busiest site")
    left.set_xscale("log")
    left.set_yscale("log")
    dress(right, f"{fixed_sites} sites, 20 groups", "group size", "load of the busiest site")


ARTEFACT = Artefact(
    name="spauster-classic-load",
    title="Load of the classic algorithms",
    paper="Spauster 1991, section 4.1.2 (Graphs 4.4 and 4.5, without the propagation graph)",
    says="""
Groups are drawn at random, a message goes to each group, and the load of a site is how many messages it sends and
receives; the highest of all sites is averaged over the runs, to ±10 % of the mean. "The load for the two-phase
method is very well distributed, yielding low average numbers. This is the load at receivers, though. Load at the
source will be higher (possibly much higher) if the groups are large [...]. As expected, load in the centralized
case is high, reflecting the central site bottleneck." The scanned graphs have no readable numbers, so the claims
are about shape; the counts themselves are checked against what follows from the algorithms.
""",
    made="""
Groups uniform without replacement; one source outside all groups, whose load is kept apart. `load` counts packets
that serve a message; `load_all` counts everything (acknowledgements, clocks, the token), which is what timestamps
and the token live on. Those two are run up to 50 sites, point-to-point.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
    figure_inches=(10.0, 4.5),
)
