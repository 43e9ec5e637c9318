"""Chapter 3 and 7.1.3: however many receivers share a loss, few of them ask for it, and it is repaired about once."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.berket.repair_runs import LOSS, MEASURES, PER_LOSS, RATE, SECONDS, START_SECONDS, TIMERS, WINDOWS
from ordercast.papers.style import curve, dress, styles
from ordercast.spark.experiments import Experiment, Measure, Point

ADAPTED = WINDOWS // 2
"""From this part of a run on timers have adapted."""
REGIONS = {16: 1, 100: 10}
"""Receivers -> regions: a local area, and ten of them."""
MOST = {16: 1.5, 100: 3.0}
"""Receivers -> requests, and repairs, for each loss at the most."""


def experiment(fast: bool) -> Experiment:
    """Both sizes, each with timers that adapt and with those that do not; the small one where it has to be fast."""

    def sensible(point: Point) -> bool:
        receivers = int(point["receivers"])
        return int(point["regions"]) == REGIONS[receivers] and (not fast or receivers == 16)

    return Experiment(
        name="berket-repair",
        grid={"receivers": tuple(REGIONS), "regions": tuple(REGIONS.values()), "timers": TIMERS},
        function="ordercast.papers.berket.repair_runs:run_repair",
        measures=[Measure(name) for name in MEASURES],
        repetitions_min=1 if fast else 3,
        repetitions_max=1 if fast else 3,
        where=sensible,
    )


def after_adaptation(row: pd.Series, name: str) -> float:
    """Requests, or repairs, for each loss in the second half of a run."""
    windows = range(ADAPTED, WINDOWS)
    losses = [row[f"losses_{window}"] for window in windows]
    return float(
        sum(row[f"{name}_{window}"] * lost for window, lost in zip(windows, losses, strict=True)) / sum(losses)
    )


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """What was observed, and what more receivers make of it."""
    rows = {(int(row.receivers), str(row.timers)): row for _, row in data.iterrows()}
    found = []
    for receivers, most in MOST.items():
        row = rows.get((receivers, "adaptive"))
        if row is None:
            continue
        requests, repairs = (after_adaptation(row, name) for name in PER_LOSS)
        claim = "7.1.3: slightly more than one request and repair for each loss" if receivers == 16 else ""
        found.append(
            Check(
                claim or f"3.3: with {receivers} receivers in {REGIONS[receivers]} regions there are at most {most:g}",
                requests <= most and repairs <= most,
                f"{receivers} receivers that share each loss: {requests:.2f} requests, {repairs:.2f} repairs, in the "
                f"first tenth of the run {row.requests_0:.2f} and {row.repairs_0:.2f}; highReqParam "
                f"{row.high_request:.0f}, where 1 + receivers / highReqParam are expected",
            )
        )
    wide, fixed, at_once = (after_adaptation(rows[16, timers], "requests") for timers in TIMERS)
    found.append(
        Check(
            "3.2.2: timers that adapt save requests, and random timers save more of them",
            wide < fixed < at_once,
            f"16 receivers: {wide:.2f} requests for each loss with adaptive timers, {fixed:.2f} with fixed ones, "
            f"{at_once:.2f} without a wait",
        )
    )
    return found


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """Requests and repairs over time; a curve for each size and kind of timer."""
    both = figure.subplots(1, 2)
    width = (SECONDS - START_SECONDS) / WINDOWS
    middle = [START_SECONDS + (window + 0.5) * width for window in range(WINDOWS)]
    for (_, row), style in zip(data.sort_values(["receivers", "timers"]).iterrows(), styles(), strict=False):
        for axes, name in zip(both, PER_LOSS, strict=True):
            values = [row[f"{name}_{window}"] for window in range(WINDOWS)]
            curve(axes, middle, values, style, f"{row.receivers} receivers, {row.timers}")
    requests, repairs = both
    requests.set_yscale("log")
    repairs.set_ylim(0.0, max(2.0, repairs.get_ylim()[1]))
    for axes, name in zip(both, PER_LOSS, strict=True):
        axes.axhline(1.0, color="#999999", linewidth=1)
        # The curves are the same in both: one legend, where there is room.
        dress(axes, f"{name} for each loss", "seconds", name, legend=axes is repairs)


ARTEFACT = Artefact(
    name="berket-repair",
    title="Requests and repairs for losses that many receivers share",
    paper="Berket 2000, chapter 3 and section 7.1.3",
    says="""
Whoever misses a message asks everyone for it after a random time in proportion to its distance from the source, and
whoever has it answers likewise; who hears another one first keeps silent. The parameters of the times adapt (Figures
3.1 and 3.2). "On average, we observed only slightly more than one request and repair message per message loss" (7.1.3,
up to 16 processes in a local area).
""",
    made=f"""
One source, {RATE:g} messages a second, {LOSS:.0%} of what it sends lost for everyone (repairs and Keep Alives, too); 20
ms from anybody to anybody, so that nothing but chance lets one receiver ask before the others. Losses are messages that
were lost, or lost again as repairs. *fixed*: the timers stay as they are at the start. *at-once*: whoever notices a
loss asks at once, the first time. highReqParam is at most 100 (3.2.2), so G receivers that are as far from each other
as from the source make about 1 + G/100 requests: with 100 of them two, not one.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
    figure_inches=(12.0, 4.5),
)
