"""What a propagation graph costs, and what the other two solutions of Spauster 4.1 and 4.2 would cost."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from ordercast.core import GroupId, SiteId
from ordercast.graphs.graph import Graph, Groups, Route, levels_of
from ordercast.graphs.topology import Topology


class GroupCost(msgspec.Struct, frozen=True):
    """One message to one group."""

    members: int
    """n."""
    depth: int
    """d: hops from the primary destination to the farthest member."""
    extra: tuple[SiteId, ...]
    """The sites that handle the group's messages and are not in it; their number is ε."""
    forwarding: int
    """Sites that send it on: each is one frame on a broadcast medium."""
    path: float | None = None
    """With a topology: the weight of the physical path from the primary destination to the member that is farthest by
    it. The way from the source is not in it."""

    @property
    def messages(self) -> int:
        """N on a point-to-point network: one from the source, one for each other site on the route."""
        return self.members + len(self.extra)

    def delay_max(self, processing: float, latency: float) -> float:
        """(d+1)L + (n+ε)P of Table 4.1: no message takes longer, and most take less."""
        return (self.depth + 1) * latency + self.messages * processing

    @property
    def frames(self) -> int:
        """N on a broadcast medium. Table 4.2 prints d + 1, which is right with one forwarding site on each level."""
        return 1 + self.forwarding


class Metrics(msgspec.Struct, frozen=True, dict=True):
    """A whole graph."""

    groups: Mapping[GroupId, GroupCost]
    load: Mapping[SiteId, int]
    """Messages sent and received when one goes to each group, the one from the source included."""

    @cached_property
    def mean_depth(self) -> float:
        """Over groups."""
        return sum(cost.depth for cost in self.groups.values()) / len(self.groups)

    @cached_property
    def mean_extra(self) -> float:
        """Over groups."""
        return sum(len(cost.extra) for cost in self.groups.values()) / len(self.groups)

    @cached_property
    def mean_path(self) -> float:
        """Over groups: what takes the place of the depth when there is a topology (4.4)."""
        return sum(cost.path or 0.0 for cost in self.groups.values()) / len(self.groups)

    @property
    def max_load(self) -> int:
        """Of the busiest site."""
        return max(self.load.values())


def measure(graph: Graph, topology: Topology | None = None) -> Metrics:
    """Depth, extra nodes and load."""
    load = dict.fromkeys(graph.parent, 0)
    groups = {}
    for group, route in graph.routes.items():
        senders = set()
        for site, before in route.items():
            load[site] += 1
            if before is not None:
                load[before] += 1
                senders.add(before)
        members = frozenset(graph.groups[group])
        groups[group] = GroupCost(
            len(members),
            _depth(graph, group, route),
            tuple(sorted(site for site in route if site not in members)),
            len(senders),
            None if topology is None else _longest_path(route, topology),
        )
    return Metrics(groups, load)


def _depth(graph: Graph, group: GroupId, route: Route) -> int:
    if graph.bypass:
        # No site that is not a member is farther than all members: it would lead to none.
        return max(levels_of(route).values())
    return max(graph.level[member] for member in graph.groups[group]) - graph.level[graph.primary[group]]


def _longest_path(route: Route, topology: Topology) -> float:
    levels = levels_of(route)
    weights: dict[SiteId, float] = {}
    for site in sorted(route, key=levels.__getitem__):
        before = route[site]
        weights[site] = 0.0 if before is None else weights[before] + topology.distance(before, site)
    return max(weights.values())


def delay(graph: Graph, group: GroupId, processing: float, latency: float) -> float:
    """D exactly: until the last member has a message of a source outside the group, on a quiet network."""
    onward = graph.next_hops(group)
    arrival = {graph.primary[group]: processing + latency}
    latest = 0.0
    todo = [graph.primary[group]]
    for site in todo:  # it grows meanwhile
        latest = max(latest, arrival[site])
        for number, following in enumerate(onward[site], 1):
            arrival[following] = arrival[site] + number * processing + latency
            todo.append(following)
    return latest


# ---------------------------------------------------------------------- the other two columns of the tables
def centralised_load(groups: Groups, centre: SiteId) -> int:
    """One site gets everything and sends it on. (4.1.1 counts n messages for each group; that needs a centre that is a
    member of all of them.)"""
    return sum(1 + len(members) - (centre in members) for members in groups.values())


def two_phase_load(groups: Groups) -> int:
    """Of the busiest member, not of the source: it gets the message, answers, and gets the final priority."""
    count: dict[SiteId, int] = {}
    for members in groups.values():
        for site in members:
            count[site] = count.get(site, 0) + 3
    return max(count.values())


def centralised_delay(members: int, processing: float, latency: float) -> float:
    """2L + nP."""
    return 2 * latency + members * processing


def two_phase_delay(members: int, processing: float, latency: float) -> float:
    """3L + (2n+1)P."""
    return 3 * latency + (2 * members + 1) * processing
