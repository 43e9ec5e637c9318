"""One change of the groups, measured: packets, time, and how long a site stands still (Spauster 1991, chapter 5)."""

from __future__ import annotations

from typing import Any

from ordercast.core import Multicast, Options, Protocol, SiteId, random_stream
from ordercast.graphs import draw_groups, site_names
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation
from ordercast.sim.change import Change
from ordercast.sim.networks import PointToPoint
from ordercast.spark.experiments import Point

GRAPH = "propagation-graph"
LATENCY = 0.01
PROCESSING = 1e-8
"""So little that only delays count."""
GROUP_SIZE = 4
ASKED_AT = 1.0
DURATION = 4.0
LOOKING = frozenset({"Seek", "Presence"})
"""Packets with which newcomers find whom to ask: both protocols search so, and 5.1 does not speak of it."""


class Watch:
    """When each site closed a graph and opened the next one, and how deep the graphs were."""

    def __init__(self) -> None:
        self.closed: dict[SiteId, float] = {}
        self.depths: dict[int, int] = {}
        self.stops: list[tuple[float, int]] = []
        """How long a site stood still, and the number of the graph that it opened then."""
        self.last_open = 0.0

    def watched(self) -> type[Protocol]:
        """The protocol, whose steps tell this watch when a site closes a graph and opens the next one."""
        base: Any = find_protocol(GRAPH)

        def take(core: Any, edge: Any, multicast: Multicast, queued: bool = False) -> None:
            base.take(core, edge, multicast, queued)
            if not multicast.groups:
                self.closed.setdefault(core.site, core.now)
                self.depths.setdefault(core.number, depth(core))

        def install(core: Any, roster: Any) -> None:
            base.install(core, roster)
            self.depths.setdefault(core.number, depth(core))
            self.last_open = max(self.last_open, core.now)
            closed = self.closed.pop(core.site, None)
            if closed is not None:
                self.stops.append((core.now - closed, core.number))

        return type("Watched", (base,), {"take": take, "install": install})

    def share_of_bound(self) -> float:
        """The longest stop of a site in terms of what it may be: (depth of the old + the new graph + 2) delays."""
        return max(
            seconds / ((self.depths[graph - 1] + self.depths[graph] + 2) * LATENCY) for seconds, graph in self.stops
        )


def depth(core: Any) -> int:
    """Of the tree that Close and Open go down."""
    parent, deepest = core.routes.parent, 0
    for start in parent:
        site, level = parent[start], 0
        while site is not None:
            site, level = parent[site], level + 1
        deepest = max(deepest, level)
    return deepest


def run_change(point: Point, seed: int) -> dict[str, float | None]:
    """Some who are in no group join one, at once."""
    sites, joins = int(point["sites"]), int(point["joins"])
    if point["algorithm"] == "token":
        return _run_token(sites, joins, seed)
    watch = Watch()
    watched: Any = watch.watched()
    # No timer fires within the run: what is counted is what the change itself needs.
    options = watched.contract.options(retransmit_seconds=1000.0, blocked_seconds=10000.0)
    simulation = _simulation(watched, sites, joins, seed, options).execute()
    stops = [seconds / LATENCY for seconds, _graph in watch.stops]
    return {
        "sites_in_all": float(len(simulation.sites)),
        "packets": float(_packets(simulation)),
        "packets_of_search": float(_packets(simulation, of_search=True)),
        "delays": (watch.last_open - ASKED_AT) / LATENCY,
        "graphs": float(max(watch.depths)),
        "stop_delays": max(stops),
        "stop_share": watch.share_of_bound(),
    }


def _run_token(sites: int, joins: int, seed: int) -> dict[str, float | None]:
    """The reformation: packets beyond those of the same time without a change, and the time until the last site has the
    last list."""
    token = find_protocol("token")
    changed = _simulation(token, sites, joins, seed, token.contract.options()).execute()
    quiet = _simulation(token, sites, 0, seed, token.contract.options()).execute()
    views = [row["time"] for row in changed.table().select(["time", "kind"]).to_pylist() if row["kind"] == "view"]
    return {
        "sites_in_all": float(len(changed.sites)),
        "packets": float(_packets(changed) - _packets(quiet)),
        "packets_of_search": float(_packets(changed, of_search=True)),
        "delays": (max(views) - ASKED_AT) / LATENCY,
        "graphs": None,
        "stop_delays": None,
        "stop_share": None,
    }


def _simulation(protocol: type[Protocol], sites: int, joins: int, seed: int, options: Options) -> Simulation:
    groups = draw_groups(random_stream(seed, "change-cost", sites), sites, max(2, sites // GROUP_SIZE), GROUP_SIZE)
    late = tuple(f"z{number}" for number in range(joins))
    first = next(iter(groups))
    return Simulation(
        protocol,
        groups,
        PointToPoint(PROCESSING, LATENCY),
        sites=site_names(sites),
        changes=[Change(kind="join", at=ASKED_AT, sites=late, group=first)] if late else [],
        options=options,
        duration=DURATION,
        settle=0.0,
        check_invariants=False,
    )


def _packets(simulation: Simulation, of_search: bool = False) -> int:
    rows = simulation.table()
    kinds, packets = rows["kind"].to_pylist(), rows["packet"].to_pylist()
    return sum(kind == "send" and (packet in LOOKING) == of_search for kind, packet in zip(kinds, packets, strict=True))
