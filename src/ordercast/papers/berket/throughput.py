"""Section 7.1.1, Tables 7.1 and 7.2: messages a second in one group of which everyone is a sender."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check, LiveRun
from ordercast.papers.berket.throughput_runs import MEASURES, SECONDS, measure_live
from ordercast.papers.style import curve, dress, styles
from ordercast.spark.experiments import Experiment, Measure, Point

CLUSTER = {
    (1, 1): 96,
    (2, 1): 154,
    (4, 1): 248,
    (1, 1000): 94,
    (2, 1000): 140,
    (4, 1000): 140,
    (1, 10000): 70,
    (2, 10000): 30,
    (4, 10000): 18,
}
"""Table 7.1: processes and bytes -> messages a second on the cluster."""
LABORATORY = {
    (1, 1): 49,
    (2, 1): 98,
    (4, 1): 197,
    (1, 1000): 48,
    (2, 1000): 97,
    (4, 1000): 195,
    (1, 10000): 48,
    (2, 10000): 96,
    (4, 10000): 185,
}
"""Table 7.2: the same in the laboratory."""
SIZES = (1, 1000, 10000)
PROCESSES = (1, 2, 4, 8, 16)
SIMULATED_MAX = 8
"""With sixteen, 1,600 messages a second come, and the prototype's machines process 900."""
SIMULATED, LIVE = "simulated", "live"


def experiment(fast: bool) -> Experiment:
    """The tables, simulated."""
    return Experiment(
        name="berket-throughput",
        grid={
            "system": (SIMULATED,),
            "processes": (1, 2) if fast else tuple(count for count in PROCESSES if count <= SIMULATED_MAX),
            "size": SIZES,
        },
        function="ordercast.papers.berket.throughput_runs:run_throughput",
        measures=[Measure(name) for name in MEASURES],
        repetitions_min=1,
        repetitions_max=1,
    )


def live(fast: bool) -> Sequence[LiveRun]:
    """The tables, and more processes, on this machine."""
    points: list[Point] = [
        {"system": LIVE, "processes": count, "size": size}
        for count in ((1, 2, 4) if fast else PROCESSES)
        for size in SIZES
    ]
    return measure_live(points, 1.0 if fast else 3.0)


def _printed(count: int, size: int) -> int | None:
    """The larger of the two tables' values."""
    both = [table[count, size] for table in (CLUSTER, LABORATORY) if (count, size) in table]
    return max(both, default=None)


def _least_above(rows: pd.DataFrame) -> tuple[float, str]:
    """Of all points that a table has, the least share of the printed value, and which one that is."""
    shares = []
    for row in rows.to_dict("records"):
        count, size, rate = int(row["processes"]), int(row["size"]), float(row["messages_per_second"])
        printed = _printed(count, size)
        if printed is not None:
            shares.append((rate / printed, f"{count} processes, {size:,} B: {rate:,.0f} (printed {printed})"))
    return min(shares)


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """Live above every printed value, whatever the number; and what limits the prototype limits the simulation."""
    ours, simulated = data[data.system == LIVE], data[data.system == SIMULATED]
    least, where = _least_above(ours)
    highest = max({**CLUSTER, **LABORATORY}.values())
    many = ours[~ours.processes.isin([count for count, _ in CLUSTER])]
    each = simulated.messages_per_second / simulated.processes
    return [
        Check(
            "Tables 7.1 and 7.2: live, the throughput is above every printed one",
            least > 1 and bool((many.messages_per_second > highest).all()),
            f"at least {least:,.0f} times as much: {where}"
            + (f"; with more processes at least {many.messages_per_second.min():,.0f} a second" if len(many) else ""),
        ),
        Check(
            "nothing is lost",
            bool((ours.lost == 0).all()),
            f"{int(ours.lost.sum())} of all live messages",
        ),
        Check(
            "7.1.1: with ten milliseconds before each message a process sends 100 a second, also of large ones",
            bool(((each >= 80) & (each <= 100.5)).all()),
            f"simulated: {each.min():.0f} to {each.max():.0f} a second of each process; the garbage collector of the "
            "prototype's machines, which takes the rest in Table 7.1, is not simulated",
        ),
    ]


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """Messages a second over the processes, for each size, beside both tables."""
    for axes, size in zip(figure.subplots(1, len(SIZES), sharey=True), SIZES, strict=True):
        curves = {
            "live": data[(data.system == LIVE) & (data["size"] == size)],
            "simulated": data[(data.system == SIMULATED) & (data["size"] == size)],
        }
        tables = {"Table 7.1": CLUSTER, "Table 7.2": LABORATORY}
        drawn = {name: (list(rows.processes), list(rows.messages_per_second)) for name, rows in curves.items()}
        for name, table in tables.items():
            printed = {count: rate for (count, each), rate in table.items() if each == size}
            drawn[name] = (list(printed), list(printed.values()))
        for (name, (counts, rates)), style in zip(drawn.items(), styles(), strict=False):
            curve(axes, counts, rates, style, name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        dress(axes, f"{size:,} B", "processes", "messages a second")


ARTEFACT = Artefact(
    name="berket-throughput",
    title="Messages a second",
    paper="Berket 2000, section 7.1.1, Tables 7.1 and 7.2",
    says="""
One process group, everyone sends as fast as the protocols allow, group timestamp order. On a cluster 96, 154 and 248
messages of one byte a second with 1, 2 and 4 processes; in a laboratory, with another garbage collector, 49, 98 and
197, and hardly fewer when they are large. The limit is a sleep of ten (in the laboratory twenty) milliseconds before
each message; beyond 200 kB/s the garbage collector loses blocks of messages. Without it, 900 messages a second.
""",
    made=f"""
*simulated*: what the protocol does with the prototype's limits: 100 messages a second of each process, 1/900 s for each
packet, half a millisecond between any two, {SECONDS:.0f} s. *live*: `ordercast bench --protocol intergroup` on this
machine, each process one of its own, sealed, over loopback, one cluster after the other: messages a second that the
slowest process delivers. A live node puts messages that come together into one Data message.
""",
    experiment=experiment,
    live=live,
    draw=draw,
    checks=checks,
    figure_inches=(12.0, 4.5),
)
