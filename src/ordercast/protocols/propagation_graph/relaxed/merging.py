"""One order out of the histories of those who go on (Spauster 7.1.1, 7.3): a topological sort."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush

from ordercast.core import MessageId, SiteId
from ordercast.protocols.propagation_graph.relaxed.graphs import Listed


def _has_had_none(_item: Listed, _site: SiteId) -> bool:
    return False


def merge(
    histories: Mapping[SiteId, Sequence[Listed]],
    is_for: Callable[[Listed, SiteId], bool],
    has_had: Callable[[Listed, SiteId], bool] = _has_had_none,
) -> tuple[list[Listed], bool]:
    """All messages of the histories, each once, in an order that every site can follow; and whether there is one.

    A site has what it has had, and then what it lacks. So a message comes when every site that has had it has had
    nothing else before it that is left, and every site that lacks it and is to get it has nothing left at all. (Without
    the second rule: x has u, z has v, and both are for x and w; the sort says v u; x, which has delivered u, delivers
    u v, and w, which has neither, v u.)

    What a site `has_had` and does not tell any more, it has had before all that it tells, or lacks. (Else, where c may
    come back and deliver everything: y has u s and tells both, z has s v and tells v alone, for s is everywhere; the
    sort says v u s, and c can agree with y or with z.)

    Histories of one forest always have such an order, for it is the one that would have come about.
    """
    sites = sorted(histories)
    holders: dict[MessageId, list[SiteId]] = {}
    listed: dict[MessageId, Listed] = {}
    for site in sites:
        for item in histories[site]:
            holders.setdefault(item.id, []).append(site)
            listed.setdefault(item.id, item)
    waiting: dict[MessageId, int] = {}
    """Message -> how many sites have something else first."""
    lacking: dict[SiteId, list[MessageId]] = {site: [] for site in sites}
    behind: dict[MessageId, list[SiteId]] = {}
    """Message -> the sites that have had it before all that they tell."""
    earlier = dict.fromkeys(sites, 0)
    """How many such messages are left."""
    for message, item in listed.items():
        waiting[message] = len(holders[message])
        for site in sites:
            if site in holders[message] or not is_for(item, site):
                continue
            if has_had(item, site):
                behind.setdefault(message, []).append(site)
                earlier[site] += 1
            else:
                lacking[site].append(message)
                waiting[message] += 1
    ready: list[MessageId] = []

    def release(message: MessageId) -> None:
        waiting[message] -= 1
        if not waiting[message]:
            heappush(ready, message)

    at = dict.fromkeys(sites, 0)

    def go_on(site: SiteId) -> None:
        if at[site] < len(histories[site]):
            release(histories[site][at[site]].id)
        else:
            for each in lacking[site]:
                release(each)

    for site in sites:
        if not earlier[site]:
            go_on(site)
    order: list[Listed] = []
    while ready:
        message = heappop(ready)
        order.append(listed[message])
        for site in behind.get(message, ()):
            earlier[site] -= 1
            if not earlier[site]:
                go_on(site)
        for site in holders[message]:
            at[site] += 1
            go_on(site)
    return order, len(order) == len(listed)
