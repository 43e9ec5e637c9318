"""From groups to a graph by the name of a method: what `ordercast graph` and the experiments of chapter 4 share."""

from __future__ import annotations

from typing import Literal, get_args

from ordercast.core import UsageError
from ordercast.graphs.choice import HEURISTICS, Ties
from ordercast.graphs.generator import generate
from ordercast.graphs.graph import Graph, Groups
from ordercast.graphs.spanning import minimum_spanning_tree, shortest_path_tree
from ordercast.graphs.topology import Topology

Tree = Literal["spanning-tree", "shortest-path"]
METHODS: tuple[str, ...] = (*HEURISTICS, *get_args(Tree))


def design(groups: Groups, method: str, ties: Ties, topology: Topology | None = None) -> Graph:
    """The graph that a method makes of the groups; `UsageError` when it needs what is not given."""
    if method not in METHODS:
        raise UsageError(f"there is no heuristic {method!r}; known: {', '.join(METHODS)}")
    if method in HEURISTICS:
        return generate(groups, method, ties, topology)
    if topology is None:
        raise UsageError(f"{method} needs a topology")
    if method == "spanning-tree":
        return minimum_spanning_tree(groups, topology, ties)
    return shortest_path_tree(groups, topology, ties)
