"""The smallest protocols around the parts that multicast nothing: the failure detector and leases."""

from __future__ import annotations

from typing import cast

from ordercast.core import EVERY_FAULT, Context, Contract, Protocol, SiteId
from ordercast.core.events import Arrival, Event, Received, Started, TimerFired
from ordercast.protocols.parts.detector import FailureDetector, Ping, Pong
from ordercast.protocols.parts.lease import Lease, LeaseGrant, LeaseRelease, LeaseRequest
from ordercast.protocols.parts.quorum import Quorum
from tests.protocols.parts.hosts import HostOptions


class DetectorHost(Protocol):
    """Watches everybody, all the time."""

    contract = Contract(
        name="part-detector",
        title="the failure detector alone",
        paper="Chandra and Toueg 1996",
        guarantees=(),
        faults=EVERY_FAULT,
        crash="a site that is down is suspected in the end, one that is up is not",
        branches=FailureDetector.branches,
        options=HostOptions,
    )
    packets = FailureDetector.packets

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.suspicions: list[tuple[float, SiteId]] = []
        self.detector = FailureDetector(
            self,
            ping_seconds=0.05,
            suspicion_seconds=cast(HostOptions, context.options).suspicion_seconds,
            suspicion_seconds_max=10.0,
            on_suspected=lambda site: self.suspicions.append((self.now, site)),
        )

    def step(self, now: float, event: Event) -> None:
        if type(event) is Received:
            self.detector.heard(event.sender)
        super().step(now, event)

    def on_started(self, event: Started) -> None:
        for site in self.context.sites:
            if site != self.site:
                self.detector.watch(site)

    def on_timer_fired(self, event: TimerFired) -> None:
        self.detector.on_timeout()

    def on_ping(self, sender: SiteId, packet: Ping, arrival: Arrival) -> None:
        self.detector.on_ping(sender)

    def on_pong(self, sender: SiteId, packet: Pong, arrival: Arrival) -> None:
        """Heard already."""


class LeaseHost(Protocol):
    """Everybody wants the lease, and gives it back now and then."""

    contract = Contract(
        name="part-lease",
        title="leases alone",
        paper="Gray and Cheriton 1989",
        guarantees=(),
        faults=tuple(kind for kind in EVERY_FAULT if kind != "slow-reader"),
        crash="the lease of a site that is down runs out, and another one gets it",
        branches=Lease.branches,
        options=HostOptions,
    )
    packets = Lease.packets

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.acquired = 0
        self.lease = Lease(
            self,
            Quorum([context.sites]),
            lease_seconds=1.0,
            drift_max=cast(HostOptions, context.options).drift_max,
            on_acquired=self.on_acquired,
        )

    def on_acquired(self) -> None:
        self.acquired += 1
        self.set_timer("give-back", self.context.random.uniform(0.1, 4.0))

    def on_started(self, event: Started) -> None:
        self.lease.start()
        self.set_timer("want", self.context.random.uniform(0.0, 0.5))

    def on_timer_fired(self, event: TimerFired) -> None:
        match event.timer:
            case "want":
                self.lease.acquire()
            case "give-back":
                self.lease.release()
                self.set_timer("want", self.context.random.uniform(0.1, 2.0))
            case Lease.ASK_TIMER:
                self.lease.on_ask_timeout()
            case Lease.HOLD_TIMER:
                self.lease.on_hold_timeout()
            case Lease.GRANT_TIMER:
                self.lease.on_grant_timeout()

    def on_lease_request(self, sender: SiteId, packet: LeaseRequest, arrival: Arrival) -> None:
        self.lease.on_lease_request(sender, packet)

    def on_lease_grant(self, sender: SiteId, packet: LeaseGrant, arrival: Arrival) -> None:
        self.lease.on_lease_grant(sender, packet)

    def on_lease_release(self, sender: SiteId, packet: LeaseRelease, arrival: Arrival) -> None:
        self.lease.on_lease_release(sender, packet)
