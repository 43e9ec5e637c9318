"""Tables 4.1 and 4.2: messages N and delay D of the three algorithms, by formula and counted in simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.spauster.classic import FRAME_SECONDS
from ordercast.papers.spauster.tables_4_runs import TOLERANCE
from ordercast.papers.style import dress, styles
from ordercast.spark.experiments import Experiment, Measure, Point
from ordercast.spark.experiments.experiment import Value

_FUNCTIONS = "ordercast.papers.spauster.tables_4_runs"
MUCH_LESS = 0.75
"""Of the bound, on average: what counts as much less."""


def _sensible(point: Point) -> bool:
    return int(point["group_size"]) <= int(point["sites"]) // 2


def _grid(fast: bool) -> dict[str, Sequence[int]]:
    return {
        "sites": (20, 60) if fast else (20, 50, 100, 200),
        "groups": (10,) if fast else (5, 10, 20),
        "group_size": (5, 10) if fast else (2, 5, 10, 20, 40),
    }


def _experiment(
    name: str,
    function: str,
    grid: Mapping[str, Sequence[Value]],
    known: Sequence[str],
    noted: Sequence[str],
    fast: bool,
) -> Experiment:
    """Measures whose means are known to ±10 %, and others whose extremes matter."""
    return Experiment(
        name=name,
        grid=grid,
        function=f"{_FUNCTIONS}:{function}",
        measures=[*(Measure(each, relative=0.1) for each in known), *(Measure(each) for each in noted)],
        repetitions_min=3 if fast else 10,
        repetitions_max=10 if fast else 60,
        where=_sensible,
    )


def _runs(data: pd.DataFrame) -> str:
    messages = int((data.repetitions * data.groups).sum())
    return f"{messages:,} messages in {int(data.repetitions.sum()):,} runs at {len(data)} points"


def _exact(data: pd.DataFrame, column: str, claim: str, unit: str = "") -> Check:
    off = float(data[f"{column}_max"].max())
    return Check(claim, off <= TOLERANCE, f"{_runs(data)}: off by at most {off:.1g}{unit}")


# ---------------------------------------------------------------------- 4.1
def _experiment_4_1(fast: bool) -> Experiment:
    return _experiment(
        "spauster-table-4-1",
        "run_point_to_point",
        {**_grid(fast), "processing": (0.0001,), "latency": (0.0001, 0.002) if fast else (0.0001, 0.001, 0.01)},
        ("packets", "delay"),
        (
            *("extra", "depth", "packets_off", "delay_over_bound", "delay_share_of_bound"),
            *("shallow", "shallow_slower", "deep", "deep_slower"),
            *("two_phase_packets_off", "two_phase_delay_off", "two_phase_delay"),
            *("centralized_packets_off", "centralized_delay_off", "centralized_delay"),
        ),
        fast,
    )


def _shape_4_1(points: DataFrame) -> DataFrame:
    """The formulas beside the counts, with the point's mean d and ε."""
    n, seconds_p, seconds_l = F.col("group_size"), F.col("processing"), F.col("latency")
    return points.withColumns(
        {
            "packets_formula": n + F.col("extra"),
            "delay_formula": (F.col("depth") + 1) * seconds_l + (n + F.col("extra")) * seconds_p,
            "two_phase_packets_formula": (3 * n).cast("double"),
            "two_phase_delay_formula": 3 * seconds_l + (2 * n + 1) * seconds_p,
            "centralized_packets_formula": n.cast("double"),
            "centralized_delay_formula": 2 * seconds_l + n * seconds_p,
        }
    )


def _checks_4_1(data: pd.DataFrame) -> Sequence[Check]:
    over = float(data.delay_over_bound_max.max())
    fewer = data.packets < data.two_phase_packets_formula
    shallow, slower = (data.repetitions * data.shallow).sum(), (data.repetitions * data.shallow_slower).sum()
    deep, deep_slower = (data.repetitions * data.deep).sum(), (data.repetitions * data.deep_slower).sum()
    latency = data[data.latency == data.latency.max()]
    processing = data[data.latency == data.latency.min()]
    shares = [
        float((part.deep_slower * part.repetitions).sum() / (part.deep * part.repetitions).sum())
        for part in (latency, processing)
    ]
    small = data[data.group_size > 2]
    return [
        _exact(data, "packets_off", "propagation graph: N = n + ε, message for message"),
        Check(
            "propagation graph: D is at most (d+1)L + (n+ε)P",
            over <= 1 + TOLERANCE,
            f"{_runs(data)}: at most {100 * over:.2f} % of it",
        ),
        Check(
            "and in general is much less",
            bool(data.delay_share_of_bound.mean() <= MUCH_LESS),
            f"on average {100 * data.delay_share_of_bound.mean():.0f} % of it, "
            f"with groups of 10 and more {100 * data[data.group_size >= 10].delay_share_of_bound.mean():.0f} %",
        ),
        _exact(data, "two_phase_packets_off", "two-phase: N = 3n"),
        _exact(data, "two_phase_delay_off", "two-phase: D = 3L + (2n+1)P", " s"),
        _exact(data, "centralized_packets_off", "centralized: N = n (n + 1 where the centre is no member)"),
        _exact(
            data, "centralized_delay_off", "centralized: D = 2L + nP (one P more where the centre is no member)", " s"
        ),
        Check(
            "4.1.1: for N, the propagation method is significantly more efficient than the two-phase approach",
            bool(fewer.all()),
            f"fewer messages at {int(fewer.sum())} of {len(data)} points; on average "
            f"{(small.packets / small.two_phase_packets_formula).mean():.2f} times as many with groups of 3 and more",
        ),
        Check(
            "4.1.1: if d is at most 2, its delay is better than that of two-phase",
            bool(slower == 0),
            f"of {int(shallow):,} such messages {int(slower):,} took longer than two-phase",
        ),
        Check(
            "4.1.1: if d is greater than 2 it may take longer; but that is so only if latency dominates",
            bool(shares[0] > shares[1]),
            f"{int(deep_slower):,} of {int(deep):,} such messages took longer: {100 * shares[0]:.0f} % with L = "
            f"{latency.latency.max() / latency.processing.max():g} P, {100 * shares[1]:.0f} % with L = "
            f"{processing.latency.max() / processing.processing.max():g} P",
        ),
    ]


def _draw_4_1(data: pd.DataFrame, figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    for (latency, rows), (colour, marker) in zip(data.groupby("latency"), styles(), strict=False):
        label = f"L = {float(str(latency)) * 1000:g} ms"
        left.plot(rows.delay_formula * 1000, rows.delay * 1000, marker, color=colour, markersize=4, label=label)
    top = float(data.delay_formula.max() * 1000)
    left.plot([0, top], [0, top], "-", color="#999999", linewidth=1)
    dress(
        left,
        "propagation graph: nothing may be above the line",
        "(d+1)L + (n+ε)P, milliseconds",
        "D counted, milliseconds",
    )
    left.set_xscale("log")
    left.set_yscale("log")
    means = data.groupby("group_size").mean(numeric_only=True)
    curves = (
        ("packets", "propagation graph"),
        ("two_phase_packets_formula", "two-phase"),
        ("centralized_packets_formula", "centralized"),
    )
    for (column, label), (colour, marker) in zip(curves, styles(), strict=False):
        right.plot(means.index, means[column], marker=marker, color=colour, markersize=4, label=label)
    dress(right, "mean over all points", "group size n", "messages N")


TABLE_4_1 = Artefact(
    name="spauster-table-4-1",
    title="Messages and delay on a point-to-point network",
    paper="Spauster 1991, Table 4.1",
    says="""
| | two-phase | centralized | propagation |
| --- | --- | --- | --- |
| N | 3n | n | n + ε |
| D | 3L + (2n+1)P | 2L + nP | (d+1)L + (n+ε)P |

The last is the most that it can be, "and in general is much less". If the depth d is at most 2, "then the propagation
method is better than the two-phase solution"; if it is greater, it may take longer, but "this is only the case if the
latency time of a message dominates".
""",
    made="""
Random groups (uniform without replacement), a message to each of them from a source outside, with the protocols as they
run on real networks. N counts the packets that serve the message: acknowledgements come later and for many messages at
once. Checked for each message with the d and ε of its own group; the columns `_formula` have the point's means. The
propagation graph is the generator's, ties by name. The centre is the site that is in most groups.
""",
    experiment=_experiment_4_1,
    shape=_shape_4_1,
    draw=_draw_4_1,
    checks=_checks_4_1,
    figure_inches=(10.0, 4.5),
)


# ---------------------------------------------------------------------- 4.2
def _experiment_4_2(fast: bool) -> Experiment:
    return _experiment(
        "spauster-table-4-2",
        "run_broadcast",
        _grid(fast),
        ("frames", "delay"),
        (
            *("depth", "frames_off_printed", "frames_above_printed", "frames_below_printed", "frames_off"),
            *("delay_over_frames", "delay_under_printed"),
            *("two_phase_frames_off", "two_phase_delay_off", "two_phase_delay"),
            *("centralized_frames_off", "centralized_delay_off", "centralized_delay"),
        ),
        fast,
    )


def _checks_4_2(data: pd.DataFrame) -> Sequence[Check]:
    above = float(
        (data.frames_above_printed * data.repetitions * data.groups).sum() / (data.repetitions * data.groups).sum()
    )
    shallow = data[data.depth <= data.depth.median()]
    behind = data[data.group_size >= 10]
    slower = behind.two_phase_delay > behind.delay
    return [
        Check(
            "propagation graph: N = d + 1 (printed)",
            bool((data.frames_off_printed_max == 0).all()),
            f"{_runs(data)}: more for {100 * above:.0f} % of them, by at most {data.frames_off_printed_max.max():g}: "
            "every site with children multicasts, and a level can have several",
        ),
        _exact(data, "frames_off", "propagation graph: N = 1 + the number of sites that send it on"),
        _exact(data, "frames_below_printed", "propagation graph: N is at least d + 1"),
        Check(
            "propagation graph: D is at most N T, and at least (d + 1)T",
            bool(
                data.delay_over_frames_max.max() <= 1 + TOLERANCE
                and data.delay_under_printed_min.min() >= 1 - TOLERANCE
            ),
            f"at most {data.delay_over_frames_max.max():.3f} N T, "
            f"at least {data.delay_under_printed_min.min():.3f} (d + 1)T",
        ),
        _exact(data, "two_phase_frames_off", "two-phase: N = n + 2"),
        _exact(data, "two_phase_delay_off", "two-phase: D = (n + 2)T", " s"),
        _exact(data, "centralized_frames_off", "centralized: N = 2"),
        _exact(data, "centralized_delay_off", "centralized: D = 2T", " s"),
        Check(
            "4.2: the propagation graph method has small delay and requires few messages; two-phase is only comparable "
            "for small values of n",
            bool(slower.all()),
            f"groups of 10 and more: two-phase takes {(behind.two_phase_delay / behind.delay).min():.1f} to "
            f"{(behind.two_phase_delay / behind.delay).max():.1f} times as long; the propagation graph needs "
            f"{shallow.frames.mean():.1f} frames at the shallower half of the points, {data.frames.max():.1f} at most",
        ),
    ]


def _draw_4_2(data: pd.DataFrame, figure: Figure) -> None:
    axes = figure.subplots()
    means = data.groupby("group_size").mean(numeric_only=True)
    curves = (("delay", "propagation graph"), ("two_phase_delay", "two-phase"), ("centralized_delay", "centralized"))
    for (column, label), (colour, marker) in zip(curves, styles(), strict=False):
        axes.plot(means.index, means[column] / FRAME_SECONDS, marker=marker, color=colour, markersize=4, label=label)
    axes.plot(means.index, means.depth + 1, "--", color="#555555", linewidth=1, label="d + 1")
    dress(axes, "mean over all points", "group size n", "D in frame times T")


TABLE_4_2 = Artefact(
    name="spauster-table-4-2",
    title="Messages and delay on a broadcast medium",
    paper="Spauster 1991, Table 4.2",
    says="""
| | two-phase | centralized | propagation |
| --- | --- | --- | --- |
| N | n + 2 | 2 | d + 1 |
| D | (n + 2)T | 2T | (d + 1)T |

"The propagation graph algorithm requires a message from the source to the primary destination and a multicast at each
level of the subtree." That is right where one site of each level has children on the route; where several have, each of
them multicasts to its own children.
""",
    made="""
As Table 4.1, on a medium that carries one frame at a time for everyone. A site sends a message on to all its
children in one frame.
""",
    experiment=_experiment_4_2,
    draw=_draw_4_2,
    checks=_checks_4_2,
)
