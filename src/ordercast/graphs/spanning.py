"""Trees that networks have anyway, as propagation graphs: minimum spanning tree and shortest path tree (Spauster 4.4).

All sites of the network are in one tree; a group's messages enter at the lowest common ancestor of its members, which
counts as an extra node when it is not a member.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from random import Random
from typing import Literal

from ordercast.core import SiteId, UsageError
from ordercast.graphs.choice import Ties
from ordercast.graphs.graph import Graph, Groups, graph_of_parents
from ordercast.graphs.topology import Topology

Method = Literal["prim", "kruskal"]
"""Any spanning tree of a unit grid is minimal, so "other choices of equal cost were determined randomly" says little:
random Prim and random Kruskal trees differ in depth by up to a factor of two."""


def minimum_spanning_tree(groups: Groups, topology: Topology, ties: Ties, method: Method = "prim") -> Graph:
    """Rooted at the site that is in most groups, which gets as many children as a minimal tree allows."""
    root = _most_frequent(groups, topology, ties)
    random = ties.random
    chosen: dict[SiteId, list[SiteId]] = {site: [] for site in topology.sites}
    for first, second in (_prim if method == "prim" else _kruskal)(topology, root, random):
        chosen[first].append(second)
        chosen[second].append(first)
    return graph_of_parents(groups, _hang_from(root, chosen))


def shortest_path_tree(groups: Groups, topology: Topology, ties: Ties) -> Graph:
    """Rooted at the site that is in most groups, and every site as near to it as the network allows."""
    root = _most_frequent(groups, topology, ties)
    parents: dict[SiteId, SiteId] = {}
    for site in topology.sites:
        if site == root:
            continue
        away = topology.distance(root, site)
        nearer = sorted(
            other for other, weight in topology.neighbours(site) if topology.distance(root, other) + weight == away
        )
        # Where a link weighs nothing, its ends are equally far, and each would be the other's parent.
        nearer = [other for other in nearer if topology.distance(root, other) < away] or nearer
        parents[site] = nearer[0] if ties.random is None else ties.random.choice(nearer)
    return graph_of_parents(groups, parents)


def _most_frequent(groups: Groups, topology: Topology, ties: Ties) -> SiteId:
    count = Counter(site for members in groups.values() for site in members)
    known = frozenset(topology.sites)
    for site in sorted(count):
        if site not in known:
            raise UsageError(f"the topology has no link of site {site!r}; add one")
    most = max(count.values())
    equal = sorted(site for site in count if count[site] == most)
    for site in ties.prefer:
        if site in equal:
            return site
    return equal[0] if ties.random is None else ties.random.choice(equal)


def _links(topology: Topology, root: SiteId, random: Random | None) -> list[tuple[SiteId, SiteId]]:
    """All links, the lightest first; among equal ones those of the root, then any order."""
    keyed = []
    for site in topology.sites:
        for other, weight in topology.neighbours(site):
            if site < other:
                chance = 0.0 if random is None else random.random()
                keyed.append((weight, root not in (site, other), chance, site, other))
    return [(site, other) for *_, site, other in sorted(keyed)]


def _kruskal(topology: Topology, root: SiteId, random: Random | None) -> list[tuple[SiteId, SiteId]]:
    leader = {site: site for site in topology.sites}

    def find(site: SiteId) -> SiteId:
        while leader[site] != site:
            leader[site] = site = leader[leader[site]]
        return site

    tree = []
    for first, second in _links(topology, root, random):
        one, other = find(first), find(second)
        if one != other:
            leader[one] = other
            tree.append((first, second))
    return tree


def _prim(topology: Topology, root: SiteId, random: Random | None) -> list[tuple[SiteId, SiteId]]:
    """Grow from the root by the lightest link that leads outside; among equal ones those of the root, then any."""
    border = _Border(random)
    inside = {root}
    tree = []

    def reach(site: SiteId) -> None:
        for other, weight in topology.neighbours(site):
            if other not in inside:
                border.add((weight, site != root), (site, other))

    reach(root)
    while border:
        site, other = border.take()
        if other not in inside:
            inside.add(other)
            tree.append((site, other))
            reach(other)
    return tree


class _Border:
    """The links that lead outside, by rank.

    Which of equal ones is next is decided anew each time. (If each link kept the number that it drew when it was
    reached, these numbers would be weights, and the tree that of Kruskal's rule, which is deeper by half.)
    """

    def __init__(self, random: Random | None) -> None:
        self._random = random
        self._ranks: list[tuple[float, bool]] = []
        self._links: dict[tuple[float, bool], list[tuple[SiteId, SiteId]]] = {}

    def __bool__(self) -> bool:
        return bool(self._ranks)

    def add(self, rank: tuple[float, bool], link: tuple[SiteId, SiteId]) -> None:
        if rank not in self._links:
            heappush(self._ranks, rank)
            self._links[rank] = []
        if self._random is None:
            heappush(self._links[rank], link)
        else:
            self._links[rank].append(link)

    def take(self) -> tuple[SiteId, SiteId]:
        """The first by name, or any, of the lowest rank."""
        links = self._links[self._ranks[0]]
        if self._random is None:
            link = heappop(links)
        else:
            place = self._random.randrange(len(links))
            links[place], links[-1] = links[-1], links[place]
            link = links.pop()
        if not links:
            del self._links[heappop(self._ranks)]
        return link


def _hang_from(root: SiteId, joined: dict[SiteId, list[SiteId]]) -> dict[SiteId, SiteId]:
    parents: dict[SiteId, SiteId] = {}
    todo = [root]
    for site in todo:  # it grows meanwhile
        for other in joined[site]:
            if other != root and other not in parents:
                parents[other] = site
                todo.append(other)
    return parents
