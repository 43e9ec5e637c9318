"""Section 7.1.2, Tables 7.3 and 7.4, Figures 7.1 to 7.3: from a multicast to its last delivery."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check, LiveRun
from ordercast.papers.berket.distributions import draw_distributions
from ordercast.papers.berket.latency_runs import KEEP_ALIVE_SECONDS, MEASURES, SCHEDULING_MS, SECONDS, measure_live
from ordercast.papers.style import dress
from ordercast.spark.experiments import Experiment, Measure, Point

FULL, SLOW = 100.0, 10.0
"""Messages a second of each process: all that the prototype could send, and one every 100 ms."""
MEDIANS = {
    (FULL, 2): (20, 2),
    (FULL, 4): (21, 11),
    (SLOW, 1): (2, 1),
    (SLOW, 2): (37, 27),
    (SLOW, 4): (57, 44),
    (SLOW, 8): (741, 733),
    (SLOW, 16): (1355, 1346),
}
"""Tables 7.3 and 7.4: rate and processes -> the median at the application and in the protocol, in milliseconds."""
PROCESSES = (1, 2, 4, 8, 16)
FULL_PROCESSES = (2, 4)
SIZES = (1, 1000, 10000)
SIMULATED, LIVE = "simulated", "live"
ENOUGH = 0.99
"""This share of the live messages has to keep the bound; the rest is told."""


def _sensible(point: Point) -> bool:
    return point["rate"] == SLOW or int(point["processes"]) in FULL_PROCESSES


def experiment(fast: bool) -> Experiment:
    """Both tables, simulated."""
    return Experiment(
        name="berket-latency",
        grid={
            "system": (SIMULATED,),
            "rate": (SLOW, FULL),
            "processes": (1, 2, 4) if fast else PROCESSES,
            "size": SIZES[:1],
        },
        function="ordercast.papers.berket.latency_runs:run_latency",
        measures=[Measure(name) for name in MEASURES],
        repetitions_min=1,
        repetitions_max=1,
        where=_sensible,
    )


def live(fast: bool) -> Sequence[LiveRun]:
    """Both tables on this machine, with all sizes of Table 7.1."""
    points: list[Point] = [
        {"system": LIVE, "rate": rate, "processes": count, "size": size}
        for rate in (SLOW, FULL)
        for count in ((2, 4) if fast else PROCESSES)
        for size in (SIZES[:1] if fast or rate == FULL else SIZES)
    ]
    return measure_live([point for point in points if _sensible(point)], 3.0 if fast else 10.0)


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """Equation 7.1, exact where clocks are even and nothing else runs, and of nearly all messages live."""
    simulated, ours = data[data.system == SIMULATED], data[data.system == LIVE]
    slow = ours[ours.rate == SLOW]
    worst = slow.loc[slow.within_scheduling.idxmin()]
    medians = [
        (float(row.rate), int(row.processes), float(row.q50_ms), MEDIANS[float(row.rate), int(row.processes)][0])
        for row in ours[ours["size"] == SIZES[0]].itertuples()
        if (float(row.rate), int(row.processes)) in MEDIANS
    ]
    return [
        Check(
            "Equation 7.1, simulated: no delivery takes longer than the distance and a Keep Alive",
            bool((simulated.within_bound == 1).all()),
            f"the longest {simulated.largest_ms.max():.1f} ms, where the bound is {simulated.bound_ms.min():.1f} to "
            f"{simulated.bound_ms.max():.1f} ms",
        ),
        Check(
            f"Equation 7.1, live: {ENOUGH:.0%} of the deliveries at ten a second within that and "
            f"{SCHEDULING_MS:.0f} ms of scheduling",
            bool((slow.within_scheduling >= ENOUGH).all()),
            f"at least {worst.within_scheduling:.2%} ({int(worst.processes)} processes, {int(worst['size']):,} B: the "
            f"latest {worst.largest_ms:.0f} ms)",
        ),
        Check(
            "Tables 7.3 and 7.4: the median is not above the printed one where no garbage collector counts",
            all(ours_ms <= max(printed, 1000 * KEEP_ALIVE_SECONDS) for *_, ours_ms, printed in medians),
            "; ".join(
                f"{rate:g}/s, {count}: {ours_ms:.1f} ms (printed {printed})"
                for rate, count, ours_ms, printed in medians
            ),
        ),
    ]


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """Figures 7.1 to 7.3 as distributions: which share of the messages is everywhere after so long."""
    panels = ((FULL, 4, "Figure 7.1: 100 a second, 4"), (SLOW, 4, "Figure 7.2: 10 a second, 4"), (SLOW, 16, "7.3: 16"))
    for axes, (rate, count, title) in zip(figure.subplots(1, len(panels), sharey=True), panels, strict=True):
        rows = data[(data.rate == rate) & (data.processes == count) & (data["size"] == SIZES[0])]
        draw_distributions(axes, rows)
        printed = MEDIANS.get((rate, count))
        if printed is not None:
            axes.axvline(printed[0], linestyle=":", color="grey", label=f"printed median ({printed[0]} ms)")
        dress(axes, title, "ms to the last delivery", "percent of the messages")


ARTEFACT = Artefact(
    name="berket-latency",
    title="From a multicast to its last delivery",
    paper="Berket 2000, section 7.1.2, Tables 7.3 and 7.4, Figures 7.1 to 7.3",
    says="""
At full rate the median is 20 ms with two processes and 21 ms with four (2 and 11 ms in the protocol). At ten messages a
second of each process it is 37 ms with two and 57 ms with four, and 741 and 1,355 ms with eight and sixteen, which is
the garbage collector's: by Equation 7.1 it cannot be more than the largest distance and KEEP_ALIVE_TIMEOUT, 75 ms.
""",
    made=f"""
*simulated*: {SECONDS:.0f} s of one group without losses, half a millisecond between any two, Keep Alives after
{KEEP_ALIVE_SECONDS * 1000:.0f} ms; there is no application in it, so this is the latency of the protocol. *live*: one
process for each member on this machine, sealed, over loopback, nobody answers at once; each message carries the time of
its multicast by the machine's one clock, so this is the latency at the application. What the thesis calls full rate are
100 messages a second of each process, which a sleep limited. `within_bound`: the share within Equation 7.1;
`within_scheduling`: within {SCHEDULING_MS:.0f} ms more.
""",
    experiment=experiment,
    live=live,
    draw=draw,
    checks=checks,
    figure_inches=(13.0, 4.5),
)
