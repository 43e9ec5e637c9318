"""7.1.1 and 7.3: what it costs to go on without a site that has failed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.style import curve, dress, styles
from ordercast.spark.experiments import Experiment, Measure

MEASURES = ("packets", "packets_a_site", "kilobytes", "stop_seconds", "share")
FAILED = ("leaf", "extra node", "interior", "root", "manager", "root and manager")
PACKETS_A_SITE = 40.0
"""Six for the two phases; the rest are reports to whoever is to make the next graph, until it begins, and survivors who
wait for the lease and say that they are there, to nine others ten times a second."""
SITES_MIN = 20
"""Of fewer nobody has nine others: what each says grows with the sites, too."""
SHARE_MAX = 2.0
"""Of a suspicion and a lease: a second suspicion, where the first backup of a manager has failed, too."""


def experiment(fast: bool) -> Experiment:
    """5 to 200 sites in groups of 4 that overlap; one failure, or two at once."""
    return Experiment(
        name="spauster-reconfiguration-cost",
        grid={"sites": (5, 20, 50, 200), "failed": FAILED},
        function="ordercast.papers.spauster.reconfiguration_cost_runs:run_failure",
        measures=[Measure(name) for name in MEASURES],
        repetitions_min=3,
        repetitions_max=3 if fast else 5,
    )


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """What the thesis says of the price, and what the protocol's options promise."""
    measured = data.dropna(subset=["packets"])
    many = measured[measured.sites >= SITES_MIN]
    slope = np.polyfit(np.log(many.sites), np.log(many.packets), 1)[0]
    return [
        Check(
            "the packets of a reorganisation are linear in the sites",
            bool((measured.packets_a_site <= PACKETS_A_SITE).all() and slope <= 1.2),
            f"{measured.packets_a_site.min():.1f} to {measured.packets_a_site.max():.1f} for each site; from "
            f"{SITES_MIN} sites on they grow with the power {slope:.2f}",
        ),
        Check(
            "the others go on within two times (suspicion + lease), whoever fails",
            bool((measured.share_max <= SHARE_MAX).all()),
            f"{measured.share.min():.2f} to {measured.share_max.max():.2f} of it",
        ),
    ]


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """Packets and time over the sites."""
    left, right = figure.subplots(1, 2)
    for (failed, rows), style in zip(data.groupby("failed"), styles(), strict=False):
        ordered = rows.dropna(subset=["packets"]).sort_values("sites")
        curve(left, ordered.sites, ordered.packets, style, str(failed))
        curve(right, ordered.sites, ordered.stop_seconds, style, str(failed))
    left.set_yscale("log")
    dress(left, "a reorganisation: packets", "sites", "packets")
    dress(right, "from the failure until all are in the next graph", "sites", "seconds")


ARTEFACT = Artefact(
    name="spauster-reconfiguration-cost",
    title="What it costs to go on without a failed site",
    paper="Spauster 1991, 7.1.1 and 7.3",
    says="""
7.1.1: a failure starts a two-phase process among the survivors and the manager; without failures no messages are added.
7.3: "This algorithm requires no more phases than did Protocol 5"; more messages may be sent, for missed messages do not
go down the tree.
""",
    made="""
`delivery = "non-atomic"`. Groups of 4, drawn at random, a quarter as many as there are sites; the manager is a leaf of
the graph, so that it and the root can fail apart. One site multicasts 20 messages a second to the groups that the sites
of the row are in, or pass on; after a second these die for good. One-way delays of 10 ms, a suspicion of 0.5 s, a lease
of 1 s. `packets` and `kilobytes` are those that are sent for the next graph only: reports, Close and histories, the
choice of the graph, its beginning, and what is fetched. `stop_seconds` is the time from the failure until the last site
has installed the next graph, `share` that over suspicion and lease. Where the graph has no such site there is no row.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
    figure_inches=(10.0, 4.5),
)
