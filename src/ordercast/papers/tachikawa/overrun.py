"""Beyond the figures: what it costs that receivers are slower than the channel, when overrun is a consequence."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.style import dress, styles
from ordercast.papers.tachikawa.retransmissions import RECOVERIES
from ordercast.spark.experiments import Experiment, Measure


def experiment(fast: bool) -> Experiment:
    """Over how long a receiver takes for a frame, in frames of the channel."""
    return Experiment(
        name="tachikawa-overrun",
        grid={
            "ratio": (0.5, 2.0, 8.0) if fast else (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0),
            "recovery": RECOVERIES,
            "buffers": (32,),
            "messages": (500,),
        },
        function="ordercast.papers.tachikawa.runs:run_overrun",
        measures=[
            Measure("frames_again", relative=0.25, absolute=0.03),
            Measure("overruns"),
            Measure("resets"),
            Measure("seconds_each"),
            Measure("undelivered"),
        ],
        repetitions_min=5 if fast else 20,
        repetitions_max=20 if fast else 200,
    )


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """What the paper says of the channel and of the two schemes."""
    fast_receivers, slow = data[data.ratio <= 0.5], data[data.ratio >= 2.0]
    both = slow.pivot(index="ratio", columns="recovery", values="frames_again")
    fewer = both["selective"] < both["go-back-n"]
    return [
        Check(
            "everything is delivered, at whatever speed",
            bool((data.undelivered_max == 0).all()),
            f"{int(data.repetitions.sum())} runs, {data.undelivered_max.max():g} messages missing",
        ),
        Check(
            "who is faster than the channel loses nothing",
            bool((fast_receivers.overruns_max == 0).all()),
            f"overruns per message: {fast_receivers.overruns_max.max():g}",
        ),
        Check(
            "processes fail to receive messages because transmission is faster than processing (2.1)",
            bool((slow.overruns > 0).all()),
            f"overruns per message: {slow.overruns.min():.2f} to {slow.overruns.max():.2f}",
        ),
        Check(
            "the selective scheme sends less again than go-back-n",
            bool(fewer.all()),
            "; ".join(
                f"ratio {ratio:g}: {row['selective']:.2f} against {row['go-back-n']:.2f}"
                for ratio, row in both.iterrows()
            ),
        ),
    ]


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """What is sent again, and the time for a message."""
    left, right = figure.subplots(1, 2)
    for recovery, (colour, marker) in zip(RECOVERIES, styles(), strict=False):
        part = data[data.recovery == recovery].sort_values("ratio")
        left.errorbar(
            part.ratio,
            part.frames_again,
            part.frames_again_half_width,
            marker=marker,
            color=colour,
            markersize=4,
            label=recovery,
        )
        right.plot(part.ratio, 1e3 * part.seconds_each, marker=marker, color=colour, markersize=4, label=recovery)
    dress(left, "sent again, per message", "receiver's time for a frame / channel's", "frames")
    dress(right, "time per message", "receiver's time for a frame / channel's", "milliseconds")


ARTEFACT = Artefact(
    name="tachikawa-overrun",
    title="Overhead against the speed of channel and receivers",
    paper="Tachikawa and Takizawa, sections 1 and 2.1 (no figure)",
    says="""
In a high-speed network processes fail to receive messages by buffer overrun, because transmission is faster than
processing. The paper evaluates a fixed probability f; it has no figure over the speeds themselves.
""",
    made="""
Five processes hand over 500 messages to three destinations each at once, and send as fast as windows allow; a
receiver has 32 buffers and takes `ratio` times as long for a frame as the channel. Nothing is lost but by overrun.
Windows are halved at each loss and grow again, as everywhere in this implementation.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
    figure_inches=(11.0, 4.5),
)
