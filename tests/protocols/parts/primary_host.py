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
    Record,
    SiteId,
    Tuning,
    no_options,
)
from ordercast.core.effects import Deliver, Replay
from ordercast.core.events import Arrival, MulticastRequested
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.parts.link import Letter, Link
from ordercast.protocols.parts.multicast import ReliableMulticast
from ordercast.protocols.parts.primary import Primary
from ordercast.protocols.parts.primary_packets import Place, Resumption, Started
from tests.protocols.parts.hosts import Answer, Got, Host, HostOptions, options_of_hosts


class Given(Letter, frozen=True):
    """Primary -> all: a place."""

    epoch: int
    place: int
    message: MessageId

    def served(self) -> tuple[MessageId, ...]:
        return (self.message,)


class Took(Letter, frozen=True):
    """Site -> all: so many places I have accepted in this epoch."""

    background = True
    epoch: int
    count: int


class Placed(Record, frozen=True):
    """A place that was given or accepted."""

    message: MessageId


class Handed(Record, frozen=True):
    """A message that was delivered."""

    message: MessageId


class PrimaryHost(Host):
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
    packets = (*Host.packets, Given, Took)
    records = (*Host.records, Placed, Handed)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.places: list[MessageId] = []
        self.early: dict[tuple[int, int], MessageId] = {}
        self.took: dict[SiteId, tuple[int, int]] = {}
        self.handed: set[MessageId] = set()
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

    # ------------------------------------------------------------------ places
    def go_on(self) -> None:
        if self.primary.leads:
            for message in self.got:
                if message not in self.places:
                    self.accept(message)
                    given = Given(self.link.next, self.primary.started, len(self.places), message)
                    self.link.post(self.others, given)
        elif self.primary.may_speak:
            before = len(self.places)
            while following := self.early.get((self.primary.started, len(self.places) + 1)):
                if following not in self.got:
                    break
                self.accept(following)
            if len(self.places) > before:
                self.tell(self.others)
        if self.primary.may_speak:
            self.took[self.site] = (self.primary.started, len(self.places))
        self.hand_over()

    def accept(self, message: MessageId) -> None:
        self.append(Placed(message))
        self.places.append(message)

    def tell(self, to: tuple[SiteId, ...]) -> None:
        self.link.post(to, Took(self.link.next, self.primary.started, len(self.places)))

    def on_given(self, sender: SiteId, packet: Given, arrival: Arrival) -> None:
        self.primary.hear(sender, packet.epoch)
        self.early[packet.epoch, packet.place] = packet.message
        self.note_took(sender, packet.epoch, packet.place)
        self.go_on()
        self.link.acknowledge(sender, packet)

    def on_took(self, sender: SiteId, packet: Took, arrival: Arrival) -> None:
        self.primary.hear(sender, packet.epoch)
        self.note_took(sender, packet.epoch, packet.count)
        self.hand_over()
        self.link.acknowledge(sender, packet)
        # What the primary had given before its crash, or our estrangement, it does not give again.
        if sender == self.primary.primary_of(packet.epoch) and packet.count > len(self.places):
            self.ask(sender)

    def note_took(self, site: SiteId, epoch: int, count: int) -> None:
        self.took[site] = max(self.took.get(site, (0, 0)), (epoch, count))

    def hand_over(self) -> None:
        """What a majority has accepted in S stays where it is."""
        counts = sorted((count for epoch, count in self.took.values() if epoch == self.primary.started), reverse=True)
        fixed = counts[self.primary.majority - 1] if len(counts) >= self.primary.majority else 0
        for message in self.places[:fixed]:
            if message not in self.handed:
                self.append(Handed(message))
                self.hand(message, Deliver)

    def hand(self, message: MessageId, effect: type[Deliver] | type[Replay]) -> None:
        self.handed.add(message)
        if self.site in self.destinations(self.got[message]):
            self.outbox.append(effect(self.got[message]))

    # ------------------------------------------------------------------ what the epochs ask
    def report(self) -> tuple[int, tuple[Place, ...], int]:
        places = tuple(Place(message, index + 1) for index, message in enumerate(self.places))
        return 0, places, len(places)

    def has_bodies(self, holder: SiteId, places: tuple[Place, ...]) -> bool:
        missing = [place.message for place in places if place.message not in self.got]
        for message in missing:
            self.multicast.want(message, (holder, *self.others))
        return not missing

    def is_needed(self) -> bool:
        return bool(self.got)

    def log_bodies(self, places: tuple[Place, ...]) -> None:
        pass

    def install(self, started: Started) -> None:
        self.places = [place.message for place in started.places]
        self.note_took(self.primary.primary_of(started.epoch), started.epoch, len(self.places))

    def on_epoch_started(self) -> None:
        self.tell(self.others)
        self.go_on()

    def resumption_for(self, site: SiteId) -> Resumption | None:
        return None

    def check_resumption(self, sender: SiteId, resumption: Resumption) -> None:
        raise NotImplementedError

    def go_behind(self, resumption: Resumption) -> None:
        raise NotImplementedError

    # ------------------------------------------------------------------ crashes
    def answer(self, site: SiteId, have: set[MessageId]) -> None:
        bodies = tuple(multicast for multicast in self.got.values() if multicast.id not in have)
        self.link.post((site,), Answer(self.link.next, bodies, ()))
        if self.primary.may_speak:
            self.tell((site,))
        self.primary.correct(site)

    def recall_got(self, record: Got) -> None:
        self.got[record.multicast.id] = record.multicast

    def recall_placed(self, record: Placed) -> None:
        self.places.append(record.message)

    def recall_handed(self, record: Handed) -> None:
        self.hand(record.message, Replay)

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
