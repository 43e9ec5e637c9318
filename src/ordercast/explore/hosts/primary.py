"""The epochs of a cell: all sites are one, the primary gives places, and what a majority has accepted is delivered in
the order of places. Nothing is forgotten."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, cast

from ordercast.core import Context, Contract, MessageId, Multicast, Part, Protocol, Record, SiteId
from ordercast.core.effects import Deliver, Replay
from ordercast.core.events import Arrival, MulticastRequested
from ordercast.core.packets import Packet
from ordercast.explore.hosts.letters import Got
from ordercast.explore.hosts.posting import PostOnce, Suspicions
from ordercast.protocols.parts.link import Letter
from ordercast.protocols.parts.primary import Primary
from ordercast.protocols.parts.primary_packets import Place, Resumption, Started


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


class Places(Protocol):
    """A core that orders by one primary at a time. How messages come to everyone is a subclass's business."""

    place_packets: ClassVar[tuple[type[Packet], ...]] = (Given, Took)
    place_records: ClassVar[tuple[type[Record], ...]] = (Placed, Handed)
    link: Any
    """What carries letters: any `Posting`."""
    primary: Primary

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.others = tuple(site for site in context.sites if site != self.site)
        self.got: dict[MessageId, Multicast] = {}
        self.places: list[MessageId] = []
        self.early: dict[tuple[int, int], MessageId] = {}
        self.took: dict[SiteId, tuple[int, int]] = {}
        self.handed: set[MessageId] = set()

    @abstractmethod
    def ask(self, site: SiteId) -> None:
        """Ask a site for everything that it has given."""

    def go_on(self) -> None:
        """Give places, or accept what was given."""
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
        """It stands at the next place."""
        self.append(Placed(message))
        self.places.append(message)

    def tell(self, to: tuple[SiteId, ...]) -> None:
        """Say how far we have come."""
        self.link.post(to, Took(self.link.next, self.primary.started, len(self.places)))

    def on_given(self, sender: SiteId, packet: Given, arrival: Arrival) -> None:
        """The primary gives a place."""
        self.primary.hear(sender, packet.epoch)
        self.early[packet.epoch, packet.place] = packet.message
        self.note_took(sender, packet.epoch, packet.place)
        self.go_on()
        self.link.acknowledge(sender, packet)

    def on_took(self, sender: SiteId, packet: Took, arrival: Arrival) -> None:
        """A site has accepted."""
        self.primary.hear(sender, packet.epoch)
        self.note_took(sender, packet.epoch, packet.count)
        self.hand_over()
        is_current = packet.epoch >= self.primary.started and sender == self.primary.primary_of(packet.epoch)
        if is_current and packet.count > len(self.places):
            # What the primary had given before its crash, or our estrangement, it does not give again. Its word is not
            # confirmed, and comes again: the answer may be lost.
            self.ask(sender)
        else:
            self.link.acknowledge(sender, packet)

    def note_took(self, site: SiteId, epoch: int, count: int) -> None:
        """So far a site has come."""
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
        """Deliver it, where we are a destination."""
        self.handed.add(message)
        if self.site in self.context.members(self.got[message].groups):
            self.outbox.append(effect(self.got[message]))

    # ------------------------------------------------------------------ what the epochs ask
    def report(self) -> tuple[int, tuple[Place, ...], int]:
        """All places."""
        places = tuple(Place(message, index + 1) for index, message in enumerate(self.places))
        return 0, places, len(places)

    def is_needed(self) -> bool:
        """Whoever has a message wants a place for it, or has one that others may lack."""
        return bool(self.got)

    def log_bodies(self, places: tuple[Place, ...]) -> None:
        """What is here is in the log."""

    def install(self, started: Started) -> None:
        """An epoch begins with these places."""
        self.places = [place.message for place in started.places]
        self.note_took(self.primary.primary_of(started.epoch), started.epoch, len(self.places))

    def on_epoch_started(self) -> None:
        """Say where we stand, and go on."""
        self.tell(self.others)
        self.go_on()

    def resumption_for(self, site: SiteId) -> Resumption | None:
        """Nothing is ever forgotten."""
        return None

    def check_resumption(self, sender: SiteId, resumption: Resumption) -> None:
        """Nobody has forgotten anything."""
        raise NotImplementedError

    def go_behind(self, resumption: Resumption) -> None:
        """The same."""
        raise NotImplementedError

    def recall_placed(self, record: Placed) -> None:
        """A place was accepted."""
        self.places.append(record.message)

    def recall_handed(self, record: Handed) -> None:
        """A message was delivered."""
        self.hand(record.message, Replay)


class Body(Letter, frozen=True):
    """Source -> all: a message."""

    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Question(Letter, frozen=True):
    """What have you given?"""

    background = True


class PrimaryAlone(Places):
    """Every message goes to everyone once; whoever waits for the primary may suspect it at any time."""

    contract = Contract(
        name="primary",
        title="the epochs of one cell alone",
        paper="Gotsman, Lefort, Chockler 2019",
        guarantees=("integrity", "no-duplication", "multiple-source-order", "uniform-agreement", "termination"),
        faults=("crash", "loss", "delay"),
        crash="a majority goes on",
        branches=Primary.branches,
    )
    parts: ClassVar[tuple[type[Part], ...]] = (Primary,)
    packets = (*Places.place_packets, Body, Question)
    records = (*Places.place_records, Got)
    timers = ("suspect",)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.link = PostOnce(self)
        self.suspicions = self.attach(Suspicions(self))
        detector = cast(Any, self.suspicions)
        self.primary = self.attach(Primary(self, context.sites, detector, self, retry_seconds=0.5))

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.take(event.multicast)
        self.link.post(self.others, Body(self.link.next, event.multicast))

    def on_body(self, sender: SiteId, packet: Body, arrival: Arrival) -> None:
        """A message comes."""
        if packet.multicast.id not in self.got:
            self.take(packet.multicast)

    def take(self, multicast: Multicast) -> None:
        """It is here, and wants a place."""
        self.append(Got(multicast))
        self.got[multicast.id] = multicast
        self.primary.on_bodies()
        self.go_on()

    def has_bodies(self, holder: SiteId, places: tuple[Place, ...]) -> bool:
        """Whether every message is here; if not, the holder is asked."""
        missing = any(place.message not in self.got for place in places)
        if missing:
            self.ask(holder)
        return not missing

    def ask(self, site: SiteId) -> None:
        self.link.post((site,), Question(self.link.next))

    def on_question(self, sender: SiteId, packet: Question, arrival: Arrival) -> None:
        """Say everything again, the primary with a start as well. (Only with a start: to whoever has its places already
        that is no news, and it never hears how far the primary has come.)"""
        for multicast in self.got.values():
            self.link.post((sender,), Body(self.link.next, multicast))
        if self.primary.may_speak:
            self.tell((sender,))
        self.primary.correct(sender)

    def on_suspect_timeout(self) -> None:
        """The primary is silent, or seems to be."""
        self.suspicions.suspect_all(self.primary.on_suspected)

    def recall_got(self, record: Got) -> None:
        """A message was here."""
        self.got[record.multicast.id] = record.multicast

    def resume(self) -> None:
        for multicast in self.got.values():
            self.link.post(self.others, Body(self.link.next, multicast))
        for site in self.others:
            self.ask(site)
        if self.primary.may_speak:
            self.tell(self.others)
        self.go_on()
