"""Figure 10: what recovery costs each process, against what it costs to process the messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.style import dress, styles
from ordercast.papers.tachikawa.formulas import processing_printed
from ordercast.papers.tachikawa.retransmissions import experiment as retransmissions
from ordercast.papers.tachikawa.runs import MESSAGES, PROCESSES
from ordercast.spark.experiments import Experiment, Measure, Point

F_OF_THE_CLAIM = 0.001


def experiment(fast: bool) -> Experiment:
    """Like the selective runs of Figures 8 and 9, over f with d/n = 0.5 and 1, and over d/n for the f of the text's
    claim; another measure must be exact."""

    def is_wanted(point: Point) -> bool:
        return point["share"] in (0.5, 1.0) or point["f"] == F_OF_THE_CLAIM

    like = retransmissions(fast)
    measures = [
        Measure(name, relative=0.1, absolute=0.03) if name == "work" else Measure(name)
        for name in (measure.name for measure in like.measures)
    ]
    grid = {**like.grid, "recovery": ("selective",)}
    return replace(like, name="tachikawa-processing", grid=grid, measures=measures, where=is_wanted)


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """The one number that the text gives, and the two formulas."""
    at_claim = data[data.f == F_OF_THE_CLAIM].sort_values("share")
    last = at_claim.iloc[-1]
    printed_8 = processing_printed(F_OF_THE_CLAIM, 8, 8, MESSAGES)
    below = data.work <= data.work_corrected + data.work_half_width + 0.02
    grows = data[data.share == 1.0].sort_values("f").work
    return [
        Check(
            "if f is 0.001 or smaller, recovery costs below 20 % of the normal processing time (measured)",
            bool((at_claim.work < 0.2).all()),
            f"d/n = {last.share:g}: {last.work:.3f} ± {last.work_half_width:.3f}",
        ),
        Check(
            f"the same by the printed formula, n = {PROCESSES}, L = {MESSAGES}, d = n",
            bool(last.work_printed < 0.2),
            f"{last.work_printed:.3f}; with n = 8 it is {printed_8:.3f}",
        ),
        Check(
            "the corrected formula is an upper bound",
            bool(below.all()),
            f"at {int(below.sum())} of {len(below)} points; the largest measured is {data.work.max():.3f}, "
            f"by formula {data.work_corrected.max():.3f}",
        ),
        Check(
            "the cost grows with f",
            bool(grows.is_monotonic_increasing),
            f"d = n: {grows.iloc[0]:.3f} to {grows.iloc[-1]:.3f}",
        ),
    ]


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """Over f: points measured, lines by formula."""
    axes = figure.subplots()
    for share, (colour, marker) in zip((0.5, 1.0), styles(), strict=False):
        part = data[data.share == share].sort_values("f")
        axes.errorbar(
            part.f, part.work, part.work_half_width, fmt=marker, color=colour, markersize=4, label=f"d/n = {share:g}"
        )
        axes.plot(part.f, part.work_corrected, color=colour)
        axes.plot(part.f, part.work_printed, color=colour, linestyle=":")
    axes.axhline(0.2, color="#555555", linewidth=0.8, linestyle="--")
    dress(axes, "Figure 10: cost of recovery (lines: corrected; dotted: as printed)", "f", "C / D")


ARTEFACT = Artefact(
    name="tachikawa-processing",
    title="What recovery costs each process (Figure 10)",
    paper="Tachikawa and Takizawa, section 5",
    says="""
Inserting a message in a log costs 1, sorting h messages costs h; processing L messages without a loss costs D = L.
With F_0 the probability that one message is lost by one process and F_1 that several are, C = F_0/n + F_1 R_G. If f
is smaller than 0.001 the overhead is below 20 % of the normal processing time.
""",
    made=f"""
The runs of Figures 8 and 9 (n = {PROCESSES}, L = {MESSAGES}); counted is what the processes insert and sort, each
message behind the agreed line in each log. F_0 as printed lacks the factor for which receipt it is that fails, and
F_1 weighs R_G, which is an expectation already; each process sorts only its share of RL. The corrected formula counts
all that. It is an upper bound for the same reason as R_G. n and L are not given in the paper; the printed formula
keeps the claim for n = 8 and L = 100, and not for n = 10.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
)
