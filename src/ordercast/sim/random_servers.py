"""Random networks of servers: clusters of hosts, cheap links within them, expensive links between them."""

from __future__ import annotations

from random import Random

from ordercast.core import SiteId
from ordercast.sim.network_table import Link, ServersTable

HOSTS_PER_SERVER = 8
"""About so many: a cluster of more has several servers, and a cheap link that fails can split it."""
WEIGHT_MAX = 3.0
"""The slowest link takes so many times as long as the quickest of its kind."""


def random_servers(
    random: Random,
    hosts: tuple[SiteId, ...],
    clusters: int,
    *,
    expensive_latency: float = 0.05,
    cheap_latency: float = 0.0005,
    processing: float = 0.00005,
    bandwidth: float | None = None,
    detours: float = 0.5,
) -> ServersTable:
    """So many clusters, each with at least one host; within and between them a random tree of links, and `detours`
    more links for each of the tree, so that most failures leave a way around."""
    clusters = min(clusters, len(hosts))
    placed = list(hosts)
    random.shuffle(placed)
    parts: list[list[SiteId]] = [[host] for host in placed[:clusters]]
    for host in placed[clusters:]:
        random.choice(parts).append(host)
    cheap: dict[tuple[str, str], float] = {}
    expensive: dict[tuple[str, str], float] = {}
    servers: list[list[str]] = []
    home: dict[SiteId, str] = {}
    for number, members in enumerate(parts):
        count = 1 + (len(members) - 1) // HOSTS_PER_SERVER + (random.random() < 0.5 and len(members) > 1)
        own = [f"server-{number}-{place}" for place in range(count)]
        servers.append(own)
        for place, host in enumerate(members):
            home[host] = own[place % count]
        _join(random, [[server] for server in own], cheap, detours)
    _join(random, servers, expensive, detours)
    return ServersTable(
        hosts=dict(sorted(home.items())),
        cheap=_links(cheap),
        expensive=_links(expensive),
        processing=processing,
        cheap_latency=cheap_latency,
        expensive_latency=expensive_latency,
        bandwidth=bandwidth,
    )


def _join(random: Random, parts: list[list[str]], links: dict[tuple[str, str], float], detours: float) -> None:
    """A random tree over the parts, and some links more between random parts."""
    pairs = [(random.randrange(place), place) for place in range(1, len(parts))]
    for _ in range(round(detours * len(pairs))):
        first, second = random.sample(range(len(parts)), 2)
        pairs.append((min(first, second), max(first, second)))
    for first, second in pairs:
        ends = (random.choice(parts[first]), random.choice(parts[second]))
        links.setdefault(ends, round(random.uniform(1.0, WEIGHT_MAX), 2))


def _links(links: dict[tuple[str, str], float]) -> tuple[Link, ...]:
    return tuple((first, second, weight) for (first, second), weight in links.items())
