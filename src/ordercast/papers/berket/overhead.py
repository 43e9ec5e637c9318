"""Section 7.1.3 and Table 7.5: what crosses the network besides the application's bytes, where nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.berket.overhead_runs import DATAGRAM_BYTES, KEEP_ALIVE_SECONDS, MEASURES, SECONDS
from ordercast.papers.style import curve, dress, styles
from ordercast.spark.experiments import Experiment, Measure, Point

PRINTED = {1: 98.54, 1000: 6.55, 10000: 0.71}
"""Table 7.5: bytes of a message -> percent of what is sent for it that is not the application's."""
SLOW, QUICK = 10.0, 100.0
"""Messages a second of each process: the latter latency experiment, and the most that the prototype could send."""
QUICK_PROCESSES_MAX = 4


def experiment(fast: bool) -> Experiment:
    """The sizes of Table 7.5, the processes of Table 7.4, both ways of sending."""

    def sensible(point: Point) -> bool:
        return point["rate"] == SLOW or int(point["processes"]) <= QUICK_PROCESSES_MAX

    return Experiment(
        name="berket-overhead",
        grid={
            "processes": (2, 4) if fast else (2, 4, 8, 16),
            "size": tuple(PRINTED),
            "rate": (SLOW, QUICK),
        },
        function="ordercast.papers.berket.overhead_runs:run_overhead",
        measures=[Measure(name) for name in MEASURES],
        repetitions_min=1,
        repetitions_max=1,
        where=sensible,
    )


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """What 7.1.3 says, held against the counts."""
    slow, quick = data[data.rate == SLOW], data[data.rate == QUICK]
    percent = {size: float(data[data["size"] == size].overhead_percent.mean()) for size in PRINTED}
    others = slow.keep_alive_share + slow.control_share
    return [
        Check(
            "7.1.3: in bytes, the overhead is significant where messages are small, and only there",
            percent[1] > 90 and percent[10000] < 2,
            "; ".join(f"{size:,} B: {percent[size]:.2f} % (printed {PRINTED[size]:.2f} %)" for size in PRINTED)
            + f"; a header of {data.header_bytes.mean():.0f} bytes, {DATAGRAM_BYTES} of them the sealed datagram's and "
            "the network's (printed: 72, 32 of them of IP and Java)",
        ),
        Check(
            "7.1.3: without errors the only messages besides data and control are Keep Alives",
            bool((data.other_packets <= 0.001 * data.data_packets + 10 * data.processes).all()),
            f"{int(data.other_packets.max())} others at the most (children that look for a coordinator), beside "
            f"{int(data.data_packets.min()):,} data messages at the least",
        ),
        Check(
            "7.1.3: at ten messages a second slightly more than half of what is sent is not the application's",
            bool(((others >= 0.5) & (others <= 0.6)).all()),
            f"{others.min():.1%} to {others.max():.1%}",
        ),
        Check(
            "7.1.3: there are Keep Alives only where there is nothing else to send",
            bool((quick.keep_alive_share <= 0.01).all()),
            f"at {QUICK:g} messages a second {quick.keep_alive_share.max():.2%} of the packets, at {SLOW:g} "
            f"{slow.keep_alive_share.mean():.0%}",
        ),
        Check(
            "7.1.3: a process receives as many control messages a second as there are processes, or fewer",
            bool((data.control_received_per_second <= data.processes).all()),
            ", ".join(
                f"{count} processes: {rows.control_received_per_second.mean():.1f}"
                for count, rows in data.groupby("processes")
            ),
        ),
    ]


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """The overhead over the size, beside the printed one; and what the packets are."""
    size_axes, share_axes = figure.subplots(1, 2)
    sizes = list(PRINTED)
    here = [float(data[data["size"] == size].overhead_percent.mean()) for size in sizes]
    curves = {"here": here, "printed": list(PRINTED.values())}
    for (label, values), style in zip(curves.items(), styles(), strict=False):
        curve(size_axes, sizes, values, style, label)
    size_axes.set_xscale("log")
    size_axes.set_yscale("log")
    dress(size_axes, "Table 7.5", "bytes of a message", "percent overhead")
    slow = data[data.rate == SLOW].groupby("processes").mean(numeric_only=True)
    for name, style in zip(("keep_alive_share", "control_share"), styles(), strict=False):
        curve(share_axes, slow.index, 100 * slow[name], style, name.removesuffix("_share").replace("_", " "))
    dress(share_axes, f"packets that are no data, at {SLOW:g} messages a second", "processes", "percent")


ARTEFACT = Artefact(
    name="berket-overhead",
    title="What the protocol adds to the application's bytes",
    paper="Berket 2000, section 7.1.3 and Table 7.5",
    says="""
A header of 72 bytes, so that 98.54 % of a message of one byte, 6.55 % of one of 1,000 and 0.71 % of one of 10,000 is
overhead (72 bytes would make 98.63, 6.72 and 0.715). Without errors Keep Alives are the only other messages, and only
where there is nothing to send; at ten messages a second they and the control messages are slightly more than half.
""",
    made=f"""
Simulated: one group, everyone sends, `group-timestamp`, Keep Alives after {KEEP_ALIVE_SECONDS * 1000:.0f} ms, control
messages every second, {SECONDS:.0f} s without losses. Packets are counted as they are encoded on sockets, and
{DATAGRAM_BYTES} bytes are added for the datagram: version, session, number, channel and seal (56), UDP and IP (28); a
test holds that against a real one. Our header names processes, groups and the view by their names, and is sealed, which
is why it is longer. A live node puts many messages into one Data message, and then the header is theirs together.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
    figure_inches=(11.0, 4.5),
)
