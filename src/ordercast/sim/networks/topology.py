"""A network with a shape (Spauster 4.4): packets take the shortest path through a graph."""

from __future__ import annotations

from collections.abc import Hashable
from math import isqrt
from typing import TYPE_CHECKING

import networkx as nx

from ordercast.core import ChannelId, SiteId, UsageError
from ordercast.core.events import Arrival
from ordercast.sim.networks.base import EVERYONE, Network

if TYPE_CHECKING:
    from ordercast.sim.site.processor import Processor


def square_grid(sites: tuple[SiteId, ...]) -> nx.Graph:
    """The sites in rows of a square, as full as they come, each joined to its neighbours with weight 1."""
    side = max(1, isqrt(len(sites) - 1) + 1) if sites else 1
    graph = nx.Graph()
    graph.add_nodes_from(sites)
    for index, site in enumerate(sites):
        if (index + 1) % side and index + 1 < len(sites):
            graph.add_edge(site, sites[index + 1], weight=1.0)
        if index + side < len(sites):
            graph.add_edge(site, sites[index + side], weight=1.0)
    return graph


class Topology(Network):
    """A packet takes L for each unit of weight on the shortest path; a send costs the sender P."""

    def __init__(self, graph: nx.Graph, processing: float = 0.0001, latency: float = 0.001) -> None:
        super().__init__()
        if processing < 0 or latency < 0:
            raise UsageError("processing and latency of a topology are 0 or more")
        if graph.number_of_nodes() and not nx.is_connected(graph):
            raise UsageError("the topology is not connected: some sites could never reach each other")
        for first, second, weight in graph.edges(data="weight", default=1.0):
            if weight < 0:
                raise UsageError(f"the link {first} - {second} has a negative weight")
        self.graph = graph
        self._processing = processing
        self._latency = latency
        self._distance = dict(nx.all_pairs_dijkstra_path_length(graph, weight="weight"))
        self._hops = dict(nx.all_pairs_shortest_path_length(graph))

    def depart(self, sender: Processor) -> float:
        """The sender is busy for P."""
        sender.cursor += self._processing
        return sender.cursor

    def latency(self, sender: SiteId, receiver: SiteId) -> float:
        """L times the weight of the shortest path."""
        return self._latency * float(self._distance[sender][receiver])

    def latency_max(self) -> float:
        """L times the weight of the longest shortest path."""
        return self._latency * max((max(row.values()) for row in self._distance.values()), default=0.0)

    def processing_seconds(self) -> float:
        """P."""
        return self._processing

    def arrival(self, sender: SiteId, receiver: SiteId, channel: ChannelId | None) -> Arrival:
        """The receiver sees how many hops away the sender is."""
        return Arrival(channel, hops=self._hops[sender][receiver])

    def in_scope(self, sender: SiteId, receiver: SiteId, ttl: int | None) -> bool:
        """A TTL of n reaches n hops."""
        return ttl is None or self._hops[sender][receiver] <= ttl

    def scope(self, sender: SiteId, ttl: int | None) -> Hashable:
        """Each site has its own surroundings."""
        return EVERYONE if ttl is None else (sender, ttl)
