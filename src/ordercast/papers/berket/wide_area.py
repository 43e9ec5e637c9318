"""Section 7.2, Figure 7.4 and Equation 7.2: what the order of all costs between two places."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check, LiveRun
from ordercast.papers.berket.distributions import draw_distributions
from ordercast.papers.berket.wide_area_runs import (
    FAR_SECONDS,
    JITTER_SECONDS,
    KEEP_ALIVE_SECONDS,
    LOSS,
    MEASURES,
    WARM_UP_RATE,
    measure_live,
)
from ordercast.papers.style import dress
from ordercast.spark.experiments import Experiment, Measure, Point

SIMULATED, LIVE = "simulated", "live"
WITHOUT_MS, WITH_MS = 140.0, 250.0
"""What the thesis derives from Equation 7.2, without and with losses."""
SCHEDULING_MS = 10.0


def experiment(fast: bool) -> Experiment:
    """An hour without and with losses, simulated."""
    return Experiment(
        name="berket-wide-area",
        grid={
            "system": (SIMULATED,),
            "lossy": (False, True),
            "warm_up_seconds": (20.0 if fast else 60.0,),
            "run_seconds": (60.0 if fast else 3600.0,),
        },
        function="ordercast.papers.berket.wide_area_runs:run_wide_area",
        measures=[Measure(name) for name in MEASURES],
        repetitions_min=1,
        repetitions_max=1 if fast else 2,
    )


def live(fast: bool) -> Sequence[LiveRun]:
    """The same on this machine, for as long as one waits."""
    points: list[Point] = [
        {"system": LIVE, "lossy": lossy, "warm_up_seconds": 20.0, "run_seconds": 10.0 if fast else 60.0}
        for lossy in (False, True)
    ]
    return measure_live(points)


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """The three numbers of 7.2."""
    calm, lossy = data[~data.lossy.astype(bool)], data[data.lossy.astype(bool)]
    simulated = calm[calm.system == SIMULATED]
    excess = float((simulated.largest_ms_max - simulated.unordered_largest_ms_min).max())
    return [
        Check(
            "Equation 7.2: the order of all takes a Keep Alive longer than no order at the most",
            excess <= 1000 * KEEP_ALIVE_SECONDS + 2.0,
            f"simulated, without losses: {excess:.1f} ms longer, with Keep Alives every "
            f"{1000 * KEEP_ALIVE_SECONDS:.0f} ms",
        ),
        Check(
            f"7.2: at most {WITHOUT_MS:.0f} ms without losses",
            bool((calm.largest_ms_max <= WITHOUT_MS + (calm.system == LIVE) * SCHEDULING_MS).all()),
            _longest(calm, "within_140"),
        ),
        Check(
            f"7.2: at most {WITH_MS:.0f} ms with losses, of each sender one at a time",
            bool((lossy.once_largest_ms_max <= WITH_MS + (lossy.system == LIVE) * SCHEDULING_MS).all()),
            f"{_longest(lossy, 'within_250')}; simulated, with one loss of a sender at a time at most "
            f"{lossy[lossy.system == SIMULATED].once_largest_ms_max.max():.0f} ms",
        ),
    ]


def _longest(rows: pd.DataFrame, share: str) -> str:
    return "; ".join(
        f"{row['system']}: the longest of {row['messages']:,.0f} took {row['largest_ms_max']:.0f} ms, "
        f"{row[share]:.2%} are within"
        for row in rows.to_dict("records")
    )


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """The distributions without and with losses, beside the bounds."""
    for axes, lossy in zip(figure.subplots(1, 2, sharey=True), (False, True), strict=True):
        rows = data[data.lossy.astype(bool) == lossy]
        draw_distributions(axes, rows)
        bound = WITH_MS if lossy else WITHOUT_MS
        axes.axvline(bound, linestyle=":", color="grey", label=f"printed bound ({bound:.0f} ms)")
        title = f"{LOSS:.0%} lost" if lossy else "nothing lost"
        dress(axes, title, "ms from one place to the other, in the order of all", "percent of the deliveries")


ARTEFACT = Artefact(
    name="berket-wide-area",
    title="Two places, and the order of all",
    paper="Berket 2000, section 7.2, Figure 7.4 and Equation 7.2",
    says="""
Three processes at ANL and three at LBNL, a message a second of each, Keep Alives every 50 ms, for a night. Without
order a message takes up to 90 ms from one place to the other. In the order of all it takes a Keep Alive longer at the
most (Equation 7.2): 140 ms. A loss takes 40 to 180 ms to repair, which makes 250 ms.
""",
    made=f"""
Two places of three processes, {1000 * FAR_SECONDS:.0f} ms apart and up to {1000 * JITTER_SECONDS:.0f} ms more for each
packet that crosses the link; in each place two have `group-timestamp` and one `unreliable`. Counted is what one place
delivers of the other. The thesis prints the longest that the link took, not the shortest; but its repairs took 180 ms
at the most, and a request alone waits for up to four distances at first (3.2.2). *simulated*: clocks are even. *live*:
six nodes on this machine, through the relay of `ordercast chaos`, in one process; what its scheduling adds is at most
{SCHEDULING_MS:.0f} ms. With losses, each receiver loses {LOSS:.0%} of the packets that cross the link, requests and
repairs too. Before it counts there are {WARM_UP_RATE:.0f} messages a second of each for a minute (live: for 20 s): the
thesis's run lasted a night, and timers of requests begin with what 3.2.2 prints and adapt a little with each loss.
Where a message and the Keep Alive that tells of it are lost to one receiver, it takes another Keep Alive; such
deliveries are counted apart, for the thesis adds up one loss. Nobody answers at once.
""",
    experiment=experiment,
    live=live,
    draw=draw,
    checks=checks,
    figure_inches=(11.0, 4.5),
)
