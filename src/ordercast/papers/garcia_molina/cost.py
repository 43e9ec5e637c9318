"""Sections 1, 3 and 4: what a message costs in expensive packets, and how long it takes, beside the simple solution."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from ordercast.papers.artefact import Artefact, Check
from ordercast.papers.garcia_molina.runs import HOSTS_LIMITED_MAX
from ordercast.papers.style import curve, dress, styles
from ordercast.spark.experiments import Experiment, Measure, Point

CROWDED = 100
"""Hosts from which on separate copies wait for each other on the source's lines."""


def experiment(fast: bool) -> Experiment:
    """10 to 200 hosts in 3 to 50 clusters; a thousand once."""

    def sensible(point: Point) -> bool:
        hosts, clusters = int(point["hosts"]), int(point["clusters"])
        return clusters <= hosts and (hosts <= HOSTS_LIMITED_MAX or clusters == 50)

    return Experiment(
        name="garcia-molina-cost",
        grid={
            "hosts": (10, 30) if fast else (10, 20, 50, 100, 200, 1000),
            "clusters": (3, 10) if fast else (3, 5, 10, 20, 50),
        },
        function="ordercast.papers.garcia_molina.runs:run_comparison",
        measures=[
            Measure("clusters_made"),
            *(
                Measure(f"{name}_{measure}")
                for name in ("tree", "copies")
                for measure in ("packets", "control_per_second", "delay_mean", "delay_max", "delivered")
            ),
            *(Measure(f"optimal_{name}") for name in ("packets", "delay_mean", "delay_max")),
            Measure("packets_ratio"),
            Measure("delay_ratio"),
        ],
        repetitions_min=2 if fast else 3,
        repetitions_max=2 if fast else 3,
        where=sensible,
    )


def checks(data: pd.DataFrame) -> Sequence[Check]:
    """What the paper says in words."""
    worst = (data.tree_packets_max - (data.clusters - 1)).max()
    ratio = data.packets_ratio
    by_hosts = data.groupby("hosts").packets_ratio.mean()
    grows = [rows.packets_ratio.is_monotonic_increasing for _, rows in data.sort_values("hosts").groupby("clusters")]
    crowded = data[(data.hosts >= CROWDED) & (data.hosts <= HOSTS_LIMITED_MAX)]
    slower = data[data.hosts <= HOSTS_LIMITED_MAX]
    found = [
        Check(
            "3: it takes k - 1 expensive packets to broadcast one message, which is optimal",
            bool(worst <= 0),
            f"{len(data)} points of {data.clusters.min()} to {data.clusters.max()} clusters and {data.hosts.min()} to "
            f"{data.hosts.max()} hosts: at most {worst:g} more than k - 1 in any run, in steady state",
        ),
        Check(
            "1: separate copies generate much more traffic than necessary",
            bool((ratio[data.hosts > data.clusters] > 1).all() and all(grows)),
            f"{ratio.min():.1f} to {ratio.max():.1f} times the expensive packets, more with more hosts; on average "
            + ", ".join(f"{hosts} hosts: {value:.1f}" for hosts, value in by_hosts.items()),
        ),
        Check(
            "4.3: every host gets every message",
            bool((data.tree_delivered_min == 1).all()),
            f"in all {int(data.repetitions.sum())} runs",
        ),
        Check(
            "3: the goal of low average delay: at most twice that of an optimal multicast tree on average",
            bool((slower.tree_delay_mean / slower.optimal_delay_mean).mean() <= 2),
            f"{(slower.tree_delay_mean / slower.optimal_delay_mean).min():.2f} to "
            f"{(slower.tree_delay_mean / slower.optimal_delay_mean).max():.2f} times the delay of an optimal tree",
        ),
    ]
    if len(crowded):
        found.append(
            Check(
                "3: with many hosts the tree's mean delay is lower than that of separate copies",
                bool((crowded.delay_ratio < 1).all()),
                f"{crowded.delay_ratio.min():.2f} to {crowded.delay_ratio.max():.2f} times theirs from {CROWDED} hosts "
                f"on; {slower.delay_ratio.max():.2f} times at the worst point of all",
            )
        )
    return found


def draw(data: pd.DataFrame, figure: Figure) -> None:
    """Packets, delays, control packets over the number of hosts; a curve for each number of clusters."""
    packets, delay, control = figure.subplots(1, 3)
    for (clusters, rows), style in zip(data.groupby("clusters"), styles(), strict=False):
        rows = rows.sort_values("hosts")
        curve(packets, rows.hosts, rows.copies_packets, style, line="--")
        curve(packets, rows.hosts, rows.tree_packets, style, f"{clusters} clusters")
        limited = rows[rows.hosts <= HOSTS_LIMITED_MAX]
        curve(delay, limited.hosts, limited.delay_ratio, style)
        curve(control, rows.hosts, rows.tree_control_per_second, style)
    delay.axhline(1.0, color="#999999", linewidth=1)
    for axes in (packets, delay, control):
        axes.set_xscale("log")
    for axes in (packets, control):
        axes.set_yscale("log")
    dress(packets, "expensive packets a message (dashed: separate copies)", "hosts", "packets")
    dress(delay, "mean delay, tree / separate copies", "hosts", "ratio", legend=False)
    dress(control, "control: expensive packets a second, tree", "hosts", "packets a second", legend=False)


ARTEFACT = Artefact(
    name="garcia-molina-cost",
    title="Cost and delay of the broadcast tree and of separate copies",
    paper="Garcia-Molina, Kogan, Lynch 1987, sections 1, 3 and 4",
    says="""
Barring lost packets, it takes k − 1 expensive packets to broadcast one message to k clusters, and this is optimal
(section 3). Separate copies to every host generate much more traffic than necessary (section 1). The paper measures
nothing; it hopes for low cost, low average delay and high reliability.
""",
    made="""
Random networks (`ordercast.sim.random_servers`): clusters of at least one host, cheap links of 0.5 to 1.5 ms within,
expensive ones of 50 to 150 ms and 200 kB/s between them, half as many detours as the tree of links has links. The
same network and messages (1,000 bytes, one every two seconds) for both protocols in each run; counted for 20 messages
after 21 seconds. `packets` are expensive packets with data, a message; acknowledgements of separate copies and
everything else that the tree sends are in `control_per_second`. EIN is 2 s, from 20 hosts on a tenth of a second for
each host. With 1,000 hosts links have no limit. The optimal multicast tree is what programmable servers could do: each
message once over each link of the quickest ways; k − 1 clusters are entered.
""",
    experiment=experiment,
    draw=draw,
    checks=checks,
    figure_inches=(13.0, 4.5),
)
