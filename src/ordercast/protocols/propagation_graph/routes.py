"""Where messages enter the graph and which way they take, as every site of a running system works it out for itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from ordercast.core import AddressMemo, GroupId, SiteId, UsageError
from ordercast.graphs.graph import Graph, Route, common_ancestor, onward_of
from ordercast.graphs.system import present_parents, system_graph
from ordercast.protocols.propagation_graph.options import PropagationGraphOptions
from ordercast.protocols.propagation_graph.rosters import Roster


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

    def __init__(self, graph: Graph, sites: tuple[SiteId, ...] = ()) -> None:
        self.graph = graph
        self.ways: AddressMemo[Way] = AddressMemo(self._find)
        """Of the messages of an address; `UsageError` when there is no such group. Groups that have ended while a
        message was on its way have no members. An address without groups is everyone's: Close and Open have it."""
        self.first_root = first = graph.roots[0] if graph.roots else sites[0]
        # For messages to several groups the forest is one tree: the other roots hang from the first. This changes
        # nothing for messages to one group, whose members are below a primary destination anyway; and in a tree the
        # lower one of two primary destinations sees the messages of both, whatever their addresses are. Sites in no
        # group hang there, too, and hear of changes only.
        self.parent: dict[SiteId, SiteId | None] = {
            site: first if above is None and site != first else above for site, above in graph.parent.items()
        }
        self._level = {site: level + (graph_root != first) for site, level, graph_root in _levels(graph)}
        for site in sites:
            if site not in self.parent:
                self.parent[site] = None if site == first else first
                self._level[site] = int(site != first)

        self.interior = frozenset(self.parent.values())
        """The sites that are above others."""

    def counted_at(self, site: SiteId) -> list[GroupId]:
        """The groups whose messages a site counts: it is in them, or orders them."""
        graph = self.graph
        return [g for g, members in graph.groups.items() if site in members or graph.primary[g] == site]

    def _find(self, address: tuple[GroupId, ...], _destinations: tuple[SiteId, ...] | None) -> Way:
        groups = self.graph.groups
        known = tuple(group for group in address if group in groups)
        if address and not known:
            raise UsageError(f"there is no group {address[0]!r}")
        members = tuple(sorted({site for group in known for site in groups[group]}))
        if not address:
            entry = self.first_root
            route = dict(self.parent)
        elif len(known) == 1:
            route = self.graph.route(known[0])
            entry = self.graph.primary[known[0]]
        else:
            entry = common_ancestor(members, self.parent, self._level)
            route = self._walk(members, entry)
        onward = onward_of(route)
        places = {(sender, site): place for sender, to in onward.items() for place, site in enumerate(to)}
        return Way(entry, onward, places, frozenset(members))

    def _walk(self, members: tuple[SiteId, ...], entry: SiteId) -> Route:
        route: Route = {entry: None}
        for member in members:
            site = member
            while site not in route:
                above = self.parent[site]
                route[site] = above
                site = above or entry
        return route


def _levels(graph: Graph) -> list[tuple[SiteId, int, SiteId]]:
    """Site, level and root."""
    root: dict[SiteId, SiteId] = {}
    for site, above in graph.parent.items():
        root[site] = site if above is None else root[above]
    return [(site, level, root[site]) for site, level in graph.level.items()]


def make_routes(
    groups: Mapping[GroupId, tuple[SiteId, ...]], options: PropagationGraphOptions, sites: tuple[SiteId, ...] = ()
) -> Routes:
    """What every site makes of the groups, sites and options that all of them have."""
    parents = tuple(sorted(options.parents.items()))
    return _make_routes(tuple(groups.items()), options.prefer, parents, options.load_bound, sites)


def routes_of(roster: Roster, options: PropagationGraphOptions) -> Routes:
    """The ways over the graph of a roster. Parents that the options name may be gone, and sites may be new."""
    if options.parents:
        options = msgspec.structs.replace(options, parents=present_parents(options.parents, roster.sites))
    return make_routes(dict(roster.groups), options, roster.sites)


@lru_cache(maxsize=32)
def _make_routes(
    groups: tuple[tuple[GroupId, tuple[SiteId, ...]], ...],
    prefer: tuple[SiteId, ...],
    parents: tuple[tuple[SiteId, SiteId], ...],
    load_bound: int,
    sites: tuple[SiteId, ...],
) -> Routes:
    """Kept, for a simulation starts a thousand cores that would all work out the same graph."""
    if not groups and sites:
        return Routes(Graph({}, {}, {}), sites)
    return Routes(system_graph(dict(groups), prefer, dict(parents), load_bound), sites)
