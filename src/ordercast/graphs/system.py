"""The graph that a running system has: each site works it out from the groups and options that all of them have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ordercast.core import GroupId, SiteId
from ordercast.graphs.balance import balance
from ordercast.graphs.bypass import add_bypasses
from ordercast.graphs.choice import Ties
from ordercast.graphs.generator import generate
from ordercast.graphs.graph import Graph, graph_of_parents, read_groups


def system_graph(
    groups: Mapping[GroupId, tuple[SiteId, ...]],
    prefer: tuple[SiteId, ...] = (),
    parents: Mapping[SiteId, SiteId] | None = None,
    load_bound: int = 0,
    bypass: bool = False,
) -> Graph:
    """The parents that somebody chose, or those that the generator finds; balanced where a bound is set, and with edges
    around extra nodes where they are wanted."""
    known = read_groups(groups)
    graph = graph_of_parents(known, dict(parents)) if parents else generate(known, ties=Ties(prefer=prefer))
    graph = balance(graph, load_bound).graph if load_bound else graph
    return add_bypasses(graph).graph if bypass else graph


def present_parents(parents: Mapping[SiteId, SiteId], sites: Sequence[SiteId]) -> dict[SiteId, SiteId]:
    """Parents that somebody chose may be gone, and sites may be new: the parents of one tree of these sites. Each has
    the nearest above that is there, or else the first of those without."""
    adapted: dict[SiteId, SiteId] = {}
    for site in sites:
        above = parents.get(site)
        while above is not None and above not in sites:
            above = parents.get(above)
        if above is not None:
            adapted[site] = above
    first = next(site for site in sites if site not in adapted)
    return {site: adapted.get(site, first) for site in sites if site != first}
