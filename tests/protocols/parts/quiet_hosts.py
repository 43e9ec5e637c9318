"""The smallest protocols around the parts that multicast nothing: the failure detector and leases."""

from __future__ import annotations

from typing import cast

from ordercast.core import EVERY_FAULT, Context, Contract, Protocol, SiteId
from ordercast.core.events import Started
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.parts.lease import Lease
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
    parts = (FailureDetector,)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.suspicions: list[tuple[float, SiteId]] = []
        self.detector = self.attach(
            FailureDetector(
                self,
                ping_seconds=0.05,
                suspicion_seconds=cast(HostOptions, context.options).suspicion_seconds,
                suspicion_seconds_max=10.0,
                on_suspected=lambda site: self.suspicions.append((self.now, site)),
            )
        )

    def on_started(self, event: Started) -> None:
        for site in self.context.sites:
            if site != self.site:
                self.detector.watch(site)


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
    parts = (Lease,)
    timers = ("acquire", "give-back")

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.acquired = 0
        self.lease = self.attach(
            Lease(
                self,
                Quorum([context.sites]),
                lease_seconds=1.0,
                drift_max=cast(HostOptions, context.options).drift_max,
                on_acquired=self.on_acquired,
            )
        )

    def on_acquired(self) -> None:
        self.acquired += 1
        self.set_timer("give-back", self.context.random.uniform(0.1, 4.0))

    def on_started(self, event: Started) -> None:
        self.lease.start()
        self.set_timer("acquire", self.context.random.uniform(0.0, 0.5))

    def on_acquire_timeout(self) -> None:
        self.lease.acquire()

    def on_give_back_timeout(self) -> None:
        self.lease.release()
        self.set_timer("acquire", self.context.random.uniform(0.1, 2.0))
