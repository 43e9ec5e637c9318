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

    def __init__(
        self, graph: Graph, sites: tuple[SiteId, ...] = (), entry: str = "primary", joined: bool = False
    ) -> None:
        self.graph = graph
        self._at_roots = entry == "root"
        self._joined = joined
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
        self._root = graph.root
        self._level = {site: level + (self._root[site] != first) for site, level in graph.level.items()}
        for site in sites:
            if site not in self.parent:
                self.parent[site] = None if site == first else first
                self._level[site] = int(site != first)
        self.above: dict[SiteId, tuple[SiteId, ...]] = {
            site: () if above is None else (above,) for site, above in self.parent.items()
        }
        """Site -> those from which edges of the graph lead to it: its parent, and where bypass edges begin."""
        for (_group, site), before in sorted(graph.bypass.items()):
            if before not in self.above[site]:
                self.above[site] += (before,)
        self.interior = frozenset(before for above in self.above.values() for before in above)
        """The sites that are above others."""
        self.has_several_entries = self._at_roots and not joined and len(graph.roots) > 1
        """Whether messages enter at several roots, between which a source has to keep its own order."""

    @property
    def levels(self) -> Mapping[SiteId, int]:
        """Site -> how far below the first root it is."""
        return self._level

    def counted_at(self, site: SiteId) -> list[GroupId]:
        """The groups whose messages a site counts: it is in them, or orders them."""
        graph = self.graph
        return [g for g, members in graph.groups.items() if site in members or graph.primary[g] == site]

    def check_groups(self, groups: tuple[GroupId, ...]) -> None:
        """Raise `UsageError` for groups that one message cannot have.

        Groups of different trees, where messages enter at roots. (Else: s sends m1 to α by its root r2, then m12 to α
        and β by r1; at r2 m1 may come later than m12.) And any two, where there are bypass edges. (Else, in Figure 3.4:
        b takes m2 to α2, then m12 to α1 and α2; m2 goes b -> f, m12 goes b -> d -> f and is there first.)
        """
        if len(groups) > 1 and self.graph.bypass:
            raise UsageError("with bypass edges a message goes to one group")
        if self.has_several_entries and len(groups) > 1:
            primary = self.graph.primary
            known = [group for group in groups if group in primary]
            roots = {self._root[primary[group]]: group for group in reversed(known)}
            if len(roots) > 1:
                names = " and ".join(sorted(roots.values())[:2])
                raise UsageError(f"{names} are in different trees: with entry = root a message stays within one")

    def _find(self, address: tuple[GroupId, ...], _destinations: tuple[SiteId, ...] | None) -> Way:
        groups = self.graph.groups
        known = tuple(group for group in address if group in groups)
        if address and not known:
            raise UsageError(f"there is no group {address[0]!r}")
        self.check_groups(known)
        members = tuple(sorted({site for group in known for site in groups[group]}))
        if not address:
            return self._make_way(self.first_root, self._find_everyone(), members)
        if self._at_roots:
            entry = self.first_root if self._joined else self._root[self.graph.primary[known[0]]]
            route = self._walk(members, entry)
        elif len(known) == 1:
            route = self.graph.route(known[0])
            entry = self.graph.primary[known[0]]
        else:
            entry = common_ancestor(members, self.parent, self._level)
            route = self._walk(members, entry)
        return self._make_way(entry, onward_of(route), members)

    def _find_everyone(self) -> dict[SiteId, tuple[SiteId, ...]]:
        """The way of what everyone gets, which is the last or the first message of every edge: along all of them."""
        onward = onward_of(dict(self.parent))
        for site, above in self.above.items():
            for before in above[1:]:
                onward[before] += (site,)
        return onward

    def _make_way(self, entry: SiteId, onward: dict[SiteId, tuple[SiteId, ...]], members: tuple[SiteId, ...]) -> Way:
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


def make_routes(
    groups: Mapping[GroupId, tuple[SiteId, ...]],
    options: PropagationGraphOptions,
    sites: tuple[SiteId, ...] = (),
    joined: bool = False,
) -> Routes:
    """What every site makes of the groups, sites and options that all of them have."""
    parents = tuple(sorted(options.parents.items()))
    shape = (options.prefer, parents, options.load_bound, options.bypass, options.entry)
    return _make_routes(tuple(groups.items()), *shape, sites, joined)


def routes_of(roster: Roster, options: PropagationGraphOptions) -> Routes:
    """The ways over the graph of a roster. Parents that the options name may be gone, and sites may be new.

    Where graphs change, messages that enter at roots all enter at the first one: a change may part the groups of a
    message that waits at its source.
    """
    if options.parents:
        options = msgspec.structs.replace(options, parents=present_parents(options.parents, roster.sites))
    return make_routes(dict(roster.groups), options, roster.sites, joined=roster.graph > 0)


@lru_cache(maxsize=32)
def _make_routes(
    groups: tuple[tuple[GroupId, tuple[SiteId, ...]], ...],
    prefer: tuple[SiteId, ...],
    parents: tuple[tuple[SiteId, SiteId], ...],
    load_bound: int,
    bypass: bool,
    entry: str,
    sites: tuple[SiteId, ...],
    joined: bool,
) -> Routes:
    """Kept, for a simulation starts a thousand cores that would all work out the same graph."""
    if not groups and sites:
        return Routes(Graph({}, {}, {}), sites, entry, joined)
    return Routes(system_graph(dict(groups), prefer, dict(parents), load_bound, bypass), sites, entry, joined)
