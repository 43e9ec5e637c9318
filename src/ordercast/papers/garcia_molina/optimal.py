"""The lower bound: what a multicast would cost if servers could be programmed (section 3, Figure 3.1)."""

from __future__ import annotations

import networkx as nx

from ordercast.core import SiteId
from ordercast.sim.network_table import ServersTable


def optimal_delays(table: ServersTable, source: SiteId, size: int) -> dict[SiteId, float]:
    """Host -> seconds until it has a message of so many bytes when every server copies it to all links on quickest
    ways: each link carries it once, so nothing waits."""
    graph = nx.Graph()
    on_the_link = 0.0 if table.bandwidth is None else size / table.bandwidth
    for links, seconds, extra in (
        (table.cheap, table.cheap_latency, 0.0),
        (table.expensive, table.expensive_latency, on_the_link),
    ):
        graph.add_weighted_edges_from((first, second, weight * seconds + extra) for first, second, weight in links)
    for host, server in table.hosts.items():
        graph.add_edge(host, server, weight=table.cheap_latency)
    quickest = nx.single_source_dijkstra_path_length(graph, source, weight="weight")
    return {host: table.processing + float(quickest[host]) for host in table.hosts if host != source}


def optimal_expensive_packets(table: ServersTable) -> int:
    """k - 1: every cluster but the source's has to be entered once (section 3)."""
    return len(table.make(tuple(table.hosts)).clusters()) - 1
