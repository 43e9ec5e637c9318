"""A run in which the host parent graph organises itself, breaks and heals, seen at some moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast

from ordercast.core import SiteId
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation, Workload
from ordercast.sim.faults import Crash, Outage
from ordercast.sim.networks import Servers
from ordercast.spark.experiments import Point

PLACES = {"A": (0.0, 0.0), "B": (3.0, 1.6), "C": (3.0, -1.6), "D": (6.0, 0.0)}
"""Clusters, and where they are drawn."""
HOSTS: tuple[SiteId, ...] = tuple(f"{cluster}{number}" for cluster in PLACES for number in range(1, 5))
"""A1 is the source. Numbers 3 and 4 of D are behind a second server there."""

MOMENTS = {
    0.3: "just started: no parents",
    8.0: "organised: one leader in each cluster",
    11.0: "B's leader has crashed",
    16.0: "another host of B leads",
    22.0: "a cheap link is down: D is two clusters",
    30.0: "it works again: D is one",
    36.0: "A is cut off: no messages",
    44.0: "A is back",
}
"""Seconds -> what there is to see."""

CRASH = (10.0, 26.0)
SPLIT = (18.0, 26.0)
CUT_OFF = (31.0, 38.0)
SEED = 5
_AFTERWARDS_SECONDS = 2.0


class _Broadcast(Protocol):
    parent: SiteId | None


class _Host(Protocol):
    """What the pictures show of a host of the tree."""

    streams: Mapping[object, _Broadcast]


def network() -> Servers:
    """Four clusters in a ring of expensive links, and one across."""
    home = {host: host[0] for host in HOSTS} | {"D3": "D'", "D4": "D'"}
    return Servers(
        home,
        [("D", "D'", 1.0)],
        [("A", "B", 1.0), ("A", "C", 1.0), ("B", "D", 1.0), ("C", "D'", 1.0), ("B", "C", 1.0)],
        expensive_latency=0.03,
    )


def simulation(servers: Servers) -> Simulation:
    """The run on that network, not begun; the same one for every moment."""
    return Simulation(
        find_protocol("broadcast-tree"),
        {"all": list(HOSTS)},
        servers,
        seed=SEED,
        workloads=[Workload(sources=("A1",), groups=("all",), rate=4.0, arrivals="regular")],
        faults=[
            Crash(from_=CRASH[0], to=CRASH[1], sites=("B4",)),
            Outage(from_=SPLIT[0], to=SPLIT[1], links=(("D", "D'"),)),
            Outage(from_=CUT_OFF[0], to=CUT_OFF[1], links=(("A", "B"), ("A", "C"))),
        ],
        duration=max(MOMENTS) + _AFTERWARDS_SECONDS,
        settle=0.0,
        tracing=False,
        check_invariants=False,
    )


def parents_at(run: Simulation) -> dict[SiteId, SiteId | None]:
    """Host -> parent, of the hosts that are up and know of the broadcast."""
    found: dict[SiteId, SiteId | None] = {}
    for name, site in run.sites.items():
        if site.up:
            streams = list(cast(_Host, site.instances["main"].core).streams.values())
            found[name] = streams[0].parent if streams else None
    return found


def run_moment(point: Point, _seed: int) -> dict[str, float | None]:
    """The graph at one moment: the number of each host's parent, from 0; -1 for none, and nothing for a host that is
    down. And what can be counted of it."""
    servers = network()
    run = simulation(servers)
    moment = float(point["moment"])
    seen: list[dict[SiteId, SiteId | None]] = []
    clusters: list[tuple[tuple[SiteId, ...], ...]] = []

    def look() -> None:
        seen.append(parents_at(run))
        clusters.append(servers.clusters())

    run.queue.schedule(moment, look)
    run.execute()
    graph = seen[0]
    numbers = {host: number for number, host in enumerate(HOSTS)}
    up = [[host for host in cluster if host in graph] for cluster in clusters[0]]
    leaders = [sum(graph[host] not in cluster for host in cluster) for cluster in up]
    return {
        **{
            f"parent_of_{host.lower()}": None if host not in graph else float(numbers.get(graph[host] or "", -1))
            for host in HOSTS
        },
        "clusters": float(len(up)),
        "leaders_max": float(max(leaders)),
        "on_cycles": float(sum(_is_on_cycle(graph, host) for host in graph)),
    }


def _is_on_cycle(graph: dict[SiteId, SiteId | None], host: SiteId) -> bool:
    at = graph[host]
    visited = set()
    while at is not None and at not in visited:
        if at == host:
            return True
        visited.add(at)
        at = graph.get(at)
    return False
