"""Chapter 5: what a change of the sender group costs, against the senders and against the receivers."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.berket.membership_runs import CHANGES, MEASURES
from ordercast.papers.style import curve, dress, styles
from ordercast.spark.experiments import Experiment, Measure, Point

SENDERS = (2, 4, 8, 16, 32, 64)
RECEIVERS = (0, 50, 500)
MANY = {4: CHANGES, 16: CHANGES, 64: ("crash",)}
"""Senders -> changes with receivers: those that are done within minutes."""
FLAT = 0.1
"""By so much packets may differ between no receivers and five hundred."""
REPETITIONS = 5
"""When two parts hear each other again, chance decides how many of their members propose a view at the same moment: a
packet more or less of twenty."""
LARGE = 8
"""From so many senders on the power is told: below, what is said again counts more than who says it."""


def experiment(fast: bool) -> Experiment:
    """All changes for all senders without receivers, and some of them with receivers."""

    def sensible(point: Point) -> bool:
        senders, receivers, change = int(point["senders"]), int(point["receivers"]), str(point["change"])
        if fast:
            return senders <= 16 and receivers <= (50 if senders == 4 else 0)
        return receivers == 0 or change in MANY.get(senders, ())

    return Experiment(
        name="berket-membership",
        grid={"change": CHANGES, "senders": SENDERS, "receivers": RECEIVERS},
        function="ordercast.papers.berket.membership_runs:run_change",
        measures=[Measure(name) for name in MEASURES],
        repetitions_min=REPETITIONS,
        repetitions_max=REPETITIONS,
        where=sensible,
    )


def power(data: pd.DataFrame, change: str, measure: str) -> float:
    """With which power of the senders something grows."""
    rows = data[(data.change == change) & (data.receivers == 0) & (data.senders >= LARGE)].sort_values("senders")
    first, last = rows.iloc[0], rows.iloc[-1]
    return log(float(last[measure]) / float(first[measure])) / log(float(last.senders) / float(first.senders))


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """What the thesis says of the cost, and what must hold of times and views."""
    growth = {change: power(data, change, "received") for change in ("crash", "merge")}
    sent = {change: power(data, change, "packets") for change in ("crash", "merge")}
    alone = data[data.receivers == 0].set_index(["change", "senders"]).packets
    some = data[data.receivers > 0].set_index(["change", "senders"]).packets
    shared = some.index.intersection(alone.index)
    apart = float((some[shared] / alone.reindex(some[shared].index) - 1).abs().max()) if len(shared) else 0.0
    crashes = data[data.change == "crash"]
    worst = (data.change_seconds_max / data.bound_seconds_min).max()
    slowest = crashes.loc[crashes.change_seconds_max.idxmax()]
    voluntary = data[data.change.isin(("PAdd", "PLeave"))]
    merges = data[data.change == "merge"]
    others = data[data.change != "merge"]
    return [
        Check(
            "5.4: what senders hear in a repair grows with the square of their number",
            all(1.7 <= each <= 2.5 for each in growth.values()),
            "; ".join(
                f"{change}: packets that reach senders grow with the power {growth[change]:.2f}, multicasts with "
                f"{sent[change]:.2f}"
                for change in growth
            ),
        ),
        Check(
            "1.2, chapter 5: a change costs the same, however many receivers there are",
            apart <= FLAT,
            f"packets of the membership, on average, differ by {apart:.1%} at the most from those without receivers; "
            f"control messages, which grow with them, are counted apart ({int(data.control_max.max())} at most)",
        ),
        Check(
            "5.2.2: a PAdd or PLeave needs no repair",
            bool((voluntary.packets_max <= 8).all()),
            f"{int(voluntary.packets_max.max())} packets at the most",
        ),
        Check(
            "after a crash, a PAdd or a PLeave there is exactly one view, after a merge there are at most three",
            bool((others.views_min == 1).all() and (others.views_max == 1).all() and (merges.views_max <= 3).all()),
            f"views after a merge: {int(merges.views_max.max())} at the most",
        ),
        Check(
            "from a crash to the last new view: at most detection, 6 distance_max and cut_seconds",
            bool((data.change_seconds_max <= data.bound_seconds_min).all()),
            f"{worst:.0%} of the bound at the most; the slowest crash {slowest.change_seconds_max:.2f} s of "
            f"{slowest.bound_seconds:.2f} s, {int(slowest.senders)} senders and {int(slowest.receivers)} receivers",
        ),
    ]


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """Packets over the senders and over the receivers, and seconds over the receivers."""
    left, middle, right = figure.subplots(1, 3)
    merges = data[data.change == "merge"]
    shown = int(merges[merges.receivers == merges.receivers.max()].senders.max())
    for change, style in zip(CHANGES, styles(), strict=False):
        rows = data[data.change == change]
        alone = rows[rows.receivers == 0].sort_values("senders")
        for name, line in (("packets", "-"), ("received", ":")):
            label = f"{change}, multicasts" if name == "packets" else f"{change}, heard by senders"
            # The last of two senders goes on without a word, and a logarithm of that is no point.
            said = alone[alone[name] > 0]
            curve(left, said.senders, said[name], style, label, line)
        some = rows[rows.senders == shown].sort_values("receivers")
        curve(middle, some.receivers, some.packets, style, f"{change}, membership")
        curve(middle, some.receivers, some.control, style, f"{change}, control", ":")
        curve(right, some.receivers, some.change_seconds, style, change)
    left.set_xscale("log", base=2)
    for axes in (left, middle):
        axes.set_yscale("log")
    # With room for the legend.
    right.set_ylim(0.0, 1.4 * float(data.change_seconds.max()))
    dress(left, "packets of a change, no receivers", "senders", "packets")
    dress(middle, f"packets of a change, {shown} senders", "receivers", "packets")
    dress(right, f"time until the last new view, {shown} senders", "receivers", "seconds")


ARTEFACT = Artefact(
    name="berket-membership",
    title="Packets and time of a change of the sender group",
    paper="Berket 2000, chapter 5",
    says="""
The membership of a group is that of its senders. Receivers observe it, and take no part in agreeing on it, so that a
change costs what the senders are, and not what the receivers are (1.2). A repair multicasts a few messages of each
sender to all others: O(n^2). Whoever comes or goes by its own will costs one message in the order of all others, a PAdd
or a PLeave (5.2.2), and no repair.
""",
    made="""
One change in a group at rest: a receiver becomes a sender (PAdd), a sender becomes a receiver (PLeave), a sender
crashes, or two halves that were cut off from each other for eight seconds hear each other again (merge). 20 ms from
anybody to anybody, no loss, Keep Alives every 0.5 s. *packets*: messages of the membership that were sent, a multicast
once; what is not answered is said again after a second, and cut_seconds is half of that. *received*: the same, counted
where they reach senders. *control*: messages of the control hierarchy meanwhile. *seconds*: until the last process has
the last view. The powers are those between 8 senders and the most, where (n - 1)(n - 2) grows a little faster than its
square.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
    figure_inches=(15.0, 4.5),
)
