"""The shape of the tree: the sites by rank, filled level by level."""

from __future__ import annotations

from ordercast.core import SiteId


def children(ranks: tuple[SiteId, ...], site: SiteId, children_max: int) -> tuple[SiteId, ...]:
    """The children of a site. The next in rank is always a child of the root: it watches it, so it must hear it
    directly."""
    first = ranks.index(site) * children_max + 1
    return ranks[first : first + children_max]


def parent(ranks: tuple[SiteId, ...], site: SiteId, children_max: int) -> SiteId | None:
    """The parent of a site; None for the root."""
    place = ranks.index(site)
    return ranks[(place - 1) // children_max] if place else None
