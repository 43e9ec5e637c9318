"""One network, one source, one stream of messages: sent by the tree, and by separate copies."""

from __future__ import annotations

from statistics import fmean

from ordercast.core import MessageId, Options, Protocol, SiteId, random_stream
from ordercast.core.effects import Deliver, Replay
from ordercast.papers.garcia_molina.optimal import optimal_delays, optimal_expensive_packets
from ordercast.papers.garcia_molina.separate_copies import SeparateCopies, SeparateCopiesOptions
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation, Workload
from ordercast.sim.network_table import ServersTable
from ordercast.sim.networks import Servers
from ordercast.sim.random_servers import random_servers
from ordercast.spark.experiments import Point

SIZE = 1000
RATE = 0.5
"""Messages a second: two hundred separate copies of each keep a narrow line of BANDWIDTH busy for half of the time."""
BANDWIDTH = 200_000.0
HOSTS_LIMITED_MAX = 200
"""Beyond, links have no limit: a thousand hosts that start in the same moment would fill them for minutes."""
MESSAGES = 20
WARM_UP_SECONDS = 21.0
"""Between two messages."""
DRAIN_SECONDS = 5.0


def _tree_options(hosts: int) -> Options:
    """n hosts tell n others what they have, so in a network ten times as large they do it ten times as seldom, and it
    still takes ten times the packets; within clusters only when there are very many hosts."""
    between = max(2.0, hosts / 10)
    within = max(0.5, hosts / 500)
    return find_protocol("broadcast-tree").contract.options(
        ein_seconds=between,
        gfn_seconds=between,
        gfo_seconds=2 * between,
        eic_seconds=within,
        gfc_seconds=within,
        epp_seconds=within,
        np1_seconds=2 * within,
        pa_seconds=4 * within,
    )


def host_names(count: int) -> tuple[SiteId, ...]:
    """So many hosts; the first is the source."""
    return tuple(f"h{number:04}" for number in range(count))


def run_comparison(point: Point, seed: int) -> dict[str, float | None]:
    """Expensive packets a message, delays, and control packets, of both, and of an optimal multicast tree."""
    hosts = host_names(int(point["hosts"]))
    table = random_servers(
        random_stream(seed, "network"),
        hosts,
        int(point["clusters"]),
        bandwidth=BANDWIDTH if len(hosts) <= HOSTS_LIMITED_MAX else None,
    )
    tree = _measure(find_protocol("broadcast-tree"), _tree_options(len(hosts)), table, seed, "Data", "Control")
    copies = _measure(
        SeparateCopies, SeparateCopiesOptions(retransmit_seconds=20.0), table, seed, "Copy", "Acknowledgment"
    )
    optimal = optimal_delays(table, hosts[0], SIZE)
    return {
        "clusters_made": optimal_expensive_packets(table) + 1,
        **{f"tree_{name}": value for name, value in tree.items()},
        **{f"copies_{name}": value for name, value in copies.items()},
        "optimal_packets": optimal_expensive_packets(table),
        "optimal_delay_mean": fmean(optimal.values()),
        "optimal_delay_max": max(optimal.values()),
        "packets_ratio": copies["packets"] / tree["packets"] if tree["packets"] else None,
        "delay_ratio": tree["delay_mean"] / copies["delay_mean"],
    }


def _measure(
    protocol: type[Protocol], options: Options, table: ServersTable, seed: int, data: str, control: str
) -> dict[str, float]:
    hosts = tuple(table.hosts)
    source = hosts[0]
    network = table.make(hosts)
    begun: dict[MessageId, float] = {}
    delays: list[float] = []

    def application(site: SiteId, time: float, effect: Deliver | Replay) -> None:
        message = effect.multicast.id
        if site == source:
            begun[message] = time
        elif begun[message] > WARM_UP_SECONDS:
            delays.append(time - begun[message])

    duration = WARM_UP_SECONDS + MESSAGES / RATE + 0.1
    simulation = Simulation(
        protocol,
        {"all": hosts},
        network,
        seed=seed,
        options=options,
        workloads=[
            Workload(sources=(source,), groups=("all",), rate=RATE, arrivals="regular", size=SIZE),
        ],
        duration=duration,
        settle=DRAIN_SECONDS,
        tracing=False,
        check_invariants=False,
        application=application,
    )
    counted: list[tuple[int, int]] = []
    for time in (WARM_UP_SECONDS, duration + DRAIN_SECONDS):
        simulation.queue.schedule(time, lambda: counted.append(_expensive(network, data, control)))
    simulation.execute()
    (data_before, control_before), (data_after, control_after) = counted
    seconds = duration + DRAIN_SECONDS - WARM_UP_SECONDS
    return {
        "packets": (data_after - data_before) / MESSAGES,
        "control_per_second": (control_after - control_before) / seconds,
        "delay_mean": fmean(delays),
        "delay_max": max(delays),
        "delivered": len(delays) / (MESSAGES * (len(hosts) - 1)),
    }


def _expensive(network: Servers, data: str, control: str) -> tuple[int, int]:
    return network.traffic[data, 1], network.traffic[control, 1]
