"""Where messages enter the graph and which way they take, as every site of a running system works it out for itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from ordercast.core import AddressMemo, GroupId, SiteId, UsageError
from ordercast.graphs.balance import balance
from ordercast.graphs.choice import Ties
from ordercast.graphs.generator import generate
from ordercast.graphs.graph import (
    Graph,
    Route,
    common_ancestor,
    graph_of_parents,
    onward_of,
    read_groups,
)
from ordercast.protocols.propagation_graph.options import PropagationGraphOptions


class Way(msgspec.Struct, frozen=True):
    """How messages of one address go."""

    entry: SiteId
    """The primary destination, to which sources send them."""
    onward: Mapping[SiteId, tuple[SiteId, ...]]
    """Site on the way -> where it sends them on to."""
    places: Mapping[tuple[SiteId, SiteId], int]
    """Sender and receiver on the way -> which of the numbers that the sender sends on is the receiver's."""
    members: frozenset[SiteId]


class Routes:
    """The ways over one graph. Equal at all sites, so those of one process share it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ways: AddressMemo[Way] = AddressMemo(self._find)
        """Of the messages of an address; `UsageError` when there is no such group."""
        first = graph.roots[0]
        # For messages to several groups the forest is one tree: the other roots hang from the first. This changes
        # nothing for messages to one group, whose members are below a primary destination anyway; and in a tree the
        # lower one of two primary destinations sees the messages of both, whatever their addresses are.
        self._parent = {
            site: first if above is None and site != first else above for site, above in graph.parent.items()
        }
        self._level = {site: level + (graph_root != first) for site, level, graph_root in _levels(graph)}

    def _find(self, address: tuple[GroupId, ...], _destinations: tuple[SiteId, ...] | None) -> Way:
        groups = self.graph.groups
        for group in address:
            if group not in groups:
                raise UsageError(f"there is no group {group!r}")
        if not address:
            raise UsageError("a message needs at least one group")
        members = tuple(sorted({site for group in address for site in groups[group]}))
        if len(address) == 1:
            route = self.graph.route(address[0])
            entry = self.graph.primary[address[0]]
        else:
            entry = common_ancestor(members, self._parent, self._level)
            route = self._walk(members, entry)
        onward = onward_of(route)
        places = {(sender, site): place for sender, to in onward.items() for place, site in enumerate(to)}
        return Way(entry, onward, places, frozenset(members))

    def _walk(self, members: tuple[SiteId, ...], entry: SiteId) -> Route:
        route: Route = {entry: None}
        for member in members:
            site = member
            while site not in route:
                above = self._parent[site]
                route[site] = above
                site = above or entry
        return route


def _levels(graph: Graph) -> list[tuple[SiteId, int, SiteId]]:
    """Site, level and root."""
    root: dict[SiteId, SiteId] = {}
    for site, above in graph.parent.items():
        root[site] = site if above is None else root[above]
    return [(site, level, root[site]) for site, level in graph.level.items()]


def make_routes(groups: Mapping[GroupId, tuple[SiteId, ...]], options: PropagationGraphOptions) -> Routes:
    """What every site makes of the groups and options that all of them have."""
    key = tuple(groups.items())
    return _make_routes(key, options.prefer, tuple(sorted(options.parents.items())), options.load_bound)


@lru_cache(maxsize=8)
def _make_routes(
    groups: tuple[tuple[GroupId, tuple[SiteId, ...]], ...],
    prefer: tuple[SiteId, ...],
    parents: tuple[tuple[SiteId, SiteId], ...],
    load_bound: int,
) -> Routes:
    """Kept, for a simulation starts a thousand cores that would all work out the same graph."""
    known = read_groups(dict(groups))
    graph = graph_of_parents(known, dict(parents)) if parents else generate(known, ties=Ties(prefer=prefer))
    if load_bound:
        graph = balance(graph, load_bound).graph
    return Routes(graph)
