"""Steps 2 to 4: give timestamps, let a consensus turn them into sequence numbers."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ordercast.core import MessageId, Multicast, Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.consensus_packets import InstanceName, Value
from ordercast.protocols.parts.quorum import Quorum
from ordercast.protocols.scalatom.address import Address
from ordercast.protocols.scalatom.entries import Entry
from ordercast.protocols.scalatom.packets import Body, Stamp, Stamped, Stamps

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom

STAMPS_MAX = 256
"""Timestamps in one packet: some kilobytes."""


class Ordering(Part):
    """A destination's clock, and what it says about the order of messages."""

    packets = (Stamps,)
    timers = ("stamps",)
    records = (Stamped, Body)
    branches = ("batch", "gathered", "decided-before-it-came")

    def __init__(self, core: Scalatom) -> None:
        self._core = core
        self._batched = core.options.batch_messages_max > 1
        self.clock = 1
        """The next timestamp; larger than every one that was given or decided here."""
        self._unsent: dict[Address, list[Entry]] = {}
        self._gathering = False

    # ------------------------------------------------------------------ step 2: timestamps
    def on_delivered(self, multicast: Multicast) -> None:
        """R-deliver: the message is here, for the first time."""
        core = self._core
        entry = core.entries.note(multicast.id, core.addresses.of(multicast))
        if entry is None:
            return
        core.entries.keep(entry, multicast)
        if entry.sequence:
            # A decision can be faster than the message (step 4 before step 2).
            core.branch("decided-before-it-came")
            core.append(Body(multicast))
            core.histories.deliver()
        elif not core.loss.lost:
            self.stamp(entry, multicast)
        core.confirming.acknowledge_deferred(multicast.id)

    def stamp(self, entry: Entry, multicast: Multicast) -> None:
        """Give a timestamp; it is stable before anyone hears of it.

        (Else: p gives m 3, and 3 becomes its sequence number; p has crashed, forgotten m and its clock, and gives m'
        2; with the history of p, in which m is not, q delivers m' and then, with another's, m.)
        """
        self._stamp(entry, multicast)
        if self._batched and entry.address.running:
            self._gather()
        else:
            self.send_stamps()
        self.propose(entry.address)

    def _stamp(self, entry: Entry, multicast: Multicast) -> None:
        core = self._core
        entry.timestamp = self.give_timestamp()
        entry.index = core.histories.add_own(entry)
        core.append(Stamped(multicast, entry.index, entry.timestamp))
        self._unsent.setdefault(entry.address, []).append(entry)
        self.note_stamp(entry, core.site, entry.timestamp)

    def stamp_again(self) -> None:
        """After a lost log: what we may have stamped comes first in our new history, and no promise leaves it out."""
        core = self._core
        core.histories.lowest = self.clock
        for entry in list(core.entries.values()):
            if not entry.sequence and entry.multicast is not None and core.site in entry.address.sites:
                core.histories.lowest = self.clock
                self._stamp(entry, entry.multicast)
        self.clock = max(self.clock, core.histories.lowest + 1)
        self.send_stamps()
        for address in core.addresses:
            if self._batched:
                self.propose(address)
            else:
                for entry in list(address.ready.values()):
                    core.consensus.start(self._name(entry), entry.message)

    def _gather(self) -> None:
        """While a consensus runs, the next one must wait for it: its timestamps can as well go together, but not wait
        for ever.

        (Else: the timestamps of e and f for m have reached us, and we want its decision; that of f has not reached the
        coordinator, and f is gone. Now m comes, and the coordinator waits for the timestamp that we hold back.)
        """
        self._core.branch("gathered")
        if not self._gathering:
            self._gathering = True
            self._core.set_timer("stamps", self._core.options.retransmit_seconds)

    def on_stamps_timeout(self) -> None:
        """They have waited for long enough."""
        self._gathering = False
        self.send_stamps()

    def give_timestamp(self) -> int:
        """rec-ts: the clock's value before it is incremented, and this is what histories hold (erratum)."""
        self.clock += 1
        return self.clock - 1

    def send_stamps(self) -> None:
        """Tell the destinations. All of them together: the entries of a history have no gaps.

        (Only those of one address: a timestamp of another, held back while its consensus is stuck, leaves a gap in our
        history, and what this one orders waits for that one.)
        """
        core = self._core
        unsent, self._unsent = self._unsent, {}
        told_index = core.histories.told_index
        for address, entries in unsent.items():
            for first in range(0, len(entries), STAMPS_MAX):
                stamps = tuple(
                    Stamp(e.message, told_index(e), e.timestamp) for e in entries[first : first + STAMPS_MAX]
                )
                count, promise = core.histories.piggyback(stamps[-1].message)
                if address.others:
                    core.link.post(
                        address.others, Stamps(core.link.next, address.cells, stamps, count, promise, core.loss.lives)
                    )

    def on_stamps(self, sender: SiteId, packet: Stamps, arrival: Arrival) -> None:
        """Timestamps of another destination."""
        core = self._core
        address = core.addresses.shared_with(sender, packet.cells)
        for stamp in packet.stamps:
            entry = core.entries.note(stamp.message, address)
            if entry is not None:
                if entry.multicast is None:
                    core.entries.want(entry, sender)
                self.note_stamp(entry, sender, stamp.timestamp)
        if sender in core.cellmates:
            core.histories.add_stamps(sender, packet)
            core.returning.tell_gone(sender, [stamp.message for stamp in packet.stamps])
        self.propose(address)
        core.confirming.acknowledge(sender, packet)

    def note_stamp(self, entry: Entry, site: SiteId, timestamp: int) -> None:
        """One more timestamp is known."""
        if site in entry.stamps or entry.sequence:
            return
        entry.stamps[site] = timestamp
        address = entry.address
        if len(entry.stamps) >= address.quorum.minimum and entry.message not in address.ready and self.is_ready(entry):
            address.ready[entry.message] = entry
            if not self._batched and not self._core.loss.lost:
                self._core.consensus.start(self._name(entry), entry.message)
        self._core.histories.note_stable(entry)

    def is_ready(self, entry: Entry) -> bool:
        """Whether a qualified majority has stamped it: a majority of each addressed cell (3.5)."""
        return entry.address.quorum.is_met(entry.stamps)

    # ------------------------------------------------------------------ step 3: consensus
    def propose(self, address: Address) -> None:
        """Begin the next consensus of this address, when the one before is decided and there is something to order."""
        if self._batched and address.ready and not address.running and not self._core.loss.lost:
            address.running = True
            self._core.consensus.start((address.next, *address.cells), next(iter(address.ready)))

    def _name(self, entry: Entry) -> InstanceName:
        """Without batches: one consensus for each message, named after it."""
        message = entry.message
        return (message.number, message.incarnation, self._core.ranks[message.source], *entry.address.cells)

    def _message_named(self, name: InstanceName) -> MessageId:
        number, incarnation, rank = name[:3]
        if not 0 <= rank < len(self._core.context.sites):
            raise WireError(f"{name} is not the name of a consensus")
        return MessageId(self._core.context.sites[rank], incarnation, number)

    def address_named(self, name: InstanceName) -> Address:
        """The address of a consensus."""
        prefix = 1 if self._batched else 3
        if len(name) <= prefix:
            raise WireError(f"{name} is not the name of a consensus")
        return self._core.addresses.named(name[prefix:])

    def may_begin(self, name: InstanceName) -> bool:
        """Whether we cannot have proposed in this instance before we lost our log."""
        core = self._core
        if not core.loss.life:
            return True
        if self._batched:
            return name[0] > core.loss.barred.get(name[1:], 1)
        entry = core.entries.get(self._message_named(name))
        return entry is not None and entry.timestamp > core.histories.lowest

    def quorum(self, name: InstanceName) -> Quorum:
        """Who has to agree."""
        return self.address_named(name).quorum

    def participants(self, name: InstanceName) -> tuple[SiteId, ...] | None:
        """In the order in which they coordinate."""
        address = self.address_named(name)
        return address.participants(name[0]) if self._batched else address.rotated(name[0])

    def estimate(self, name: InstanceName) -> Value | None:
        """What we would propose: the highest timestamps known, of a qualified majority at least.

        Nothing while an earlier batch is not decided here. (Else: m is decided in the seventh batch, of which c has not
        heard; somebody makes c the coordinator of the eighth, c proposes m, and m has two sequence numbers.)
        """
        core = self._core
        address = self.address_named(name)
        if self._batched:
            if name[0] != address.next:
                return None
            entries = list(islice(address.ready.values(), core.options.batch_messages_max))
        else:
            entry = address.ready.get(self._message_named(name))
            entries = [] if entry is None else [entry]
        if not entries:
            return None
        return Value(core.site, tuple((entry.message, self.sequence(entry)) for entry in entries))

    def sequence(self, entry: Entry) -> int:
        """prop(m)."""
        return max(entry.stamps.values())

    def is_over(self, name: InstanceName) -> bool:
        """Whether a consensus is decided."""
        address = self.address_named(name)
        if self._batched:
            return address.is_decided(name[0])
        message = self._message_named(name)
        entry = self._core.entries.get(message)
        return self._core.multicast.is_finished(message) if entry is None else bool(entry.sequence)

    # ------------------------------------------------------------------ step 4: the decision
    def on_decided(self, name: InstanceName, value: Value) -> None:
        """Sequence numbers are decided, and logged."""
        core = self._core
        highest = self.apply(name, value)
        if len(value.numbers) > 1:
            core.branch("batch")
        self.send_stamps()
        core.histories.promise_through(highest, value.numbers[-1][0])
        core.histories.deliver()
        self.propose(self.address_named(name))

    def apply(self, name: InstanceName, value: Value) -> int:
        """Note a decision; the highest sequence number in it."""
        core = self._core
        address = self.address_named(name)
        if self._batched:
            address.on_decided(name[0], value.proposer)
        highest = 0
        concerned = []
        skipped = []
        for message, sequence in value.numbers:
            highest = max(highest, sequence)
            address.ready.pop(message, None)
            entry = core.entries.note(message, address)
            if entry is None or entry.sequence:
                continue
            entry.sequence = sequence
            entry.instance = name
            entry.stamps = {}
            concerned.append(message)
            if core.returning.is_skipped(entry.key):
                skipped.append(entry)
                continue
            core.histories.on_decided(entry)
            if entry.multicast is None:
                core.entries.want(entry, value.proposer)
        self.advance(highest)
        core.keeping.on_decided(name, concerned)
        for entry in skipped:
            core.keeping.forget(entry)
        return highest

    def on_forgotten(self, entry: Entry) -> None:
        """It is over; perhaps its number was decided without us, and there is nothing left to decide.

        (Else: we have begun a consensus about it, and ping the coordinator until there is another message, perhaps for
        ever.)
        """
        address = entry.address
        if address.ready.pop(entry.message, None) is not None and address.running and not address.ready:
            address.running = False
            self._core.consensus.give_up((address.next, *address.cells))

    # ------------------------------------------------------------------ what was decided without us
    def is_news(self, name: InstanceName, value: Value) -> bool:
        """Whether a decision over which we have jumped has numbers for messages that wait here."""
        entries = self._core.entries
        return any(message in entries and not entries[message].sequence for message in value.messages())

    def is_possible(self, name: InstanceName, value: Value) -> bool:
        """Whether none of these messages is known to have its number from another instance.

        Somebody who was away can propose such a message: it has jumped over the decisions that the others have
        forgotten. Whoever was given up was so when a qualified majority had taken the message, and one of these is in
        every quorum; so what we rule out is never decided.
        """
        return not self._batched or not any(self._is_numbered(name, message) for message in value.messages())

    def _is_numbered(self, name: InstanceName, message: MessageId) -> bool:
        entry = self._core.entries.get(message)
        if entry is None:
            return self._core.multicast.is_finished(message)
        return bool(entry.sequence) and entry.instance != name

    def on_impossible(self, sender: SiteId, name: InstanceName, value: Value) -> None:
        """Tell a proposer which of its messages have their numbers."""
        core = self._core
        numbered = [message for message in value.messages() if self._is_numbered(name, message)]
        core.catching.tell_decisions(sender, numbered)
        core.returning.tell_gone(sender, numbered)

    def advance(self, sequence: int) -> None:
        """ts <- max(ts, sn(m)) + 1."""
        self.clock = max(self.clock, sequence) + 1

    # ------------------------------------------------------------------ crash and recovery
    def recall_stamped(self, record: Stamped) -> None:
        """A message that we have stamped, and perhaps multicast."""
        core = self._core
        multicast = record.multicast
        if multicast.id.source == core.site:
            core.source.keep(multicast)
        entry = core.entries.note(multicast.id, core.addresses.of(multicast))
        if entry is not None:
            core.entries.keep(entry, multicast)
            entry.index, entry.timestamp = record.index, record.timestamp
            entry.stamps[core.site] = record.timestamp
            core.histories.restore_own(entry)
            self.advance(record.timestamp)

    def recall_body(self, record: Body) -> None:
        """A message that was decided before it came."""
        multicast = record.multicast
        entry = self._core.entries.note(multicast.id, self._core.addresses.of(multicast))
        if entry is not None:
            self._core.entries.keep(entry, multicast)

    def resume(self) -> None:
        """After a crash: go on with what is stamped and not decided."""
        for address in self._core.addresses:
            self.propose(address)
