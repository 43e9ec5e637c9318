"""Networks with a shape (Spauster 4.4): who is whose neighbour, and how far each is from each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import isqrt

from ordercast.core import SiteId, UsageError

Link = tuple[SiteId, SiteId, float]


class Topology(ABC):
    """What heuristics and trees want to know of a network."""

    sites: tuple[SiteId, ...]

    @abstractmethod
    def distance(self, first: SiteId, second: SiteId) -> float:
        """The weight of the shortest path."""

    @abstractmethod
    def neighbours(self, site: SiteId) -> Sequence[tuple[SiteId, float]]:
        """The other ends of the site's links, and the weights of these."""


class Grid(Topology):
    """The sites in rows of a square, as full as they come, each joined to its neighbours with weight 1."""

    def __init__(self, sites: Iterable[SiteId]) -> None:
        self.sites = tuple(sites)
        count = len(self.sites)
        self._side = side = isqrt(count - 1) + 1 if count else 1
        self._place = {site: divmod(number, side) for number, site in enumerate(self.sites)}

    def distance(self, first: SiteId, second: SiteId) -> float:
        """Rows and columns between the two: only the last row may have holes, and those at its end."""
        row, column = self._place[first]
        other_row, other_column = self._place[second]
        return abs(row - other_row) + abs(column - other_column)

    def neighbours(self, site: SiteId) -> Sequence[tuple[SiteId, float]]:
        row, column = self._place[site]
        side = self._side
        around = ((row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column))
        return [
            (self.sites[number], 1.0)
            for row, column in around
            if row >= 0 and 0 <= column < side and (number := row * side + column) < len(self.sites)
        ]


class Links(Topology):
    """Any connected network."""

    def __init__(self, links: Iterable[Link]) -> None:
        around: dict[SiteId, dict[SiteId, float]] = {}
        for first, second, weight in links:
            if first == second:
                raise UsageError(f"there is a link from {first!r} to itself")
            if not 0 <= weight < float("inf"):
                raise UsageError(f"the link {first} - {second} has the weight {weight}; it is 0 or more")
            for one, other in ((first, second), (second, first)):
                known = around.setdefault(one, {})
                known[other] = min(weight, known.get(other, weight))
        self.sites = tuple(sorted(around))
        self._around = {site: sorted(others.items()) for site, others in around.items()}
        self._distances: dict[SiteId, dict[SiteId, float]] = {}
        if self.sites and len(self._from(self.sites[0])) < len(self.sites):
            raise UsageError("the topology is not connected: some sites could never reach each other")

    def distance(self, first: SiteId, second: SiteId) -> float:
        """Found from each site once."""
        if first == second:
            return 0.0
        for one, other in ((first, second), (second, first)):
            if one not in self._around:
                raise UsageError(f"the topology has no link of site {one!r}; add one")
            if one in self._distances:
                return self._distances[one][other]
        return self._from(first)[second]

    def neighbours(self, site: SiteId) -> Sequence[tuple[SiteId, float]]:
        return self._around[site]

    def _from(self, start: SiteId) -> dict[SiteId, float]:
        """Dijkstra's algorithm."""
        found: dict[SiteId, float] = {}
        border = [(0.0, start)]
        while border:
            distance, site = heappop(border)
            if site in found:
                continue
            found[site] = distance
            for other, weight in self._around[site]:
                if other not in found:
                    heappush(border, (distance + weight, other))
        self._distances[start] = found
        return found
