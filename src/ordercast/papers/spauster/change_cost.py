"""Chapter 5: what it costs when sites come into a group, with the propagation graph and with the token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.style import curve, dress, styles
from ordercast.spark.experiments import Experiment, Measure, Point

MEASURES = ("sites_in_all", "packets", "packets_of_search", "delays", "graphs", "stop_delays", "stop_share")
ALGORITHMS = ("propagation graph", "token")
SITES_MAX_TOKEN = 50
"""Each site of a list hears of every reformation from each other one: beyond this a run takes many seconds."""
PACKETS_A_SITE = 6.0
"""Close and Open, an acknowledgement of each, and what primary destinations and newcomers say besides."""


def experiment(fast: bool) -> Experiment:
    """5 to 200 sites in groups of 4 that overlap; 1 and 10 newcomers at once; no faults."""

    def sensible(point: Point) -> bool:
        return point["algorithm"] != "token" or int(point["sites"]) <= SITES_MAX_TOKEN

    return Experiment(
        name="spauster-change-cost",
        grid={
            "algorithm": ALGORITHMS,
            "sites": (5, 20, 50) if fast else (5, 20, 50, 200),
            "joins": (1, 10),
        },
        function="ordercast.papers.spauster.change_cost_runs:run_change",
        measures=[Measure(name) for name in MEASURES],
        repetitions_min=3 if fast else 10,
        repetitions_max=3 if fast else 10,
        where=sensible,
    )


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """What the thesis says of its own algorithm and of the token, and what the protocol's README adds."""
    graph = data[data.algorithm == "propagation graph"]
    token = data[data.algorithm == "token"]
    each = graph.packets / (graph.sites_in_all * graph.graphs)
    both = graph.merge(token, on=["sites", "joins"], suffixes=("", "_token"))
    packets, delays = both.packets_token / both.packets, both.delays_token / both.delays
    slope = np.polyfit(np.log(graph.sites_in_all * graph.graphs), np.log(graph.packets), 1)[0]
    return [
        Check(
            "the packets of a change are linear in the sites",
            bool((each <= PACKETS_A_SITE).all()),
            f"{each.min():.1f} to {each.max():.1f} for each site and graph; they grow with the power {slope:.2f}",
        ),
        Check(
            "no site stands still for longer than (depth of the old graph + that of the new one + 2) one-way delays",
            bool((graph.stop_share_max <= 1.001).all()),
            f"the longest of {graph.repetitions.sum()} runs took {100 * graph.stop_share_max.max():.0f} % of it, at"
            f" the most {graph.stop_delays_max.max():.0f} delays",
        ),
        Check(
            "the special work of the propagation graph is much easier than the three phases of the token (5.1)",
            bool((packets > 1).all() and (delays > 1).all()),
            f"the token takes {packets.min():.1f} to {packets.max():.1f} times the packets, and {delays.min():.1f} to "
            f"{delays.max():.1f} times the time",
        ),
    ]


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """Packets and time over the sites."""
    left, right = figure.subplots(1, 2)
    for ((algorithm, joins), rows), style in zip(data.groupby(["algorithm", "joins"]), styles(), strict=False):
        ordered = rows.sort_values("sites")
        name = f"{algorithm}, {joins} at once"
        curve(left, ordered.sites, ordered.packets, style, name)
        curve(right, ordered.sites, ordered.delays, style, name)
    left.set_yscale("log")
    dress(left, "a change: packets", "sites", "packets")
    dress(right, "from the request to the last site", "sites", "one-way delays")


ARTEFACT = Artefact(
    name="spauster-change-cost",
    title="What a change of the groups costs",
    paper="Spauster 1991, chapter 5",
    says="""
5.1: with the two-phase algorithm a change costs nothing, for the source names the destinations of each message. The
token needs a reformation: a new list, committed in three phases. The propagation graph needs "some special work, but is
much easier than a three-phase algorithm" (5.2: Close and Open).
""",
    made="""
Groups of 4, drawn at random, a quarter as many as there are sites; whoever is in none hears of changes all the same. 1
or 10 newcomers ask at the same time to be let into one of the groups. No faults, one-way delays all alike, processing
next to nothing, no timers of the propagation graph. `packets` are those of the change, without `packets_of_search`, by
which newcomers find whom to ask; the token's are those beyond what the same time costs without a change. `delays` is
the time from the request to the last site, in one-way delays; `graphs` how many graphs it took: ten requests end in two
or more where the first of them comes before the others. `stop_delays` is how long a site took nothing, `stop_share`
that over what it may be. Two-phase has no row: it sends no packet more. The token goes up to 50 sites.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
    figure_inches=(10.0, 4.5),
)
