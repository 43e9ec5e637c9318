"""A wide-area network (Berket 2000): regions, a latency and a number of hops between each two of them, jitter, loss,
and multicast with TTL scope."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from ordercast.core import ChannelId, SiteId, UsageError
from ordercast.core.events import Arrival
from ordercast.sim.flight import Flight
from ordercast.sim.networks.base import EVERYONE, Network

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation
    from ordercast.sim.site.processor import Processor

LOCAL_HOPS = 1
WIDE_HOPS = 16
HOPS_MAX = 255
"""Within a region a TTL of 1 suffices; routers between regions ask for 16, as scoped multicast is configured in
practice, unless `hops` says something else."""

Matrix = Mapping[str, Mapping[str, float]]
"""Region -> region -> a number; one direction is enough."""


class WideArea(Network):
    """Sites lie in regions; `latency[r][q]` is one-way seconds, to which up to `jitter` is added at random for each
    packet. `hops[r][q]` is the TTL that a packet needs, and what its receiver sees.

    A network multicast is one packet that the routers copy. Each receiver loses it with probability `loss`; and with
    `shared_loss` the line into a region does, and nobody there gets it who is not where it comes from. Where it is
    `calm_within` regions, jitter and losses are those of the lines between them.
    """

    one_frame_for_all = True

    def __init__(
        self,
        regions: Mapping[str, tuple[SiteId, ...]],
        latency: Matrix,
        jitter: float = 0.0,
        loss: float = 0.0,
        processing: float = 0.00002,
        hops: Matrix | None = None,
        shared_loss: float = 0.0,
        calm_within: bool = False,
    ) -> None:
        super().__init__()
        if jitter < 0 or processing < 0 or not 0 <= loss < 1 or not 0 <= shared_loss < 1:
            raise UsageError(
                "jitter and processing of a wide-area network are 0 or more, loss and shared_loss are from 0 to below 1"
            )
        self._region: dict[SiteId, str] = {}
        for region, sites in regions.items():
            for site in sites:
                if site in self._region:
                    raise UsageError(f"site {site!r} is in two regions, {self._region[site]} and {region}")
                self._region[site] = region
        self._latency: dict[tuple[str, str], float] = {}
        self._hops: dict[tuple[str, str], int] = {}
        for region in regions:
            for other in regions:
                seconds = _entry(latency, region, other)
                if seconds is None:
                    raise UsageError(f"the latency matrix has no entry for {region} - {other}")
                if seconds < 0:
                    raise UsageError(f"the latency of {region} - {other} is negative")
                self._latency[region, other] = seconds
                count = _entry(hops or {}, region, other)
                if count is None:
                    count = LOCAL_HOPS if region == other else WIDE_HOPS
                if not 1 <= count <= HOPS_MAX:
                    raise UsageError(f"from {region} to {other} it is 1 to {HOPS_MAX} hops, not {count}")
                self._hops[region, other] = int(count)
        self._jitter = jitter
        self._calm_within = calm_within
        self._loss = loss
        self._shared_loss = shared_loss
        self.loses = loss > 0 or shared_loss > 0
        self._arrivals: dict[tuple[ChannelId | None, int], Arrival] = {}
        self._drawn_for = 0
        """The packet of which it was last drawn which regions lose it."""
        self._lost_in: dict[str, bool] = {}
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
        here, there = self._region[sender], self._region[receiver]
        jitter = 0.0 if self._calm_within and here == there else self._jitter * self._random()
        return self._latency[here, there] + jitter

    def latency_max(self) -> float:
        """The largest entry and all of the jitter."""
        return max(self._latency.values(), default=0.0) + self._jitter

    def processing_seconds(self) -> float:
        """What one packet costs the sender."""
        return self._processing

    def arrival(self, sender: SiteId, receiver: SiteId, channel: ChannelId | None) -> Arrival:
        """The receiver sees how far away the sender is."""
        key = channel, self._hops[self._region[sender], self._region[receiver]]
        arrival = self._arrivals.get(key)
        if arrival is None:
            arrival = self._arrivals[key] = Arrival(channel, hops=key[1])
        return arrival

    def in_scope(self, sender: SiteId, receiver: SiteId, ttl: int | None) -> bool:
        """A small TTL stays in the region, or reaches those near it."""
        return ttl is None or self._hops[self._region[sender], self._region[receiver]] <= ttl

    def scope(self, sender: SiteId, ttl: int | None) -> Hashable:
        """The same for all sites of a region."""
        return EVERYONE if ttl is None else (self._region[sender], ttl)

    def carry(self, flight: Flight, time: float) -> None:
        """The network itself loses some, before any fault rule is asked."""
        if self._shared_loss and self._is_lost_by_region(flight):
            self.lose(flight, time, "loss")
            return
        spared = self._calm_within and self._region[flight.receiver.place] == self._region[flight.origin]
        if self._loss and not spared and self._random() < self._loss:
            self.lose(flight, time, "loss")
            return
        super().carry(flight, time)

    def _is_lost_by_region(self, flight: Flight) -> bool:
        """One draw for each packet and region that it comes to from outside."""
        region = self._region[flight.receiver.place]
        if region == self._region[flight.origin]:
            return False
        if flight.number != self._drawn_for:
            self._drawn_for = flight.number
            self._lost_in.clear()
        lost = self._lost_in.get(region)
        if lost is None:
            lost = self._lost_in[region] = self._random() < self._shared_loss
        return lost


def _entry(matrix: Matrix, region: str, other: str) -> float | None:
    """The number for two regions, in whichever direction it is given."""
    return matrix.get(region, {}).get(other, matrix.get(other, {}).get(region))
