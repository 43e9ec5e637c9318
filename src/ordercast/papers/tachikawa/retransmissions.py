"""Figures 8 and 9: how many messages are sent again, selectively and by go-back-n, over f and over d/n."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.style import dress, styles
from ordercast.papers.tachikawa.runs import MESSAGES, PROCESSES
from ordercast.spark.experiments import Experiment, Measure, Point

FIGURE_9_F = 0.005
SHARES_AT = (0.001, FIGURE_9_F, 0.02)
"""Where the whole of d/n = 0.1 … 1 is measured, selectively."""
RECOVERIES = ("selective", "go-back-n")


def experiment(fast: bool) -> Experiment:
    """Figure 8: over f with d/n = 0.5 and 1. Figure 9: over d/n with f = 0.005. Selectively also over d/n with the
    smallest and the largest f, where the printed and the corrected formula differ most."""

    def is_wanted(point: Point) -> bool:
        on_a_figure = point["share"] in (0.5, 1.0) or point["f"] == FIGURE_9_F
        return on_a_figure or (point["recovery"] == "selective" and point["f"] in SHARES_AT)

    return Experiment(
        name="tachikawa-retransmissions",
        grid={
            "f": SHARES_AT if fast else (0.001, 0.002, 0.005, 0.01, 0.015, 0.02),
            "share": (0.1, 0.5, 1.0) if fast else tuple(number / 10 for number in range(1, 11)),
            "recovery": RECOVERIES,
        },
        function="ordercast.papers.tachikawa.runs:run_losses",
        measures=[
            # By go-back-n a run sends nearly all again, or nothing: a hundredth would take thousands of runs a point.
            # The selective scheme is known to a hundredth or better from the fewest runs.
            Measure("again", relative=0.1, absolute=0.05),
            Measure("frames_again"),
            Measure("again_printed"),
            Measure("again_corrected"),
            Measure("work"),
            Measure("work_printed"),
            Measure("work_corrected"),
        ],
        repetitions_min=20 if fast else 60,
        repetitions_max=60 if fast else 300,
        where=is_wanted,
    )


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """What section 5 says."""
    selective, go_back = (data[data.recovery == recovery] for recovery in RECOVERIES)
    both = selective.merge(go_back, on=["f", "share"], suffixes=("_s", "_g"))
    fewer = both.again_s < both.again_g
    off = {name: (selective.again - selective[f"again_{name}"]) for name in ("printed", "corrected")}
    # Of many 95 % intervals some miss; twice as wide they do not.
    allowed = 2 * selective.again_half_width + 0.002
    agrees = {name: (off[name].abs() <= allowed) for name in off}
    line = selective[selective.f == FIGURE_9_F].sort_values("share")
    slope = (line.again * line.share).sum() / (line.share**2).sum()
    off_the_line = (line.again - slope * line.share).abs()
    above = go_back.again - go_back.again_corrected
    bound = above <= 2 * go_back.again_half_width + 0.002
    highest = go_back.loc[(go_back.again / go_back.again_corrected).idxmax()]
    return [
        Check(
            "the selective scheme sends fewer messages again than go-back-n (Figures 8 and 9)",
            bool(fewer.all()),
            f"at {int(fewer.sum())} of {len(fewer)} points; go-back-n sends "
            f"{(both.again_g / both.again_s).median():.0f} times as many (median)",
        ),
        Check(
            "the number of messages sent again by the selective scheme is almost O(d/n)",
            bool((off_the_line <= 2 * line.again_half_width + 0.003).all()),
            f"f = {FIGURE_9_F}: {slope:.4f} d/n, off by up to {off_the_line.max():.4f} at {len(line)} points",
        ),
        Check(
            "R_S/L = 1 - F with F = (1 - f d/n)^d (printed)",
            bool(agrees["printed"].all()),
            f"at {int(agrees['printed'].sum())} of {len(selective)} points; "
            f"off by up to {off['printed'].abs().max():.3f}",
        ),
        Check(
            "R_S/L = 1 - F with F = (1 - f)^d (corrected)",
            bool(agrees["corrected"].all()),
            f"at {int(agrees['corrected'].sum())} of {len(selective)} points; "
            f"off by up to {off['corrected'].abs().max():.3f}",
        ),
        Check(
            "R_G/L of (2), with the corrected F, is an upper bound (to within two 95 % intervals and 0.002)",
            bool(bound.all()),
            f"at {int(bound.sum())} of {len(bound)} points; measured are "
            f"{(go_back.again / go_back.again_corrected).min():.2f} to "
            f"{(go_back.again / go_back.again_corrected).max():.2f} of it, most at f = {highest.f:g}, d/n = "
            f"{highest.share:g}: {highest.again:.4f} ± {highest.again_half_width:.4f} against "
            f"{highest.again_corrected:.4f}",
        ),
    ]


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """Both figures, and the two formulas for the selective scheme: points measured, lines by formula."""
    left, right, wide = figure.subplots(1, 3)
    look = styles()
    for recovery in RECOVERIES:
        curve = data[data.recovery == recovery]
        for share in (0.5, 1.0):
            colour, marker = next(look)
            part = curve[curve.share == share].sort_values("f")
            left.errorbar(
                part.f,
                part.again,
                part.again_half_width,
                fmt=marker,
                color=colour,
                markersize=4,
                label=f"{recovery}, d/n = {share:g}",
            )
            left.plot(part.f, part.again_corrected, color=colour)
            left.plot(part.f, part.again_printed, color=colour, linestyle=":")
        colour, marker = next(look)
        part = curve[curve.f == FIGURE_9_F].sort_values("share")
        right.errorbar(
            part.share, part.again, part.again_half_width, fmt=marker, color=colour, markersize=4, label=recovery
        )
        right.plot(part.share, part.again_corrected, color=colour)
        right.plot(part.share, part.again_printed, color=colour, linestyle=":")
    for f, (colour, marker) in zip(SHARES_AT, styles(), strict=False):
        part = data[(data.recovery == "selective") & (data.f == f)].sort_values("share")
        wide.errorbar(
            part.share, part.again, part.again_half_width, fmt=marker, color=colour, markersize=4, label=f"f = {f:g}"
        )
        wide.plot(part.share, part.again_corrected, color=colour)
        wide.plot(part.share, part.again_printed, color=colour, linestyle=":")
    wide.set_yscale("log", nonpositive="clip")
    left.locator_params(axis="x", nbins=5)
    dress(left, "Figure 8: over f", "f", "sent again / L")
    dress(right, f"Figure 9: over d/n, f = {FIGURE_9_F:g}", "d/n", "sent again / L")
    dress(wide, "selective, over d/n (lines: corrected; dotted: as printed)", "d/n", "sent again / L")


ARTEFACT = Artefact(
    name="tachikawa-retransmissions",
    title="Messages sent again: selectively, and by go-back-n (Figures 8 and 9)",
    paper="Tachikawa and Takizawa, section 5",
    says="""
R_S = L(1 - F) messages are sent again by the selective scheme, R_G = sum of F^(l-1) (1 - F)(L - l + 1) by go-back-n,
with F = (1 - f d/n)^d. Figure 8 shows both over f for d/n = 0.5 (ST) and 1 (TO), Figure 9 over d/n for f = 0.005. The
selective scheme needs fewer, almost O(d/n) against O((d/n)^c). Neither n nor L is given.
""",
    made=f"""
The protocol itself, n = {PROCESSES}, L = {MESSAGES}: all messages are on the channel before anyone can acknowledge
one, each to exactly d processes drawn at random; every frame, also of the agreement, is lost with probability f at
each receiver. Counted is every message that is on the channel more than once (`frames_again`: how often more).

Where they differ: the printed F mixes two models and makes R_S/L quadratic in d/n, which the text and the runs are
not. With (1 - f)^d formula and runs agree. (2) counts everything behind the first loss; the protocol takes back only
what can come after it in some log: so it is an upper bound, of the mean. By go-back-n a run sends nearly all again, or
nothing, so a point is known to about ±0.05 only; it passes when it lies above the bound by no more than twice its 95 %
interval (of many intervals some miss) and 0.002. Where f is small that is a sizeable part of the bound. But what
go-back-n sends again can be lost again, and then goes back again: the frames are several times as many as the
messages, which the formula does not count.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
    figure_inches=(15.0, 4.5),
)
