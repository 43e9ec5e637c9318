"""A wide-area network (Berket 2000): regions, a latency between each two of them, jitter, loss, and multicast with
TTL scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ordercast.core import ChannelId, SiteId, UsageError
from ordercast.core.events import Arrival
from ordercast.sim.flight import Flight
from ordercast.sim.networks.base import Network

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation
    from ordercast.sim.site.processor import Processor

LOCAL_HOPS = 1
WIDE_HOPS = 16
"""Within a region a TTL of 1 suffices; routers between regions ask for 16, as scoped multicast is configured in
practice."""


class WideArea(Network):
    """Sites lie in regions; `latency[r][q]` is one-way seconds, to which up to `jitter` is added at random for each
    packet.

    A network multicast is one packet that the routers copy.
    """

    one_frame_for_all = True

    def __init__(
        self,
        regions: Mapping[str, tuple[SiteId, ...]],
        latency: Mapping[str, Mapping[str, float]],
        jitter: float = 0.0,
        loss: float = 0.0,
        processing: float = 0.00002,
    ) -> None:
        super().__init__()
        if jitter < 0 or processing < 0 or not 0 <= loss < 1:
            raise UsageError("jitter and processing of a wide-area network are 0 or more, loss is from 0 to below 1")
        self._region: dict[SiteId, str] = {}
        for region, sites in regions.items():
            for site in sites:
                if site in self._region:
                    raise UsageError(f"site {site!r} is in two regions, {self._region[site]} and {region}")
                self._region[site] = region
        self._latency: dict[tuple[str, str], float] = {}
        for region in regions:
            for other in regions:
                seconds = latency.get(region, {}).get(other, latency.get(other, {}).get(region))
                if seconds is None:
                    raise UsageError(f"the latency matrix has no entry for {region} - {other}")
                if seconds < 0:
                    raise UsageError(f"the latency of {region} - {other} is negative")
                self._latency[region, other] = seconds
        self._jitter = jitter
        self._loss = loss
        self.loses = loss > 0
        self._processing = processing

    def attach(self, simulation: Simulation) -> None:
        """Check that every site lies somewhere, and get a random stream."""
        super().attach(simulation)
        self._random = simulation.random("network").random
        for site in simulation.sites:
            if site not in self._region:
                raise UsageError(f"site {site!r} is in no region of the wide-area network")

    def depart(self, sender: Processor) -> float:
        """The sender is busy for its processing time, once per packet."""
        sender.cursor += self._processing
        return sender.cursor

    def latency(self, sender: SiteId, receiver: SiteId) -> float:
        """The matrix's entry and some jitter."""
        return self._latency[self._region[sender], self._region[receiver]] + self._jitter * self._random()

    def latency_max(self) -> float:
        """The largest entry and all of the jitter."""
        return max(self._latency.values(), default=0.0) + self._jitter

    def processing_seconds(self) -> float:
        """What one packet costs the sender."""
        return self._processing

    def arrival(self, sender: SiteId, receiver: SiteId, channel: ChannelId | None) -> Arrival:
        """The receiver sees how far away the sender is."""
        return Arrival(channel, hops=self._hops(sender, receiver))

    def in_scope(self, sender: SiteId, receiver: SiteId, ttl: int | None) -> bool:
        """A small TTL stays within the region."""
        return ttl is None or self._hops(sender, receiver) <= ttl

    def carry(self, flight: Flight, time: float) -> None:
        """The network itself loses some, before any fault rule is asked."""
        if self._loss and self._random() < self._loss:
            self.lose(flight, time, "loss")
            return
        super().carry(flight, time)

    def _hops(self, sender: SiteId, receiver: SiteId) -> int:
        return LOCAL_HOPS if self._region[sender] == self._region[receiver] else WIDE_HOPS
