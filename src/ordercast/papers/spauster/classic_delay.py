"""Tables 4.1 and 4.2: packets N and delay D of an ordered multicast, two-phase, centralized, and others beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.spauster.classic import (
    ALGORITHMS,
    FRAME_SECONDS,
    LATENCY_SECONDS,
    NETWORKS,
    PROCESSING_SECONDS,
)
from ordercast.papers.style import dress, styles
from ordercast.spark.experiments import Experiment, Measure

COMPARABLE = 2.0 + 1e-6
"""Times as long: what still counts as comparable."""
TOLERANCE = 1e-9
"""Seconds: what adding up times in another order can make of them."""


def experiment(fast: bool) -> Experiment:
    """Groups of 2 to 40 in systems of up to 100 sites."""
    return Experiment(
        name="spauster-classic-delay",
        grid={
            "network": NETWORKS,
            "algorithm": tuple(ALGORITHMS),
            "members": (2, 5, 10, 20) if fast else (2, 3, 5, 10, 15, 20, 30, 40),
            "sites": (20, 40) if fast else (20, 40, 70, 100),
        },
        function="ordercast.papers.spauster.classic:run_one_multicast",
        measures=[Measure("delay", relative=0.1), Measure("packets"), Measure("packets_until_delivered", relative=0.1)],
        # Only the token is somewhere else at every time; for the others all runs are alike.
        repetitions_min=3,
        repetitions_max=20 if fast else 100,
        where=lambda point: int(point["members"]) <= int(point["sites"]),
    )


def shape(points: DataFrame) -> DataFrame:
    """What the tables say, beside it."""
    n, two_phase, centralized = F.col("members"), F.col("algorithm") == "two-phase", F.col("algorithm") == "centralized"
    seconds_p, seconds_l, seconds_t = F.lit(PROCESSING_SECONDS), F.lit(LATENCY_SECONDS), F.lit(FRAME_SECONDS)
    return points.withColumns(
        {
            "packets_formula": _by_network(
                F.when(two_phase, 3 * n).when(centralized, n), F.when(two_phase, n + 2).when(centralized, F.lit(2))
            ).cast("double"),
            "delay_formula": _by_network(
                F.when(two_phase, 3 * seconds_l + (2 * n + 1) * seconds_p).when(
                    centralized, 2 * seconds_l + n * seconds_p
                ),
                F.when(two_phase, (n + 2) * seconds_t).when(centralized, 2 * seconds_t),
            ),
        }
    )


def _by_network(point_to_point: Column, broadcast: Column) -> Column:
    return F.when(F.col("network") == "broadcast", broadcast).otherwise(point_to_point)


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """The formulas, and what the text draws from them."""
    found = []
    for table, network in (("4.1", "point-to-point"), ("4.2", "broadcast")):
        for algorithm, packets, delay in (
            ("two-phase", "3n", "3L + (2n+1)P") if network == "point-to-point" else ("two-phase", "n + 2", "(n + 2)T"),
            ("centralized", "n", "2L + nP") if network == "point-to-point" else ("centralized", "2", "2T"),
        ):
            rows = data[(data.network == network) & (data.algorithm == algorithm)]
            off_packets = (rows.packets_max - rows.packets_formula).abs().max()
            off_delay = max(
                (rows.delay_max - rows.delay_formula).abs().max(), (rows.delay_min - rows.delay_formula).abs().max()
            )
            where = f"Table {table}, {algorithm}"
            found.append(
                Check(
                    f"{where}: N = {packets}",
                    bool(off_packets == 0),
                    f"{len(rows)} points, off by at most {off_packets:g}",
                )
            )
            found.append(
                Check(
                    f"{where}: D = {delay}",
                    bool(off_delay <= TOLERANCE),
                    f"{len(rows)} points of {rows.delay.min():.3g} to {rows.delay.max():.3g} s, "
                    f"off by at most {off_delay:.1g} s",
                )
            )
    found += [_centralized_is_better(data, network) for network in NETWORKS]
    found += [_two_phase_falls_behind(data), _timestamps_are_expensive(data), _resilience_costs_delay(data)]
    return found


def _pairs(data: pd.DataFrame, network: str, column: str, first: str, second: str) -> pd.DataFrame:
    """The same points of two algorithms, side by side."""
    wide = data[data.network == network].pivot(index=["members", "sites"], columns="algorithm", values=column)
    return wide[[first, second]].rename(columns={first: "first", second: "second"}).reset_index()


def _centralized_is_better(data: pd.DataFrame, network: str) -> Check:
    delay = _pairs(data, network, "delay", "centralized", "two-phase")
    packets = _pairs(data, network, "packets", "centralized", "two-phase")
    better = (delay["first"] < delay["second"]) & (packets["first"] < packets["second"])
    ratio = delay["second"] / delay["first"]
    return Check(
        f"4.1.1, 4.2: the centralized solution is better in delay and number of messages than two-phase ({network})",
        bool(better.all()),
        f"at {int(better.sum())} of {len(better)} points; "
        f"two-phase takes {ratio.min():.2f} to {ratio.max():.2f} times as long",
    )


def _two_phase_falls_behind(data: pd.DataFrame) -> Check:
    pairs = _pairs(data, "broadcast", "delay", "centralized", "two-phase")
    ratio = (pairs["second"] / pairs["first"]).groupby(pairs.members).mean()
    return Check(
        "4.2: on a broadcast network the two-phase algorithm is only comparable for small values of n",
        bool((np.diff(ratio.to_numpy()) > 0).all() and ratio.iloc[0] <= COMPARABLE < ratio.iloc[-1]),
        ", ".join(f"n = {n}: {value:.1f} times the centralized delay" for n, value in ratio.items()),
    )


def _timestamps_are_expensive(data: pd.DataFrame) -> Check:
    pairs = _pairs(data, "point-to-point", "packets_until_delivered", "timestamps", "two-phase")
    dearer = pairs["first"] > pairs["second"]
    ratio = pairs["first"] / pairs["second"]
    return Check(
        "2.8: timestamping is prohibitively expensive in most cases (unless sites broadcast regularly)",
        bool(dearer.mean() > 0.5),
        f"more packets than two-phase at {int(dearer.sum())} of {len(dearer)} points, "
        f"{ratio.min():.1f} to {ratio.max():.1f} times as many (point-to-point, all sites are potential sources)",
    )


def _resilience_costs_delay(data: pd.DataFrame) -> Check:
    parts = [_pairs(data, network, "delay", "token, L = 1", "token, L = 3") for network in NETWORKS]
    pairs = pd.concat(parts)
    longer = pairs["second"] > pairs["first"]
    return Check(
        "2.8: token passing incurs long delay if multiple failures are to be tolerated",
        bool(longer.all()),
        f"L = 3 takes longer than L = 1 at {int(longer.sum())} of {len(longer)} points, "
        f"{(pairs['second'] / pairs['first']).mean():.2f} times as long on average",
    )


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """D and packets over n, of the smallest system that has all group sizes; lines are formulas."""
    grid = figure.subplots(2, 2)
    sites = int(data.loc[data.members == data.members.max(), "sites"].min())
    for column, network in enumerate(NETWORKS):
        for (algorithm, rows), (colour, marker) in zip(
            data[(data.network == network) & (data.sites == sites)].groupby("algorithm", sort=True),
            styles(),
            strict=False,
        ):
            rows = rows.sort_values("members")
            for row, (measure, scale) in enumerate((("delay", 1000.0), ("packets_until_delivered", 1.0))):
                axes = grid[row, column]
                axes.plot(rows.members, rows[measure] * scale, marker, color=colour, markersize=4, label=algorithm)
                formula = "delay_formula" if row == 0 else "packets_formula"
                axes.plot(rows.members, rows[formula] * scale, "-", color=colour, linewidth=1)
        dress(grid[0, column], f"{network}, {sites} sites", "group size n", "D, milliseconds")
        dress(
            grid[1, column],
            "lines: the formulas of Tables 4.1 and 4.2",
            "group size n",
            "packets until delivered",
            legend=False,
        )
        grid[1, column].set_yscale("log")


ARTEFACT = Artefact(
    name="spauster-classic-delay",
    title="Packets and delay of the classic algorithms",
    paper="Spauster 1991, Tables 4.1 and 4.2",
    says="""
| | two-phase | centralized |
| --- | --- | --- |
| N, point-to-point | 3n | n |
| D, point-to-point | 3L + (2n+1)P | 2L + nP |
| N, broadcast | n + 2 | 2 |
| D, broadcast | (n + 2)T | 2T |

N is the number of messages of an ordered multicast to n sites, D the time until all of them can deliver it. Section
2.8 adds that timestamping is prohibitively expensive in most cases, and that token passing incurs long delay if
multiple failures are to be tolerated. The third column, the propagation graph, is an artefact of its own.
""",
    made=f"""
One message from a source outside the group, in the simulator, with the protocols as they run on real networks; P =
{PROCESSING_SECONDS * 1000:g} ms, L = {LATENCY_SECONDS * 1000:g} ms, T = {FRAME_SECONDS * 1000:g} ms. The central
site is a member of the group, as the thesis' n messages need. `packets` are those that serve the message;
acknowledgements come later and for many messages at once. `packets_until_delivered` are all packets from the
multicast to the last delivery: the clocks that timestamps ask all sites for, and the token when it moves on.
Timestamps wait up to 2 ms so that several messages share an answer: that is part of their D.
""",
    experiment=experiment,
    shape=shape,
    draw=draw,
    checks=checks,
    figure_inches=(10.0, 7.0),
)
