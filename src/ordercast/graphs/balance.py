"""Load against delay: sites that send too much hand children down to other members (Spauster 4.1.2, Figure 4.1)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ordercast.core import GroupId, SiteId, UsageError
from ordercast.graphs.graph import Graph, graph_of_parents, heights_of
from ordercast.graphs.metrics import measure


class Balanced(msgspec.Struct, frozen=True):
    """A graph that keeps a bound on load as far as that is possible without extra nodes."""

    graph: Graph
    over: dict[SiteId, int]
    """The sites that are still above the bound, and their load."""


class _Move(NamedTuple):
    """A child goes from a busy site to another one below that; the best move is the smallest."""

    level: int
    """How deep the child's subtree reaches afterwards."""
    saved: int
    """What the busy site need no longer send, negative."""
    load: int
    child: SiteId
    to: SiteId


def balance(graph: Graph, load_bound: int) -> Balanced:
    """Move children of sites above the bound below other members of their groups, until no site is above it, or no
    move is left that adds no extra node and brings nobody above the bound."""
    if load_bound < 1:
        raise UsageError(f"a bound on load is 1 or more, not {load_bound}")
    if graph.bypass:
        raise UsageError("a graph with bypass edges is not balanced; balance it first")
    work = _Work(graph, load_bound)
    for site in sorted(graph.parent, key=lambda each: (-work.load[each], each)):
        while work.load[site] > load_bound and (move := work.best_move(site)) is not None:
            work.make(site, move)
    parents = {site: parent for site, parent in work.parent.items() if parent is not None}
    balanced = graph_of_parents(graph.groups, parents)
    # The lowest common ancestor would do, but the primary destination must not change: no load moves upwards.
    balanced = msgspec.structs.replace(balanced, primary=graph.primary)
    return Balanced(balanced, {site: load for site, load in sorted(work.load.items()) if load > load_bound})


class _Work:
    def __init__(self, graph: Graph, load_bound: int) -> None:
        self.parent = dict(graph.parent)
        self.load = dict(measure(graph).load)
        self._bound = load_bound
        self._children = {site: set(children) for site, children in graph.children.items()}
        self._members = {group: frozenset(members) for group, members in graph.groups.items()}
        self._level = dict(graph.level)
        self._height = heights_of(dict(graph.parent))
        self._carried: dict[SiteId, set[GroupId]] = {site: set() for site in graph.parent}
        """Site -> the groups whose messages come to it from its parent."""
        for group, route in graph.routes.items():
            for site, before in route.items():
                if before is not None:
                    self._carried[site].add(group)

    def best_move(self, site: SiteId) -> _Move | None:
        """Which child of the site goes where; the site's other children, and what is below them, are the places."""
        moves = []
        for child in sorted(self._children[site]):
            groups = self._carried[child]
            if not groups:
                continue
            # A member of all groups that the child gets has their messages already: no extra node, no new receive.
            places = frozenset.intersection(*(self._members[group] for group in sorted(groups)))
            moves += [
                _Move(self._level[place] + 1 + self._height[child], -len(groups), self.load[place], child, place)
                for place in sorted(places)
                if self.load[place] + len(groups) <= self._bound
                and place != site
                and self._is_below(place, site)
                and not self._is_below(place, child)
            ]
        return min(moves, default=None)

    def make(self, site: SiteId, move: _Move) -> None:
        """Hand the child down."""
        child, to = move.child, move.to
        groups = len(self._carried[child])
        self.parent[child] = to
        self._children[site].discard(child)
        self._children[to].add(child)
        self.load[site] -= groups
        self.load[to] += groups
        lower = self._level[to] + 1 - self._level[child]
        todo = [child]
        for each in todo:  # it grows meanwhile
            self._level[each] += lower
            todo.extend(self._children[each])
        height, above = self._height[child] + 1, to
        while self._height[above] < height:
            self._height[above] = height
            parent = self.parent[above]
            if parent is None:
                break
            height, above = height + 1, parent

    def _is_below(self, site: SiteId, top: SiteId) -> bool:
        """In the subtree of `top`."""
        each: SiteId | None = site
        while each is not None and self._level[each] > self._level[top]:
            each = self.parent[each]
        return each == top
