"""The smallest protocol around the epochs of a cell: all sites are one, the primary gives places, and what a majority
has accepted is delivered in the order of places. It forgets nothing."""

from __future__ import annotations

from ordercast.core import (
    EVERY_FAULT,
    TOTAL_ORDER,
    Arrangement,
    Context,
    Contract,
    MessageId,
    Multicast,
    SiteId,
    Tuning,
    no_options,
)
from ordercast.core.events import MulticastRequested
from ordercast.explore.hosts.primary import Places
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.parts.link import Link
from ordercast.protocols.parts.multicast import ReliableMulticast
from ordercast.protocols.parts.primary import Primary
from ordercast.protocols.parts.primary_packets import Place
from tests.protocols.parts.hosts import Answer, Got, Host, HostOptions, options_of_hosts


class PrimaryHost(Host, Places):
    """Total order by one primary at a time."""

    contract = Contract(
        name="part-primary",
        title="the epochs of one cell alone",
        paper="Gotsman, Lefort, Chockler 2019",
        guarantees=tuple(name for name in TOTAL_ORDER if name != "source-order"),
        faults=EVERY_FAULT,
        crash="a majority goes on",
        branches=(
            *Link.branches,
            *FailureDetector.branches,
            *(branch for branch in Primary.branches if branch not in ("report-held", "start-held")),
        ),
        options=HostOptions,
        minority_may_die=True,
    )
    arrangement = Arrangement(
        order="total",
        crash="a majority goes on",
        campaign=Tuning(options=options_of_hosts, settle=30.0),
        live=no_options,
    )
    parts = (*Host.parts, ReliableMulticast, FailureDetector, Primary)
    packets = (*Host.packets, *Places.place_packets)
    records = (*Host.records, *Places.place_records)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.detector = self.attach(
            FailureDetector(
                self,
                ping_seconds=0.1,
                suspicion_seconds=self.options.suspicion_seconds,
                suspicion_seconds_max=10.0,
                on_suspected=lambda site: self.primary.on_suspected(site),
            )
        )
        self.multicast = self.attach(
            ReliableMulticast(
                self,
                self.link,
                eager=True,
                want_seconds=0.05,
                destinations=lambda multicast: context.sites,
                find=self.got.get,
                on_delivered=self.on_delivered,
                on_old=lambda sender, message: None,
            )
        )
        self.primary = self.attach(Primary(self, context.sites, self.detector, self, retry_seconds=0.1))

    @property
    def ordering_site(self) -> SiteId:
        """Whom the epoch belongs to."""
        return self.primary.primary_of(self.primary.promised)

    # ------------------------------------------------------------------ messages
    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.append(Got(event.multicast))
        self.got[event.multicast.id] = event.multicast
        self.multicast.multicast(event.multicast, self.others)
        self.go_on()

    def take(self, sender: SiteId, multicast: Multicast) -> None:
        self.multicast.take(sender, multicast)

    def on_delivered(self, multicast: Multicast) -> None:
        self.append(Got(multicast))
        self.got[multicast.id] = multicast
        self.primary.on_bodies()
        self.go_on()

    # ------------------------------------------------------------------ what the epochs ask
    def has_bodies(self, holder: SiteId, places: tuple[Place, ...]) -> bool:
        missing = [place.message for place in places if place.message not in self.got]
        for message in missing:
            self.multicast.want(message, (holder, *self.others))
        return not missing

    # ------------------------------------------------------------------ crashes
    def answer(self, site: SiteId, have: set[MessageId]) -> None:
        bodies = tuple(multicast for multicast in self.got.values() if multicast.id not in have)
        self.link.post((site,), Answer(self.link.next, bodies, ()))
        if self.primary.may_speak:
            self.tell((site,))
        self.primary.correct(site)

    def recall_got(self, record: Got) -> None:
        self.got[record.multicast.id] = record.multicast

    def resume(self) -> None:
        for multicast in self.got.values():
            self.multicast.relay(multicast, self.site)
            if multicast.id.source == self.site:
                self.multicast.multicast(multicast, self.others)
        for site in self.others:
            self.ask(site)
        if self.primary.may_speak:
            self.tell(self.others)
        self.go_on()
