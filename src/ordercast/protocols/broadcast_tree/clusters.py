"""CLUSTER: which hosts are in the same cluster with this one, as far as it knows (sections 2, 4.2 and 5)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.broadcast_tree.packets import Control

if TYPE_CHECKING:
    from ordercast.protocols.broadcast_tree.protocol import BroadcastTree

SAMPLES = 4
"""Transit times that are remembered of a host. Queues and retransmissions only ever add to a transit time, so the
least of the last few is believed; a way that has really become longer is noticed after so many packets."""


class Clusters(Part):
    """What one host knows about who is near."""

    branches = ("cluster-grew", "cluster-shrank")

    def __init__(self, core: BroadcastTree) -> None:
        self._core = core
        self._source = core.options.clusters
        self.members: set[SiteId] = {core.site}
        """CLUSTER, with the host itself. (Without it a host's own child, whose parent is the host, would look like a
        cluster leader to it, and it would attach to its child.)"""
        if self._source == "static":
            self.members.update(*(own for own in core.options.static_clusters if core.site in own))
        self.hops: dict[SiteId, int] = {}
        self._transits: dict[SiteId, deque[float]] = {}
        self._last: dict[SiteId, tuple[float, float]] = {}
        """Host -> `sent_at` of its last packet, and when that came by our clock."""

    def __contains__(self, site: SiteId | None) -> bool:
        return site in self.members

    def has_heard(self, site: SiteId) -> bool:
        """Whether anything has come from the host since this one started."""
        return site in self.hops

    def on_arrival(self, sender: SiteId, arrival: Arrival) -> None:
        """UPDATE-CLUSTER, with the cost bit."""
        self.hops[sender] = arrival.hops
        if self._source == "cost-bit":
            self._put(sender, inside=arrival.cost == 0)

    def on_timestamps(self, sender: SiteId, control: Control) -> None:
        """UPDATE-CLUSTER, with the transit time: half of a round trip, so that clocks need not agree."""
        if self._source != "transit-time":
            return
        now = self._core.now
        self._last[sender] = (control.sent_at, now)
        if not control.echo_at:
            return
        round_trip = now - control.echo_at - control.held_seconds
        # Negative: one of the clocks was set meanwhile. A sample too long from the same cause ages away.
        if round_trip < 0:
            return
        transits = self._transits.setdefault(sender, deque(maxlen=SAMPLES))
        transits.append(round_trip / 2)
        self._put(sender, inside=min(transits) < self._core.options.transit_seconds)

    @property
    def measures(self) -> bool:
        """Whether control packets carry times, which differ for each receiver."""
        return self._source == "transit-time"

    def times_for(self, site: SiteId) -> tuple[float, float, float]:
        """`sent_at`, `echo_at` and `held_seconds` of a packet to a host. 0 means none: a clock at 0 is a bit late."""
        now = self._core.now
        echo_at, came = self._last.get(site, (0.0, now))
        return now or 1e-9, echo_at, now - came

    def distance(self, site: SiteId) -> float:
        """How far away a host is, in seconds if they are measured and in servers otherwise; to choose among equals."""
        transits = self._transits.get(site)
        return min(transits) if transits else float(self.hops.get(site, 0))

    def _put(self, site: SiteId, inside: bool) -> None:
        if inside != (site in self.members):
            if inside:
                self.members.add(site)
                self._core.branch("cluster-grew")
            else:
                self.members.discard(site)
                self._core.branch("cluster-shrank")
