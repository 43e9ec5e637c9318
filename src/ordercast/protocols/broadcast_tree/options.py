"""Options of the broadcast tree: the timers of the appendix, cluster knowledge, bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from ordercast.core import Options, Renamed, SiteId, UsageError


class BroadcastTreeOptions(Options, frozen=True):
    """Every timer and bound, with a reason for its value.

    Frequent exchange uses brief openings of the network, and costs packets (section 5): between clusters the periods
    are longer, since packets are dear there. Periods that are multiples of each other let control messages share
    packets.
    """

    np1_seconds: float = 1.0
    """NP1: how often a host looks for a better parent; two exchanges within the cluster, so that it knows more than the
    last time."""
    np2_seconds: float = 1.0
    """NP2: how long a new parent has to answer; longer than a round trip over several expensive links. It doubles when
    it was too short."""
    pa_seconds: float = 2.0
    """PA: a parent in the same cluster that has said nothing for so long (up to half as long again) is gone; four
    exchanges, three of which may be lost."""
    eic_seconds: float = 0.5
    """EIC: INFO sets to the cluster."""
    ein_seconds: float = 2.0
    """EIN: INFO sets to everyone else. This is the price of reliability: n hosts send about n² packets each time."""
    gfc_seconds: float = 0.5
    """GFC: gaps of parent and children in the cluster are filled. Longer than a round trip, as GFN: what was sent a
    period ago should have come, and the INFO set that tells so be sent."""
    gfn_seconds: float = 2.0
    """GFN: the same for parent and children elsewhere."""
    gfo_seconds: float = 4.0
    """Gaps of hosts that are neither parent nor child (the end of section 4.4, which names no timer): low, says the
    paper, since most of them are in other clusters."""
    epp_seconds: float = 0.5
    """EPP: parent pointers to the cluster."""
    piggyback_seconds: float = 0.01
    """How long a control message that is not urgent waits for company."""
    clusters: Literal["cost-bit", "transit-time", "static", "none"] = "cost-bit"
    """What tells a host who is in its cluster: the network's cost bit; the time that packets take; `static_clusters`;
    or nothing, and every host is a cluster of its own."""
    transit_seconds: float = 0.01
    """With "transit-time": who is nearer than this is in the cluster. Between a local network (1 ms) and a slow line
    (20 ms and more)."""
    static_clusters: tuple[tuple[SiteId, ...], ...] = ()
    """With "static": the clusters; a host that none names is one of its own."""
    order: Literal["none", "source"] = "none"
    """How receivers deliver: as soon as a message comes, or in the order in which the source sent them to that
    address."""
    burst_messages: int = 64
    """How many messages a source may send in one breath: no more than receivers' buffers hold. Who collects messages
    while others are under way sees those of the last breath, not those that some host has yet to take: that may be
    seconds."""
    breath_seconds: float = 0.01
    """A breath. With two bundles in each, `kept_messages_max` are those of several exchanges between clusters."""
    kept_messages_max: int = 2048
    """How many messages of a source may wait for the last host to take them. It bounds what every host keeps, and the
    holes in INFO sets; it is two seconds of a thousand messages a second, which is how long news of them takes to come
    back."""
    kept_bytes_max: int = 1 << 26
    """The same in bytes, for a live node's bundles are large; what is beyond waits at the source. Every host keeps the
    messages of all sources, so these share it: each has as much as the others that have something under way, as soon
    as they have heard of each other."""
    gap_messages_max: int = 256
    """How many missing messages are sent to one host at a time: an eighth of what is kept, so that a host that was away
    for long does not drown what is new."""
    silent_exchanges_max: int = 3
    """Exchanges between clusters in which a host was not heard once: it is no child then, and no candidate, until it
    is heard again. Two may be lost."""

    shared: ClassVar[frozenset[str]] = frozenset({"clusters", "static_clusters", "order"})
    """Hosts that see other clusters wait for each other to lead; the order is what the network promises."""
    renamed: ClassVar[Mapping[str, Renamed]] = {
        "window": Renamed("burst_messages"),
    }

    def __post_init__(self) -> None:
        periods = [name for name in self.__struct_fields__ if name.endswith("_seconds") and name != "piggyback_seconds"]
        if min(getattr(self, name) for name in periods) <= 0 or self.piggyback_seconds < 0:
            raise UsageError("options of broadcast-tree: all times are positive (piggyback_seconds may be 0)")
        bounds = ("burst_messages", "kept_messages_max", "kept_bytes_max", "gap_messages_max", "silent_exchanges_max")
        if min(getattr(self, name) for name in bounds) < 1:
            raise UsageError(f"options of broadcast-tree: {', '.join(bounds)} are 1 or more")
        named = [site for cluster in self.static_clusters for site in cluster]
        if len(named) != len(set(named)):
            raise UsageError("options of broadcast-tree: a host is in two of the static_clusters")
        if (self.clusters == "static") != bool(self.static_clusters):
            raise UsageError('options of broadcast-tree: static_clusters belong to clusters = "static"')
