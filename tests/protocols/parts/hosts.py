"""The smallest protocols around each part, so that campaigns and mutants can try it alone."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import msgspec

from ordercast.core import (
    EVERY_FAULT,
    TOTAL_ORDER,
    Arrangement,
    Context,
    Contract,
    MessageId,
    Multicast,
    Options,
    Packet,
    Part,
    Protocol,
    Record,
    SiteId,
    Situation,
    Tuning,
    no_options,
)
from ordercast.core.effects import Deliver, Replay
from ordercast.core.events import Arrival, MulticastRequested
from ordercast.protocols.parts.consensus import Consensus
from ordercast.protocols.parts.consensus_packets import Estimate, Propose, Value
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.parts.link import Letter, Link
from ordercast.protocols.parts.multicast import ReliableMulticast
from ordercast.protocols.parts.quorum import Quorum

RELIABLE = ("integrity", "no-duplication", "uniform-agreement", "termination")


class HostOptions(Options, frozen=True):
    """What a campaign varies."""

    letters_max: int = 64
    eager: bool = False
    suspicion_seconds: float = 0.3
    drift_max: float = 0.3


class Parcel(Letter, frozen=True):
    """A message."""

    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Named(Letter, frozen=True):
    """There is a message."""

    message: MessageId

    def served(self) -> tuple[MessageId, ...]:
        return (self.message,)


class Ask(Letter, frozen=True):
    """Tell me everything; this I have."""

    background = True
    incarnation: int
    have: tuple[MessageId, ...]


class Answer(Letter, frozen=True):
    """Everything."""

    bodies: tuple[Multicast, ...]
    decisions: tuple[tuple[tuple[int, ...], Value], ...]

    def served(self) -> tuple[MessageId, ...]:
        return tuple(multicast.id for multicast in self.bodies)


class Sent(Record, frozen=True):
    """At the source."""

    multicast: Multicast


class Got(Record, frozen=True):
    """At a destination."""

    multicast: Multicast


class Host(Protocol):
    """A core with a link, that knows what it has sent and what it has got, and forgets nothing."""

    parts: ClassVar[tuple[type[Part], ...]] = (Link,)
    packets: ClassVar[tuple[type[Packet], ...]] = (Ask, Answer)
    records: ClassVar[tuple[type[Record], ...]] = (Sent, Got)
    checkpoint_records = 1 << 30
    contract: ClassVar[Contract]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(HostOptions, context.options)
        self.others = tuple(site for site in context.sites if site != self.site)
        self.sent: dict[MessageId, Multicast] = {}
        self.got: dict[MessageId, Multicast] = {}
        self._incarnations: dict[SiteId, int] = {}
        self.link = self.attach(
            Link(
                self,
                retransmit_seconds=0.1,
                retransmit_seconds_max=0.5,
                receipt_seconds=0.03,
                letters_max=self.options.letters_max,
                on_behind=self.ask,
            )
        )

    def destinations(self, multicast: Multicast) -> tuple[SiteId, ...]:
        return self.context.members(multicast.groups)

    def find(self, message: MessageId) -> Multicast | None:
        return self.got.get(message) or self.sent.get(message)

    def ask(self, site: SiteId) -> None:
        if not any(isinstance(letter, Ask) for letter in self.link.unconfirmed(site)):
            have = (*self.got, *self.sent)
            self.link.post((site,), Ask(self.link.next, self.context.incarnation, have), vital=True)

    def on_ask(self, sender: SiteId, packet: Ask, arrival: Arrival) -> None:
        self.link.restore(sender)
        if packet.incarnation > self._incarnations.get(sender, 0):
            self._incarnations[sender] = packet.incarnation
            self.ask(sender)
        self.answer(sender, set(packet.have))
        self.link.acknowledge(sender, packet)

    def answer(self, site: SiteId, have: set[MessageId]) -> None:
        known = {**self.sent, **self.got}
        bodies = tuple(m for m in known.values() if site in self.destinations(m) and m.id not in have)
        self.link.post((site,), Answer(self.link.next, bodies, self.decisions()))

    def decisions(self) -> tuple[tuple[tuple[int, ...], Value], ...]:
        return ()

    def on_answer(self, sender: SiteId, packet: Answer, arrival: Arrival) -> None:
        for multicast in packet.bodies:
            self.take(sender, multicast)
        self.link.acknowledge(sender, packet)

    def take(self, sender: SiteId, multicast: Multicast) -> None:
        raise NotImplementedError

    def recall_sent(self, record: Sent) -> None:
        self.sent[record.multicast.id] = record.multicast

    def recall_got(self, record: Got) -> None:
        self.got[record.multicast.id] = record.multicast
        self.outbox.append(Replay(record.multicast))


# ---------------------------------------------------------------------- the link
class LinkHost(Host):
    """Every message goes to its destinations by letter, and is delivered as it comes."""

    contract = Contract(
        name="part-link",
        title="the eventually reliable link alone",
        paper="Rodrigues, Guerraoui, Schiper 1998, 3.1",
        guarantees=RELIABLE,
        faults=EVERY_FAULT,
        crash="nobody waits for anybody",
        branches=Link.branches,
        options=HostOptions,
    )
    packets = (*Host.packets, Parcel)

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        multicast = event.multicast
        self.append(Sent(multicast))
        self.sent[multicast.id] = multicast
        self.post(multicast)
        if self.site in self.destinations(multicast):
            self.take(self.site, multicast)

    def post(self, multicast: Multicast) -> None:
        others = tuple(site for site in self.destinations(multicast) if site != self.site)
        self.link.post(others, Parcel(self.link.next, multicast))

    def on_parcel(self, sender: SiteId, packet: Parcel, arrival: Arrival) -> None:
        self.take(sender, packet.multicast)
        self.link.acknowledge(sender, packet)

    def take(self, sender: SiteId, multicast: Multicast) -> None:
        if multicast.id not in self.got:
            self.append(Got(multicast))
            self.got[multicast.id] = multicast
            self.deliver(multicast)

    def resume(self) -> None:
        for multicast in self.sent.values():
            self.post(multicast)
            if self.site in self.destinations(multicast):
                self.take(self.site, multicast)
        for site in self.others:
            self.ask(site)


# ---------------------------------------------------------------------- reliable multicast
class MulticastHost(Host):
    """Every message is R-multicast, and delivered when it is R-delivered. Sources that are in no group may die."""

    contract = Contract(
        name="part-multicast",
        title="reliable multicast alone",
        paper="Rodrigues, Guerraoui, Schiper 1998, 3.4",
        guarantees=RELIABLE,
        faults=EVERY_FAULT,
        crash="the others have what one of them has, whatever becomes of the source",
        branches=(*Link.branches, "wanted"),
        options=HostOptions,
        minority_may_die=True,
    )
    parts = (*Host.parts, ReliableMulticast)
    packets = (*Host.packets, Named)
    eager: ClassVar[bool] = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.multicast = self.attach(
            ReliableMulticast(
                self,
                self.link,
                eager=self.eager,
                want_seconds=0.05,
                destinations=self.destinations,
                find=self.got.get,
                on_delivered=self.on_delivered,
                on_old=lambda sender, message: None,
            )
        )

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        multicast = event.multicast
        self.append(Sent(multicast))
        self.sent[multicast.id] = multicast
        self.begin(multicast)

    def begin(self, multicast: Multicast) -> None:
        if self.site in self.destinations(multicast):
            self.multicast.take(self.site, multicast)
        self.multicast.multicast(multicast, tuple(s for s in self.destinations(multicast) if s != self.site))

    def on_delivered(self, multicast: Multicast) -> None:
        self.append(Got(multicast))
        self.got[multicast.id] = multicast
        self.tell(multicast)
        self.deliver(multicast)

    def tell(self, multicast: Multicast) -> None:
        if not self.eager:
            others = tuple(site for site in self.destinations(multicast) if site != self.site)
            self.link.post(others, Named(self.link.next, multicast.id))

    def on_named(self, sender: SiteId, packet: Named, arrival: Arrival) -> None:
        if packet.message in self.got:
            self.link.acknowledge(sender, packet)
        else:
            self.multicast.want(packet.message, (sender,))

    def take(self, sender: SiteId, multicast: Multicast) -> None:
        self.multicast.take(sender, multicast)

    def resume(self) -> None:
        for multicast in self.sent.values():
            self.begin(multicast)
        for multicast in self.got.values():
            if self.eager:
                self.multicast.relay(multicast, self.site)
            self.tell(multicast)


class EagerMulticastHost(MulticastHost):
    """The same where everyone passes on what it gets."""

    contract = msgspec.structs.replace(
        MulticastHost.contract, name="part-eager-multicast", branches=(*Link.branches, "relayed")
    )
    eager = True


# ---------------------------------------------------------------------- consensus
class ConsensusHost(Host):
    """Atomic broadcast by a sequence of consensus (Chandra and Toueg 1996), which forgets nothing."""

    contract = Contract(
        name="part-consensus",
        title="uniform consensus alone: one after the other orders what was R-delivered",
        paper="Chandra and Toueg 1996",
        guarantees=tuple(name for name in TOTAL_ORDER if name != "source-order"),
        faults=EVERY_FAULT,
        crash="a majority goes on",
        branches=(*Link.branches, *FailureDetector.branches, *Consensus.branches),
        options=HostOptions,
        minority_may_die=True,
    )
    parts = (*Host.parts, ReliableMulticast, FailureDetector, Consensus)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pending: dict[MessageId, Multicast] = {}
        self.next = 1
        self.next_delivered = 1
        self.decided: dict[int, Value] = {}
        self.delivered: set[MessageId] = set()
        # Until the log is read.
        self.effect: type[Deliver] | type[Replay] = Replay if context.incarnation else Deliver
        quorum = Quorum([context.sites])
        self.detector = self.attach(
            FailureDetector(
                self,
                ping_seconds=0.1,
                suspicion_seconds=self.options.suspicion_seconds,
                suspicion_seconds_max=10.0,
                on_suspected=lambda site: self.consensus.on_suspected(site),
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
        self.consensus = self.attach(
            Consensus(
                self,
                self.link,
                self.detector,
                eager=self.options.eager,
                participants=lambda name: context.sites,
                quorum=lambda name: quorum,
                estimate=lambda name: self.estimate(),
                on_decided=self.on_value,
                on_recalled=self.recall_value,
                is_over=lambda name: name[0] in self.decided,
            )
        )

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.on_delivered(event.multicast)
        self.multicast.multicast(event.multicast, self.others)

    def take(self, sender: SiteId, multicast: Multicast) -> None:
        self.multicast.take(sender, multicast)

    def answer(self, site: SiteId, have: set[MessageId]) -> None:
        bodies = tuple(m for m in self.got.values() if m.id not in have)
        self.link.post((site,), Answer(self.link.next, bodies, self.decisions()))
        self.consensus.resume_with(site)

    def decisions(self) -> tuple[tuple[tuple[int, ...], Value], ...]:
        return tuple(((number,), value) for number, value in self.decided.items())

    def on_answer(self, sender: SiteId, packet: Answer, arrival: Arrival) -> None:
        for name, value in packet.decisions:
            self.consensus.learn(name, value)
        super().on_answer(sender, packet, arrival)

    def on_delivered(self, multicast: Multicast) -> None:
        self.append(Got(multicast))
        self.note_got(multicast)
        self.hand_over()
        self.propose()

    def note_got(self, multicast: Multicast) -> None:
        self.got[multicast.id] = multicast
        if not any(multicast.id in value.messages() for value in self.decided.values()):
            self.pending[multicast.id] = multicast

    def propose(self) -> None:
        # A later one is decided: then this one is as well, or somebody has something to propose.
        later = [value for number, value in self.decided.items() if number > self.next]
        topic = next(iter(self.pending), later[0].messages()[0] if later else None)
        if topic is not None:
            self.consensus.start((self.next,), topic)

    def estimate(self) -> Value | None:
        return Value(self.site, tuple((message, 0) for message in list(self.pending)[:8])) if self.pending else None

    # Values are names of messages. Nobody adopts, or collects, those that it has not got: a source that alone has what
    # it proposes may die, and what is decided then nobody can deliver. The letter is not confirmed, and comes again.
    def on_propose(self, sender: SiteId, propose: Propose, arrival: Arrival) -> None:
        if self.has_bodies(sender, propose.value):
            self.consensus.on_propose(sender, propose, arrival)

    def on_estimate(self, sender: SiteId, estimate: Estimate, arrival: Arrival) -> None:
        if estimate.value is None or self.has_bodies(sender, estimate.value):
            self.consensus.on_estimate(sender, estimate, arrival)

    def has_bodies(self, holder: SiteId, value: Value) -> bool:
        missing = [message for message in value.messages() if message not in self.got]
        for message in missing:
            self.multicast.want(message, (holder, *self.others))
        return not missing

    def on_value(self, name: tuple[int, ...], value: Value) -> None:
        self.note_decided(name[0], value)
        self.hand_over()
        self.propose()

    def note_decided(self, number: int, value: Value) -> None:
        self.decided[number] = value
        for message in value.messages():
            self.pending.pop(message, None)
            if message not in self.got:
                self.multicast.want(message, self.others)
        while self.next in self.decided:
            self.next += 1

    def hand_over(self) -> None:
        while (value := self.decided.get(self.next_delivered)) is not None:
            if any(message not in self.got for message in value.messages()):
                return
            self.next_delivered += 1
            for message in value.messages():
                multicast = self.got[message]
                if message not in self.delivered:
                    self.delivered.add(message)
                    if self.site in self.destinations(multicast):
                        self.outbox.append(self.effect(multicast))

    def recall_got(self, record: Got) -> None:
        self.note_got(record.multicast)
        self.hand_over()

    def recall_value(self, name: tuple[int, ...], value: Value) -> None:
        self.note_decided(name[0], value)
        self.hand_over()

    def resume(self) -> None:
        self.effect = Deliver
        for multicast in self.got.values():
            self.multicast.relay(multicast, self.site)
            if multicast.id.source == self.site:
                self.multicast.multicast(multicast, self.others)
        self.consensus.resume()
        for site in self.others:
            self.ask(site)
        self.propose()


# ---------------------------------------------------------------------- what campaigns vary
def options_of_hosts(situation: Situation) -> dict[str, Any]:
    return {
        "letters_max": situation.rarely(64, 4, 12),
        "eager": situation.random.random() < 0.5,
        "suspicion_seconds": situation.seconds(0.05, 0.5),
    }


def _arrange(tuning: Tuning) -> Arrangement:
    return Arrangement(order="none", crash="the others go on", campaign=tuning, live=no_options)


LinkHost.arrangement = _arrange(Tuning(options=options_of_hosts, settle=20.0))
# Nobody who is in a group dies: agreement is not uniform.
MulticastHost.arrangement = _arrange(
    Tuning(
        options=options_of_hosts,
        majorities=lambda groups: [(site,) for members in groups.values() for site in members],
        settle=20.0,
    )
)
ConsensusHost.arrangement = _arrange(Tuning(options=options_of_hosts, settle=30.0))
