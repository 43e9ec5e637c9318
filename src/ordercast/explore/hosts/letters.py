"""The eventually reliable link and reliable multicast, each alone: what comes is delivered as it comes."""

from __future__ import annotations

from typing import ClassVar, cast

from ordercast.core import Context, Contract, MessageId, Multicast, Options, Packet, Part, Protocol, Record, SiteId
from ordercast.core.effects import Replay
from ordercast.core.events import Arrival, MulticastRequested
from ordercast.explore.hosts.posting import PostOnce
from ordercast.protocols.parts.link import Letter, Link
from ordercast.protocols.parts.multicast import ReliableMulticast


class Sent(Record, frozen=True):
    """At the source."""

    multicast: Multicast


class Got(Record, frozen=True):
    """At a destination."""

    multicast: Multicast


class Parcel(Letter, frozen=True):
    """A message, or everything again."""

    multicasts: tuple[Multicast, ...]

    def served(self) -> tuple[MessageId, ...]:
        return tuple(multicast.id for multicast in self.multicasts)


class Again(Letter, frozen=True):
    """Send me everything again."""

    background = True


class Named(Letter, frozen=True):
    """There is a message."""

    message: MessageId

    def served(self) -> tuple[MessageId, ...]:
        return (self.message,)


class Keeps(Protocol):
    """A core that remembers what it has sent and what it has got."""

    records: ClassVar[tuple[type[Record], ...]] = (Sent, Got)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.others = tuple(site for site in context.sites if site != self.site)
        self.sent: dict[MessageId, Multicast] = {}
        self.got: dict[MessageId, Multicast] = {}

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.append(Sent(event.multicast))
        self.sent[event.multicast.id] = event.multicast
        self.begin(event.multicast)

    def begin(self, multicast: Multicast) -> None:
        """Send it to everyone."""
        raise NotImplementedError

    def keep(self, multicast: Multicast) -> None:
        """It is logged, and delivered."""
        self.append(Got(multicast))
        self.got[multicast.id] = multicast
        self.deliver(multicast)

    def recall_sent(self, record: Sent) -> None:
        """It was sent."""
        self.sent[record.multicast.id] = record.multicast

    def recall_got(self, record: Got) -> None:
        """It was delivered."""
        self.got[record.multicast.id] = record.multicast
        self.outbox.append(Replay(record.multicast))


class LinkOptions(Options, frozen=True):
    """How many unanswered letters the link keeps for a site before it is estranged."""

    letters_max: int = 2


class LinkAlone(Keeps):
    """Every message goes to everyone by letter."""

    contract = Contract(
        name="link",
        title="the eventually reliable link alone",
        paper="Rodrigues, Guerraoui, Schiper 1998, 3.1",
        guarantees=("integrity", "no-duplication", "termination"),
        faults=("crash", "loss", "delay", "duplication"),
        crash="nobody waits for anybody",
        branches=Link.branches,
        options=LinkOptions,
    )
    parts: ClassVar[tuple[type[Part], ...]] = (Link,)
    packets: ClassVar[tuple[type[Packet], ...]] = (Parcel, Again)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.link = self.attach(
            Link(
                self,
                retransmit_seconds=0.1,
                retransmit_seconds_max=0.4,
                receipt_seconds=0.03,
                letters_max=cast(LinkOptions, context.options).letters_max,
                on_behind=self.ask,
            )
        )

    def begin(self, multicast: Multicast) -> None:
        if multicast.id not in self.got:
            self.keep(multicast)
        self.link.post(self.others, Parcel(self.link.next, (multicast,)))

    def on_parcel(self, sender: SiteId, packet: Parcel, arrival: Arrival) -> None:
        """Messages come."""
        for multicast in packet.multicasts:
            if multicast.id not in self.got:
                self.keep(multicast)
        self.link.acknowledge(sender, packet)

    def ask(self, site: SiteId) -> None:
        """We have missed letters."""
        if not any(isinstance(letter, Again) for letter in self.link.unconfirmed(site)):
            self.link.post((site,), Again(self.link.next), vital=True)

    def on_again(self, sender: SiteId, packet: Again, arrival: Arrival) -> None:
        """Everything again, in one letter: more than one would be too many."""
        self.link.restore(sender)
        self.link.post((sender,), Parcel(self.link.next, tuple(self.sent.values())))
        self.link.acknowledge(sender, packet)

    def resume(self) -> None:
        if self.sent:
            self.link.post(self.others, Parcel(self.link.next, tuple(self.sent.values())))
        for multicast in self.sent.values():
            if multicast.id not in self.got:
                self.keep(multicast)


class MulticastAlone(Keeps):
    """Whoever has a message lets the others hear of it; whoever has only heard of one asks."""

    contract = Contract(
        name="multicast",
        title="reliable multicast alone",
        paper="Rodrigues, Guerraoui, Schiper 1998, 3.4",
        guarantees=("integrity", "no-duplication", "agreement"),
        faults=("crash", "loss", "delay", "duplication"),
        crash="the others have what one of them has, whatever becomes of the source",
        branches=ReliableMulticast.branches,
        minority_may_die=True,
    )
    parts: ClassVar[tuple[type[Part], ...]] = (ReliableMulticast,)
    packets: ClassVar[tuple[type[Packet], ...]] = (Named,)
    eager: ClassVar[bool] = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.link = PostOnce(self)
        self.multicast = self.attach(
            ReliableMulticast(
                self,
                self.link,
                eager=self.eager,
                want_seconds=0.05,
                destinations=lambda multicast: context.sites,
                find=self.got.get,
                on_delivered=self.keep,
                on_old=lambda sender, message: None,
            )
        )

    def begin(self, multicast: Multicast) -> None:
        self.multicast.take(self.site, multicast)
        self.multicast.multicast(multicast, self.others)

    def keep(self, multicast: Multicast) -> None:
        super().keep(multicast)
        self.tell(multicast)

    def tell(self, multicast: Multicast) -> None:
        """Let the others hear of it."""
        if not self.eager:
            self.link.post(self.others, Named(self.link.next, multicast.id))

    def on_named(self, sender: SiteId, packet: Named, arrival: Arrival) -> None:
        """We have heard of a message."""
        if packet.message not in self.got:
            self.multicast.want(packet.message, (sender,))

    def resume(self) -> None:
        for multicast in self.sent.values():
            self.begin(multicast)
        for multicast in self.got.values():
            if self.eager:
                self.multicast.relay(multicast, self.site)
            self.tell(multicast)


class EagerMulticastAlone(MulticastAlone):
    """Whoever gets a message first passes it on."""

    eager = True
