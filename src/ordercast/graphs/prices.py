"""What the protocol's options would cost on a graph: entry at the roots, and bypass edges."""

from __future__ import annotations

from collections.abc import Mapping

from ordercast.graphs.bypass import add_bypasses
from ordercast.graphs.graph import Graph
from ordercast.graphs.metrics import Metrics, measure

PRICED_SITES_MAX = 1000
"""With more, ways from a root to every member of every group take longer than the graph itself."""


def price_options(graph: Graph) -> Mapping[str, Metrics]:
    """Option -> what the graph would be with it; nothing for graphs that are large, or have bypass edges already."""
    if len(graph.parent) > PRICED_SITES_MAX or graph.bypass:
        return {}
    return {"entry = root": measure(enter_at_roots(graph)), "bypass": measure(add_bypasses(graph).graph)}


def enter_at_roots(graph: Graph) -> Graph:
    """The same forest; each group's messages enter at the root of its tree."""
    return Graph(graph.groups, graph.parent, {group: graph.root[site] for group, site in graph.primary.items()})
