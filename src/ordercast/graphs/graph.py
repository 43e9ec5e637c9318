"""A propagation graph: a forest of sites, and for each group the site at which its messages enter (Spauster 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from ordercast.core import GroupId, SiteId, UsageError

Groups = Mapping[GroupId, tuple[SiteId, ...]]
"""Group -> its members, sorted, each once."""
Route = dict[SiteId, SiteId | None]
"""The sites that a group's messages pass -> the site from which they come there; None at the primary destination."""


def read_groups(groups: Mapping[GroupId, Iterable[SiteId]]) -> dict[GroupId, tuple[SiteId, ...]]:
    """The groups in the form that everything here expects; `UsageError` when they have no propagation graph."""
    known = {group: tuple(sorted(set(members))) for group, members in groups.items()}
    if not known:
        raise UsageError("there are no groups; name at least one")
    for group, members in known.items():
        if not members:
            raise UsageError(f"group {group!r} has no members; name at least one, or leave the group out")
    return known


class Graph(msgspec.Struct, frozen=True, dict=True):
    """A forest that orders the messages of some groups. Sites in no group and on no path are not in it."""

    groups: Groups
    parent: Mapping[SiteId, SiteId | None]
    """Site -> its parent, None for a root; a parent stands before its children."""
    primary: Mapping[GroupId, SiteId]
    """Group -> its primary destination: sources send the group's messages there."""
    bypass: Mapping[tuple[GroupId, SiteId], SiteId] = {}
    """Group and site -> the site from which the group's messages come there, where that is not the parent (3.5)."""

    @cached_property
    def roots(self) -> tuple[SiteId, ...]:
        """The sites without a parent."""
        return tuple(site for site, parent in self.parent.items() if parent is None)

    @cached_property
    def root(self) -> dict[SiteId, SiteId]:
        """Site -> the root of its tree."""
        root: dict[SiteId, SiteId] = {}
        for site, parent in self.parent.items():
            root[site] = site if parent is None else root[parent]
        return root

    @cached_property
    def children(self) -> dict[SiteId, tuple[SiteId, ...]]:
        """Site -> its children, by name."""
        below: dict[SiteId, list[SiteId]] = {site: [] for site in self.parent}
        for site, parent in self.parent.items():
            if parent is not None:
                below[parent].append(site)
        return {site: tuple(sorted(children)) for site, children in below.items()}

    @cached_property
    def level(self) -> dict[SiteId, int]:
        """Site -> how many edges below its root."""
        levels: dict[SiteId, int] = {}
        for site, parent in self.parent.items():
            levels[site] = 0 if parent is None else levels[parent] + 1
        return levels

    def previous(self, group: GroupId, site: SiteId) -> SiteId:
        """The site from which the group's messages come to this one, which is not its primary destination."""
        if self.bypass:
            before = self.bypass.get((group, site))
            if before is not None:
                return before
        parent = self.parent[site]
        if parent is None:
            raise UsageError(
                f"{self.primary[group]} cannot be the primary destination of {group!r}: it is not above all"
            )
        return parent

    def route(self, group: GroupId) -> Route:
        """The way of the group's messages."""
        route: Route = {self.primary[group]: None}
        for member in self.groups[group]:
            site = member
            while site not in route:
                route[site] = site = self.previous(group, site)
        return route

    @cached_property
    def routes(self) -> dict[GroupId, Route]:
        """The ways of all groups' messages."""
        return {group: self.route(group) for group in self.groups}

    def next_hops(self, group: GroupId) -> dict[SiteId, tuple[SiteId, ...]]:
        """Site -> where it sends the group's messages on to."""
        return onward_of(self.routes[group])


def onward_of(route: Route) -> dict[SiteId, tuple[SiteId, ...]]:
    """A route in its direction; whoever has the longest way still before it is sent to first."""
    heights = heights_of(route)
    onward: dict[SiteId, list[SiteId]] = {site: [] for site in route}
    for site, before in route.items():
        if before is not None:
            onward[before].append(site)
    return {site: tuple(sorted(sites, key=lambda each: (-heights[each], each))) for site, sites in onward.items()}


def levels_of(route: Route) -> dict[SiteId, int]:
    """Site -> how many hops from the primary destination."""
    levels: dict[SiteId, int] = {}
    for start in route:
        path = []
        site: SiteId | None = start
        while site is not None and site not in levels:
            path.append(site)
            site = route[site]
        level = -1 if site is None else levels[site]
        for each in reversed(path):
            level += 1
            levels[each] = level
    return levels


def heights_of(route: Route) -> dict[SiteId, int]:
    """Site -> how many hops the group's messages still go from there."""
    levels = levels_of(route)
    heights = dict.fromkeys(route, 0)
    for site in sorted(route, key=levels.__getitem__, reverse=True):
        before = route[site]
        if before is not None:
            heights[before] = max(heights[before], heights[site] + 1)
    return heights


def graph_of_parents(groups: Groups, parents: Mapping[SiteId, SiteId]) -> Graph:
    """The graph of any forest: sources send to the lowest common ancestor of the members (4.3).

    Whoever is named neither as a child nor as a parent is a root. Branches that lead to no member are left out.
    """
    members = {site for names in groups.values() for site in names}
    parent = parents_first(parents, sorted(members))
    level: dict[SiteId, int] = {}
    for site, above in parent.items():
        level[site] = 0 if above is None else level[above] + 1
    primary = {}
    for group, names in groups.items():
        try:
            primary[group] = common_ancestor(names, parent, level)
        except UsageError as error:
            raise UsageError(f"group {group!r}: {error}") from None
    return Graph(groups, parent, primary)


def parents_first(
    parents: Mapping[SiteId, SiteId | None], sites: Iterable[SiteId] | None = None
) -> dict[SiteId, SiteId | None]:
    """These sites (all, by default) and what is above them; a parent stands before its children."""
    placed: dict[SiteId, SiteId | None] = {}
    for start in parents if sites is None else sites:
        path: dict[SiteId, None] = {}
        site: SiteId | None = start
        while site is not None and site not in placed:
            if site in path:
                raise UsageError(f"the parents of {start} go round in a circle at {site}")
            path[site] = None
            site = parents.get(site)
        for each in reversed(path):
            placed[each] = parents.get(each)
    return placed


def common_ancestor(
    members: tuple[SiteId, ...], parent: Mapping[SiteId, SiteId | None], level: Mapping[SiteId, int]
) -> SiteId:
    """The lowest site that is above all of these, or one of them."""
    common = members[0]
    for member in members[1:]:
        other = member
        while common != other:
            if level[other] < level[common]:
                common, other = other, common
            above = parent[other]
            if above is None:
                raise UsageError(
                    f"{members[0]} and {member} are in different trees, and a group needs a common ancestor"
                )
            other = above
    return common
