"""Parts that multicast nothing: leases and the failure detector. A request of the application means something else
here."""

from __future__ import annotations

from ordercast.core import Context, Contract, Options, Protocol
from ordercast.core.events import MulticastRequested, Started
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.parts.lease import Lease
from ordercast.protocols.parts.quorum import Quorum


class LeaseOptions(Options, frozen=True):
    """How far apart the clocks may run."""

    drift_max: float = 0.3


class LeaseAlone(Protocol):
    """The first request of a site asks for the lease, the next one gives it back, and so on."""

    contract = Contract(
        name="lease",
        title="leases alone",
        paper="Gray and Cheriton 1989",
        guarantees=(),
        faults=("crash", "loss", "delay", "skew"),
        crash="the lease of a site that is down runs out",
        branches=Lease.branches,
        options=LeaseOptions,
    )
    parts = (Lease,)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.wanted = False
        drift_max = context.options.drift_max if isinstance(context.options, LeaseOptions) else 0.0
        self.lease = self.attach(Lease(self, Quorum([context.sites]), lease_seconds=1.0, drift_max=drift_max))

    def on_started(self, event: Started) -> None:
        self.lease.start()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.wanted = not self.wanted
        if self.wanted:
            self.lease.acquire()
        else:
            self.lease.release()


class DetectorAlone(Protocol):
    """Watches everybody, all the time."""

    contract = Contract(
        name="detector",
        title="the failure detector alone",
        paper="Chandra and Toueg 1996",
        guarantees=(),
        faults=("crash", "loss", "delay"),
        crash="a site that is down is suspected in the end, one that is up is not",
        branches=FailureDetector.branches,
    )
    parts = (FailureDetector,)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.detector = self.attach(
            FailureDetector(
                self,
                ping_seconds=0.1,
                suspicion_seconds=0.2,
                suspicion_seconds_max=1.6,
                on_suspected=lambda site: None,
                calm_ticks=4,
            )
        )

    def on_started(self, event: Started) -> None:
        for site in self.context.sites:
            if site != self.site:
                self.detector.watch(site)
