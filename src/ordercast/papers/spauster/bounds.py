"""Sections 6.4 and 7.2: the times within which Protocols 1 to 5 promise to deliver, and the times that they take."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.style import dress, styles
from ordercast.spark.experiments import Experiment, Measure, Point

PROTOCOLS = {
    "fan-1": "Protocol 1",
    "fan-2": "Protocol 2",
    "fan-3": "Protocol 3",
    "propagation-graph": "Protocol 4",
    "tree-5": "Protocol 5",
}
FORMULAS = {"fan-1": "φN + φP", "fan-2": "3φP + 3φN", "fan-3": "3φP + 3φN"}


def experiment(fast: bool) -> Experiment:
    """φN, P (a fragment sends up to four packets, so φP is several P), loss, δ."""
    losses = (0.0, 0.2) if fast else (0.0, 0.1, 0.4)
    deltas = (0.1, 0.5) if fast else (0.05, 0.2, 0.5)

    def sensible(point: Point) -> bool:
        # Protocols 1 and 5 assume that there are no communication failures; δ is a constant of Protocols 3 to 5.
        return (point["protocol"] not in ("fan-1", "tree-5") or point["loss"] == losses[0]) and (
            point["protocol"] in ("fan-3", "propagation-graph", "tree-5") or point["delta"] == deltas[0]
        )

    return Experiment(
        name="spauster-bounds",
        grid={
            "protocol": tuple(PROTOCOLS),
            "phi_n": (0.01, 0.05) if fast else (0.005, 0.02, 0.1),
            "processing": (0.0001, 0.002) if fast else (0.0002, 0.005),
            "loss": losses,
            "delta": deltas,
        },
        function="ordercast.spark.experiments.bounded_delivery:run_bounds",
        measures=[
            Measure(name)
            for name in (
                "phi_p",
                "p2_worst",
                "p2_bound",
                "p2_share",
                "p2_share_of_printed",
                "q1_worst",
                "q1_bound",
                "q1_share",
                "q2_worst",
                "q2_bound",
                "q2_share",
                "q2_share_of_printed",
                "p4_worst",
                "p4_bound",
                "p4_share",
                "p4_share_of_printed",
                "q3_worst",
                "q3_bound",
                "q3_share",
                "q3_share_of_printed",
            )
        ],
        # Worst cases, not means: more runs find worse ones, and no interval says when to stop.
        repetitions_min=15 if fast else 20,
        repetitions_max=15 if fast else 20,
        where=sensible,
    )


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """The bounds, as the thesis prints them."""
    found = []
    for protocol, formula in FORMULAS.items():
        rows = data[data.protocol == protocol]
        found.append(
            Check(
                f"{PROTOCOLS[protocol]} guarantees P2 with Δ = {formula}",
                bool((rows.p2_share_max <= 1).all()),
                f"{int(rows.repetitions.sum())} runs of {len(rows)} points: "
                f"the worst delivery took {100 * rows.p2_share_max.max():.1f} % of Δ, "
                f"the worst of a typical point {100 * rows.p2_share_max.median():.0f} %",
            )
        )
    rows = data[data.protocol == "fan-3"]
    found.append(
        Check(
            "Protocol 3 guarantees Q2 with ρ = δ + 3φP + 3φN (printed)",
            bool((rows.q2_share_of_printed_max <= 1).all()),
            f"the worst took {100 * rows.q2_share_of_printed_max.max():.1f} % of it",
        )
    )
    found.append(
        Check(
            "Protocol 3 guarantees Q2 with ρ = δ + 4φP + 3φN (counting the last step, which the printed sum forgets)",
            bool((rows.q2_share_max <= 1).all()),
            f"the worst took {100 * rows.q2_share_max.max():.1f} % of it",
        )
    )
    rows = data[data.protocol == "propagation-graph"]
    for name, bound in (("P4", "Δ"), ("Q3", "ρ")):
        share, printed = rows[f"{name.lower()}_share_max"], rows[f"{name.lower()}_share_of_printed_max"]
        found.append(
            Check(
                f"Protocol 4 guarantees {name} with {bound} = δ + 3φP + 3φN (printed)",
                bool((printed <= 1).all()),
                f"the worst took {100 * printed.max():.1f} % of it",
            )
        )
        found.append(
            Check(
                f"Protocol 4 guarantees {name} with {bound} = δ + 4φP + 3φN (counting the last step)",
                bool((share <= 1).all()),
                f"{int(rows.repetitions.sum())} runs: the worst took {100 * share.max():.1f} % of it, the worst of a "
                f"typical point {100 * share.median():.0f} %",
            )
        )
    rows = data[data.protocol == "tree-5"]
    for name, bound in (
        ("P2", "Δ = (n - 1)(2δ + 7φN + 8φP) + (n - 1)(φP + φN)"),
        ("P4", "Δ = 4φN + 3φP"),
        ("Q1", "ρ = δ + 3φP + 2φN + (n - 1)(φP + φN) + φP"),
    ):
        share = rows[f"{name.lower()}_share_max"]
        printed = share if name == "Q1" else rows[f"{name.lower()}_share_of_printed_max"]
        found.append(
            Check(
                f"Protocol 5 guarantees {name} with {bound}" + (" (corrected)" if name != "Q1" else " (printed)"),
                bool((share <= 1).all()),
                f"{int(rows.repetitions.sum())} runs: the worst took {100 * share.max():.1f} % of it, and "
                f"{100 * printed.max():.1f} % of what is printed",
            )
        )
    return found


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """Worst delivery over bound, a dot a point of the grid."""
    left, right, last, tree = figure.subplots(1, 4)
    fans = data[data.protocol.isin(FORMULAS)]
    for (protocol, rows), (colour, marker) in zip(fans.groupby("protocol"), styles(), strict=False):
        left.plot(
            rows.p2_bound_max * 1000,
            rows.p2_worst_max * 1000,
            marker,
            color=colour,
            markersize=4,
            label=PROTOCOLS[str(protocol)],
        )
    rows = data[data.protocol == "fan-3"]
    for (delta, part), (colour, marker) in zip(rows.groupby("delta"), styles(), strict=False):
        right.plot(
            part.q2_bound_max * 1000,
            part.q2_worst_max * 1000,
            marker,
            color=colour,
            markersize=4,
            label=f"δ = {1000 * float(str(delta)):g} ms",
        )
    rows = data[data.protocol == "propagation-graph"]
    for (name, short), (colour, marker) in zip((("P4", "p4"), ("Q3", "q3")), styles(), strict=False):
        bound, worst = rows[f"{short}_bound_max"] * 1000, rows[f"{short}_worst_max"] * 1000
        last.plot(bound, worst, marker, color=colour, markersize=4, label=name)
    rows = data[data.protocol == "tree-5"]
    for (name, short), (colour, marker) in zip((("P2", "p2"), ("P4", "p4"), ("Q1", "q1")), styles(), strict=False):
        bound, worst = rows[f"{short}_bound_max"] * 1000, rows[f"{short}_worst_max"] * 1000
        tree.plot(bound, worst, marker, color=colour, markersize=4, label=name)
    for axes, name in (
        (left, "Δ of P2"),
        (right, "ρ of Q2, Protocol 3"),
        (last, "Δ and ρ, Protocol 4"),
        (tree, "Δ and ρ, Protocol 5"),
    ):
        top = max(axes.get_xlim()[1], axes.get_ylim()[1])
        axes.plot([0, top], [0, top], "-", color="#999999", linewidth=1)
        dress(
            axes, f"{name}: nothing may be above the line", "promised, milliseconds", "worst of the runs, milliseconds"
        )


ARTEFACT = Artefact(
    name="spauster-bounds",
    title="The bounds of Protocols 1 to 5",
    paper="Spauster 1991, sections 6.4.2 to 6.4.4 and 7.2",
    says="""
Protocol 1 guarantees P2 with Δ = φN + φP, Protocols 2 and 3 with Δ = 3φP + 3φN, and Protocol 3 guarantees Q2 with ρ
= δ + 3φP + 3φN. The proof of the last counts sending φP + φN, requesting φP + φN, sending again φP + φN, and not
the φP of the delivery: δ + 4φP + 3φN is what ordercast promises. Protocol 4 guarantees P4 and Q3 with Δ = ρ = δ + 3φP +
3φN, by the same sum, which lacks the same φP. Protocol 5 guarantees P2 with Δ = (n - 1)(2δ + 7φN + 8φP), which lacks
the way down the last tree; P4 with Δ = φP + φN, which lacks what has to be asked for; and Q1 with ρ = δ + 3φP + 2φN +
(n - 1)(φP + φN) + φP.
""",
    made="""
A source and four destinations; packets take from half of φN to all of it and overtake each other; a site crashes
and comes back; for Protocols 2 and 3 packets are lost at random and a link is cut for two seconds. For each run:
the least Δ with which P2 holds in it (and ρ for Q2), which is the worst delivery that the property speaks of;
bounds are taken with the tightest φP that the sites of that run kept. `share` is worst / promised. The columns
`_max` are over all runs of a point.

Protocol 4 is `propagation-graph` on the tree s -> c -> a, b, d: each edge may lose packets, c and d crash and come
back, the link from c to a is cut for two seconds. Its δ is two looks at the edges (`retransmit_seconds`): what was sent
after a look is announced at the second one.

Protocol 5 is `tree-5` on the tree a -> b, c and b -> d. Nothing is lost. The root dies for good in the middle of what
it sends, and its successor as early as [A8] allows it. δ of the table is added to φN + 2φP, which jitter alone can
take.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
    figure_inches=(20.0, 4.5),
)
