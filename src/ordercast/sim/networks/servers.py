"""Hosts behind servers that cannot be programmed (Garcia-Molina, Kogan, Lynch 1987, section 2).

Servers are joined by cheap and expensive links and find their ways around links that are down; a packet carries a cost
bit that says whether it crossed an expensive link. Hosts see nothing else of all this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from ordercast.core import ChannelId, SiteId, UsageError, encoded_size
from ordercast.core.events import Arrival
from ordercast.sim.flight import Flight
from ordercast.sim.networks.base import EVERYONE, PLAIN_ARRIVAL, Network
from ordercast.trace.interface import Envelope

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation
    from ordercast.sim.site.processor import Processor

ServerId = str
End = str
"""A server, or a host at the end of its line."""
Ends = tuple[End, End]
"""A link, by its ends in order of names."""
WeightedLink = tuple[ServerId, ServerId, float]


def link_between(first: End, second: End) -> Ends:
    """The link's one name."""
    return (first, second) if first < second else (second, first)


class _Link(msgspec.Struct, frozen=True, gc=False):
    ends: Ends
    expensive: bool
    latency: float


class Route(msgspec.Struct, frozen=True, gc=False):
    """The way from the hosts of one server to those of another."""

    links: tuple[Ends, ...]
    """Between servers; the hosts' lines come to that."""
    expensive: tuple[tuple[End, End], ...]
    """The expensive links among them, with the direction in which they are crossed, from the sender on."""
    latency: float
    """With the lines."""
    arrival: Arrival


class Servers(Network):
    """Every packet takes the way with the fewest expensive links, and of those the quickest; a send costs the sender P.

    So two hosts exchange packets with a cost bit of 0 exactly when cheap links connect their servers: they are in one
    cluster. And communication is transitive: whoever x and y can both reach, x and y can reach each other. (Both only
    when the servers know of all failures: for `rerouting` seconds after a link fails or comes back they do not.)
    """

    loses = True

    def __init__(
        self,
        hosts: Mapping[SiteId, ServerId],
        cheap: Iterable[WeightedLink] = (),
        expensive: Iterable[WeightedLink] = (),
        *,
        processing: float = 0.0001,
        cheap_latency: float = 0.0005,
        expensive_latency: float = 0.05,
        jitter: float = 0.0,
        bandwidth: float | None = None,
        rerouting: float = 0.0,
    ) -> None:
        super().__init__()
        if min(processing, cheap_latency, expensive_latency, jitter, rerouting) < 0:
            raise UsageError("processing, latencies, jitter and rerouting of a network of servers are 0 or more")
        if bandwidth is not None and bandwidth <= 0:
            raise UsageError("the bandwidth of expensive links is positive; leave it out for links without limit")
        self.hosts = dict(hosts)
        self._processing = processing
        self._line_latency = cheap_latency
        self._jitter = jitter
        self._bandwidth = bandwidth
        self._rerouting = rerouting
        self._links: dict[ServerId, dict[ServerId, _Link]] = {server: {} for server in self.hosts.values()}
        for links, dear, seconds in ((cheap, False, cheap_latency), (expensive, True, expensive_latency)):
            for first, second, weight in links:
                self._join(first, second, dear, weight * seconds)
        self.down: Counter[Ends] = Counter()
        """Links that are out of order, and how many faults hold them so."""
        self.traffic: Counter[tuple[str, int]] = Counter()
        """Type of message and cost bit -> packets that were sent on a way that exists."""
        self._avoided: frozenset[Ends] = frozenset()
        """The links that the servers know to be down."""
        self._ways: dict[ServerId, dict[ServerId, Route]] = {}
        self._free_at: dict[tuple[End, End], float] = {}
        """Expensive link, in one direction -> when what waits for it has left."""
        self._latency_max: float | None = None
        some = next(iter(self._links), None)
        apart = [server for server in self._links if some is not None and server not in self._ways_from(some)]
        if apart:
            raise UsageError(f"the servers are not connected: no link leads from {some} to {min(apart)}")

    def _join(self, first: ServerId, second: ServerId, expensive: bool, latency: float) -> None:
        if first == second:
            raise UsageError(f"there is a link from server {first!r} to itself")
        for end in (first, second):
            if end in self.hosts:
                raise UsageError(f"{end!r} is a host; links are between servers")
        if latency < 0:
            raise UsageError(f"the link {first} - {second} has a negative weight")
        if second in self._links.get(first, {}):
            raise UsageError(f"there are two links between {first} and {second}; give one")
        link = _Link(link_between(first, second), expensive, latency)
        self._links.setdefault(first, {})[second] = link
        self._links.setdefault(second, {})[first] = link

    def attach(self, simulation: Simulation) -> None:
        """Check that every site is behind a server, and get a random stream."""
        super().attach(simulation)
        self._random = simulation.random("network").random
        for site in simulation.sites:
            if site not in self.hosts:
                raise UsageError(f"site {site!r} is at no server; add it to hosts")

    # ------------------------------------------------------------------ failures
    def links_of(self, links: Iterable[tuple[End, End]], servers: Iterable[ServerId]) -> tuple[Ends, ...]:
        """These links, and all links and lines of these servers; `UsageError` for what does not exist."""
        found: dict[Ends, None] = {}
        for first, second in links:
            if second not in self._links.get(first, {}) and self.hosts.get(first, self.hosts.get(second)) not in (
                first,
                second,
            ):
                raise UsageError(f"there is no link between {first!r} and {second!r}")
            found[link_between(first, second)] = None
        for server in servers:
            if server not in self._links:
                raise UsageError(f"there is no server {server!r}; known: {', '.join(sorted(self._links))}")
            for link in self._links[server].values():
                found[link.ends] = None
            for host, own in self.hosts.items():
                if own == server:
                    found[link_between(host, server)] = None
        return tuple(found)

    def fail(self, links: Iterable[Ends]) -> None:
        """The links stop working; packets that are on them already still arrive."""
        self.down.update(links)
        self._reroute_later()

    def repair(self, links: Iterable[Ends]) -> None:
        """The links work again, unless another fault holds them."""
        self.down.subtract(links)
        self.down = +self.down
        self._reroute_later()

    def _reroute_later(self) -> None:
        if self._rerouting:
            self.queue.schedule(self.queue.now + self._rerouting, self._reroute)
        else:
            self._reroute()

    def _reroute(self) -> None:
        self._avoided = frozenset(self.down)
        self._ways.clear()

    def clusters(self) -> tuple[tuple[SiteId, ...], ...]:
        """Hosts that can reach each other over cheap links now, in order of names."""
        cluster: dict[ServerId, int] = {}
        for number, server in enumerate(self._links):
            reached = [server] if server not in cluster else []
            while reached:
                at = reached.pop()
                cluster[at] = number
                reached += [
                    other
                    for other, link in self._links[at].items()
                    if not link.expensive and link.ends not in self.down and other not in cluster
                ]
        members: dict[int | SiteId, list[SiteId]] = {}
        for host, server in sorted(self.hosts.items()):
            lonely = link_between(host, server) in self.down
            members.setdefault(host if lonely else cluster[server], []).append(host)
        return tuple(sorted(map(tuple, members.values())))

    # ------------------------------------------------------------------ ways
    def route(self, sender: SiteId, receiver: SiteId) -> Route | None:
        """The way that a packet takes now between the servers of two hosts; None when the servers know of none."""
        if self._avoided and not self._avoided.isdisjoint(self._lines(sender, receiver)):
            return None
        return self._ways_from(self.hosts[sender]).get(self.hosts[receiver])

    def _lines(self, *hosts: SiteId) -> tuple[Ends, ...]:
        return tuple(link_between(host, self.hosts[host]) for host in hosts)

    def _works(self, route: Route, sender: SiteId, receiver: SiteId) -> bool:
        """Whether no link on the way is down, known or not."""
        return not self.down or not any(link in self.down for link in (*route.links, *self._lines(sender, receiver)))

    def _ways_from(self, start: ServerId) -> dict[ServerId, Route]:
        """Dijkstra: fewest expensive links, then least latency, then fewest links, then names."""
        known = self._ways.get(start)
        if known is not None:
            return known
        ways: dict[ServerId, Route] = {}
        heap: list[tuple[int, float, int, ServerId, tuple[ServerId, ...]]] = [(0, 0.0, 0, start, (start,))]
        while heap:
            dear, latency, hops, at, path = heappop(heap)
            if at in ways:
                continue
            steps = tuple(pairwise(path))
            ways[at] = Route(
                tuple(link_between(*step) for step in steps),
                tuple(step for step in steps if self._links[step[0]][step[1]].expensive),
                latency + 2 * self._line_latency,
                Arrival(cost=int(dear > 0), hops=hops + 1),
            )
            for other, link in self._links[at].items():
                if other not in ways and link.ends not in self._avoided:
                    item = (dear + link.expensive, latency + link.latency, hops + 1, other, (*path, other))
                    heappush(heap, item)
        self._ways[start] = ways
        return ways

    # ------------------------------------------------------------------ packets
    def depart(self, sender: Processor) -> float:
        """The sender is busy for P."""
        sender.cursor += self._processing
        return sender.cursor

    def latency(self, sender: SiteId, receiver: SiteId) -> float:
        """Nothing yet: `carry` knows the size of the packet, and what is in front of it."""
        return 0.0

    def latency_max(self) -> float:
        """The longest way between two hosts while no link is down, and all of the jitter; waiting for narrow links is
        not covered."""
        if self._latency_max is None:
            places = sorted(set(self.hosts.values()))
            ways = [self._ways_from(place) for place in places]
            longest = max((way[place].latency for way in ways for place in places if place in way), default=0.0)
            self._latency_max = longest + self._jitter
        return self._latency_max

    def processing_seconds(self) -> float:
        """P."""
        return self._processing

    def arrival(self, sender: SiteId, receiver: SiteId, channel: ChannelId | None) -> Arrival:
        """The receiver sees the cost bit and the number of servers on the way."""
        route = self.route(sender, receiver)
        if route is None:
            return PLAIN_ARRIVAL
        return route.arrival if channel is None else msgspec.structs.replace(route.arrival, channel=channel)

    def in_scope(self, sender: SiteId, receiver: SiteId, ttl: int | None) -> bool:
        """A TTL of n gets past n servers."""
        route = self.route(sender, receiver)
        return ttl is None or (route is not None and route.arrival.hops <= ttl)

    def scope(self, sender: SiteId, ttl: int | None) -> Hashable:
        """Ways change with the links that work."""
        return EVERYONE if ttl is None else None

    def carry(self, flight: Flight, time: float) -> None:
        """Along the way that the servers know, if all of it works; `time` is when the packet leaves its sender."""
        envelope, sender, receiver = flight.envelope, flight.origin, flight.receiver.place
        route = self.route(sender, receiver)
        if route is None or not self._works(route, sender, receiver):
            self.simulation.count_fault("outage")
            self.lose(flight, time, "outage")
            return
        self.traffic[type(envelope.packet).__name__, flight.arrival.cost] += 1
        time += route.latency
        if self._bandwidth is not None:
            time += self._wait_for_narrow_links(route, envelope, time)
        if self._jitter:
            time += self._jitter * self._random()
        super().carry(flight, time)

    def _wait_for_narrow_links(self, route: Route, envelope: Envelope, arrives: float) -> float:
        """Seconds more: each expensive link sends one packet after the other, in the order in which they left home.

        The time at which a packet gets to a link is taken as that of its arrival without waiting, for all links of its
        way: what counts is who is in front of it, and the latency of the way is small beside the waiting when there is
        any.
        """
        seconds = (envelope.size or encoded_size(envelope.packet)) / (self._bandwidth or 1.0)
        waited = 0.0
        for link in route.expensive:
            begin = max(arrives - route.latency + waited, self._free_at.get(link, 0.0))
            self._free_at[link] = begin + seconds
            waited = begin + seconds - (arrives - route.latency)
        return waited
