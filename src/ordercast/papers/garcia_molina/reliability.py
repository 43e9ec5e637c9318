"""Section 5: relative reliability, the share of brief openings that are used, against the price of the exchange."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.garcia_molina.openings import OPENINGS
from ordercast.papers.style import curve, dress, styles
from ordercast.spark.experiments import Experiment, Measure

ALMOST_ALL = 0.95
CONTROL_TICKS = (2, 5, 10, 20, 50)


def experiment(fast: bool) -> Experiment:
    """Exchange periods of a quarter of a second to eight seconds, openings of as long."""
    return Experiment(
        name="garcia-molina-reliability",
        grid={
            "exchange": (0.5, 2.0, 8.0) if fast else (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
            "opening": (1.0, 4.0) if fast else (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
        },
        function="ordercast.papers.garcia_molina.openings:run_openings",
        measures=[Measure("used", absolute=0.05), Measure("control_per_second")],
        repetitions_min=6 if fast else 20,
        repetitions_max=6 if fast else 40,
    )


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """The trade-off, both ways."""
    found = []
    wide = data.pivot(index="exchange", columns="opening", values="used").sort_index()
    slack = 0.05
    falls = bool((wide.diff().iloc[1:] <= slack).all().all())
    found.append(
        Check(
            "5: the more frequently hosts exchange messages, the more chance there is to use a brief interval",
            falls and bool((wide.iloc[0] > wide.iloc[-1]).any()),
            "; ".join(
                f"openings of {opening:g} s: "
                + ", ".join(f"{share:.0%} at {exchange:g} s" for exchange, share in wide[opening].items())
                for opening in wide.columns
            ),
        )
    )
    price = data.groupby("exchange").control_per_second.mean().sort_index()
    found.append(
        Check(
            "5: and at the same time, the more costly the algorithm will be",
            bool(price.is_monotonic_decreasing),
            ", ".join(f"{exchange:g} s: {packets:.1f} packets a second" for exchange, packets in price.items()),
        )
    )
    long = data[data.opening >= 4 * data.exchange]
    found.append(
        Check(
            f"5: a reliable protocol detects and uses an opening (of four exchanges and more), in {ALMOST_ALL:.0%}",
            bool((long.used >= ALMOST_ALL).all()),
            f"{long.used.min():.0%} at the worst of {len(long)} points",
        )
    )
    return found


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """Share over opening, and share over price."""
    left, right = figure.subplots(1, 2)
    for (exchange, rows), (colour, marker) in zip(data.groupby("exchange"), styles(), strict=False):
        rows = rows.sort_values("opening")
        left.errorbar(
            rows.opening,
            rows.used,
            yerr=rows.used_half_width,
            fmt=marker + "-",
            color=colour,
            markersize=4,
            linewidth=1,
            label=f"EIN = {exchange:g} s",
        )
    for (opening, rows), style in zip(data.groupby("opening"), styles(), strict=False):
        rows = rows.sort_values("exchange")
        curve(right, rows.control_per_second, rows.used, style, f"opening of {opening:g} s")
    for axes, ticks in ((left, sorted(set(data.opening))), (right, CONTROL_TICKS)):
        axes.set_xscale("log")
        axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
    dress(left, "openings that are used", "length of the opening, seconds", "share")
    dress(right, "what it costs", "expensive control packets a second, 2 × 3 hosts", "share of openings used")


ARTEFACT = Artefact(
    name="garcia-molina-reliability",
    title="Relative reliability: brief openings used, and the price",
    paper="Garcia-Molina, Kogan, Lynch 1987, sections 1 and 5",
    says="""
Reliability is the ability to use the communication opportunities that the network presents. If there is even a brief
interval during which two hosts can communicate, and one has a message that the other has not, a reliable protocol
will detect this and send it. To detect it hosts have to exchange messages: the more frequently, the more chance, and
the more costly the algorithm.
""",
    made=f"""
Two clusters of three hosts with one expensive link of 20 ms between them, which after twenty seconds is down but for
{OPENINGS} openings at random moments, half a minute apart. A source in one cluster multicasts every five seconds, so
there is always something that the other cluster lacks. An opening is used when any host of the other cluster delivers
something during it. EIN and the gap filling between clusters have the period that is given; the price is counted
while the link works.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
    figure_inches=(11.0, 4.5),
)
