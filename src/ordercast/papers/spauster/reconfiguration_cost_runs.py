"""One failure that the others go on without, measured: packets, bytes and time (Spauster 1991, 7.1.1 and 7.3)."""

from __future__ import annotations

from ordercast.core import GroupId, SiteId, random_stream
from ordercast.graphs import Graph, draw_groups, generate, site_names
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation, Workload
from ordercast.sim.faults import Crash
from ordercast.sim.networks import PointToPoint
from ordercast.spark.experiments import Point

LATENCY = 0.01
PROCESSING = 1e-8
GROUP_SIZE = 4
FAILS_AT = 1.0
DURATION = 4.0
SUSPICION_SECONDS, LEASE_SECONDS = 0.5, 1.0
MESSAGES, RATE = 60, 20.0
"""Three seconds of messages to the groups that the failed ones are in, or pass on: histories are not empty, and
somebody waits for whoever has failed. (A leaf to which nothing is sent is missed by nobody.)"""
REORGANISING = frozenset(
    {
        *("Report", "Back", "Collect", "History", "Refused", "Propose", "Agreed", "Begin", "Begun"),
        *("Fetch", "Fetched"),
    }
)
"""Packets that are sent for the next graph only."""

Groups = dict[GroupId, tuple[SiteId, ...]]


def find_failed(failed: str, graph: Graph, groups: Groups, manager: SiteId) -> tuple[SiteId, ...]:
    """Who fails; nobody where the graph has no such site."""
    extra = {site for group in groups for site in graph.next_hops(group) if site not in groups[group]}
    grouped = {site for members in groups.values() for site in members}
    roots = [site for site in graph.roots if site != manager]
    inner = sorted(find_interior(graph) & grouped - {*graph.roots} - extra - {manager})
    leaves = sorted(grouped - find_interior(graph) - {manager})
    choices = {
        "leaf": leaves[:1],
        "extra node": sorted(extra - {manager})[:1],
        "interior": inner[:1],
        "root": roots[:1],
        "manager": [manager],
        "root and manager": [*roots[:1], manager],
    }
    return tuple(choices[failed])


def find_interior(graph: Graph) -> set[SiteId]:
    """Those who send something on."""
    return {site for site, children in graph.children.items() if children}


def run_failure(point: Point, seed: int) -> dict[str, float | None]:
    """A site, or two, die; the others go on."""
    sites, failed = site_names(int(point["sites"])), str(point["failed"])
    drawn = draw_groups(
        random_stream(seed, "reconfiguration", len(sites)), len(sites), max(2, len(sites) // GROUP_SIZE), GROUP_SIZE
    )
    groups: Groups = {group: tuple(sorted(members)) for group, members in drawn.items()}
    graph = generate(groups)
    grouped = {site for members in groups.values() for site in members}
    # Not the root, so that each can fail without the other.
    manager = max(grouped - find_interior(graph))
    dying = find_failed(failed, graph, groups, manager)
    if not dying:
        return dict.fromkeys(("packets", "packets_a_site", "kilobytes", "stop_seconds", "share"), None)
    protocol = find_protocol("propagation-graph")
    options = protocol.contract.options(
        delivery="non-atomic", manager=manager, suspicion_seconds=SUSPICION_SECONDS, lease_seconds=LEASE_SECONDS
    )
    speaker = min(grouped - {*dying})
    touched = tuple(
        group
        for group, members in groups.items()
        if {*dying} & {*members, *graph.next_hops(group)} and {*members} - {*dying}
    )
    simulation = Simulation(
        protocol,
        groups,
        PointToPoint(PROCESSING, LATENCY),
        sites=sites,
        workloads=[Workload(sources=(speaker,), groups=touched, choose=1, count=MESSAGES, rate=RATE)],
        faults=[Crash(from_=FAILS_AT, sites=dying, forever=True)],
        options=options,
        duration=DURATION,
        settle=0.0,
        check_invariants=False,
    ).execute()
    rows = simulation.table()
    columns = (rows[name].to_pylist() for name in ("kind", "packet", "size", "site", "time"))
    sizes, went_on = [], dict[SiteId, float]()
    for kind, packet, size, site, time in zip(*columns, strict=True):
        if kind == "send" and packet in REORGANISING:
            sizes.append(size or 0)
        elif kind == "view" and time > FAILS_AT:
            went_on[site] = time
    seconds = max(went_on.values()) - FAILS_AT
    return {
        "packets": float(len(sizes)),
        "packets_a_site": len(sizes) / len(sites),
        "kilobytes": sum(sizes) / 1000,
        "stop_seconds": seconds,
        "share": seconds / (SUSPICION_SECONDS + LEASE_SECONDS),
    }
