"""Bypass edges: independence for sites that forward messages of groups they are not in (Spauster 3.5).

Multiple-group order survives a bypass exactly when, for every two groups, all sites that are in both still get the two
orders merged at one and the same site. It is all that survives. With α1 = {a,b,d,e}, α2 = {b,c,f}, α3 = {d,e,f,g} and
the bypass b -> f of Figure 3.4: b delivers m2 before m1; d delivers m1 before m3; m3 comes to f by d before m2 comes by
the bypass, and f delivers m3 before m2. No two sites disagree, and yet m1, m2, m3 go round in a circle. So the message
passing protocol, which promises acyclic order, runs on the forest alone.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping

import msgspec

from ordercast.core import GroupId, SiteId
from ordercast.graphs.graph import Graph, Groups, Route, parents_first


class Dependence(msgspec.Struct, frozen=True):
    """An extra node that stays one, and why."""

    site: SiteId
    group: GroupId
    why: str


class Independent(msgspec.Struct, frozen=True):
    """A graph with bypass edges, and what could not be bypassed."""

    graph: Graph
    left: tuple[Dependence, ...]


def add_bypasses(graph: Graph) -> Independent:
    """Bypass every extra node that can be, one after the other, until none can be."""
    work = _Work(graph)
    left: list[Dependence] = []
    changed = True
    while changed:
        changed = False
        left = []
        for group, members in graph.groups.items():
            for site in sorted(frozenset(work.routes[group]).difference(members)):
                reason = work.bypass_site(group, site)
                if reason is None:
                    changed = True
                else:
                    left.append(Dependence(site, group, reason))
    return Independent(Graph(graph.groups, parents_first(work.parent), graph.primary, work.bypass), tuple(left))


class _Work:
    """A graph in the making. A change concerns few routes, and only those are looked at again."""

    def __init__(self, graph: Graph) -> None:
        self.groups = graph.groups
        self.parent = dict(graph.parent)
        self.bypass = dict(graph.bypass)
        self.routes = {group: dict(route) for group, route in graph.routes.items()}
        self._groups_of = _groups_of(graph.groups)

    def bypass_site(self, group: GroupId, site: SiteId) -> str | None:
        """Let the group's messages go around the site; or say why that cannot be."""
        route = self.routes[group]
        before = route[site]
        if before is None:
            return "it is the primary destination: sources would have to send to several sites"
        after = sorted(each for each, previous in route.items() if previous == site)
        # Figure 3.4: straight from the site before it to those behind it.
        straight = {each: before if previous == site else previous for each, previous in route.items() if each != site}
        reason = self._why_not({group: straight})
        if reason is None:
            self._take(group, site, {group: straight})
            return None
        # Figure 3.5: to one of those behind it, which merges for the others; these become its children.
        for merging in after:
            others = [each for each in after if each != merging]
            gathered = self._gather(group, site, before, merging, others)
            if gathered and self._why_not(gathered) is None:
                self.parent.update(dict.fromkeys(others, merging))
                self._take(group, site, gathered)
                return None
        return reason

    def _gather(
        self, group: GroupId, site: SiteId, before: SiteId, merging: SiteId, others: list[SiteId]
    ) -> dict[GroupId, Route]:
        """The routes that change when the others become children of the merging site; none when it would be an extra
        node then."""
        if not others or any(self.parent[each] != site for each in others):
            return {}
        changed: dict[GroupId, Route] = {}
        for carried in dict.fromkeys(name for each in others for name in self._carried_to(each, site)):
            if merging not in self.groups[carried]:
                return {}
            changed[carried] = self.routes[carried] | dict.fromkeys(
                (each for each in others if self.routes[carried].get(each) == site), merging
            )
        changed[group][merging] = before
        del changed[group][site]
        return changed

    def _carried_to(self, site: SiteId, before: SiteId) -> list[GroupId]:
        """The groups whose messages come to a site from another one."""
        return [group for group, route in self.routes.items() if route.get(site) == before]

    def _take(self, group: GroupId, around: SiteId, changed: dict[GroupId, Route]) -> None:
        self.routes.update(changed)
        self.bypass.pop((group, around), None)
        for name, route in changed.items():
            for site, before in route.items():
                if before is None or before == self.parent[site]:
                    self.bypass.pop((name, site), None)
                else:
                    self.bypass[name, site] = before

    def _why_not(self, changed: dict[GroupId, Route]) -> str | None:
        """Two sites that would merge the same two groups; None: order is kept."""
        return find_double_merge(self.groups, self._groups_of, ChainMap(changed, self.routes), changed)


def _groups_of(groups: Groups) -> dict[SiteId, tuple[GroupId, ...]]:
    found: dict[SiteId, list[GroupId]] = {}
    for group, members in groups.items():
        for site in members:
            found.setdefault(site, []).append(group)
    return {site: tuple(mine) for site, mine in found.items()}


# ---------------------------------------------------------------------- the rule
def find_double_merge(
    groups: Groups,
    groups_of: Mapping[SiteId, tuple[GroupId, ...]],
    routes: Mapping[GroupId, Route],
    concerned: Iterable[GroupId],
) -> str | None:
    """Two groups, one of them concerned, whose messages are merged at one site and again at another; in words."""
    for group in concerned:
        merged: dict[GroupId, SiteId] = {}
        route = routes[group]
        for site in groups[group]:
            for other in groups_of[site]:
                if other == group:
                    continue
                here = merging_site(route, routes[other], site)
                known = merged.setdefault(other, here)
                if known != here:
                    one, two = sorted((group, other))
                    first, second = sorted((known, here))
                    return f"{one} and {two} would be merged at {first} and again at {second}"
    return None


def merging_site(first: Route, second: Route, site: SiteId) -> SiteId:
    """Where the messages of two groups were brought into the order in which they come to this site: up the route as
    far as both come the same way."""
    while (before := first[site]) is not None and before == second[site]:
        site = before
    return site


def keeps_order(graph: Graph) -> bool:
    """Whether multiple-group order holds: true for every forest, and for what `add_bypasses` makes of one."""
    return find_double_merge(graph.groups, _groups_of(graph.groups), graph.routes, graph.groups) is None
