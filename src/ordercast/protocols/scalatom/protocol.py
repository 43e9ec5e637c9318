"""SCALATOM: the core that holds its parts together."""

from __future__ import annotations

from itertools import takewhile
from typing import ClassVar, cast

from ordercast.core import (
    EVERY_FAULT,
    Context,
    Contract,
    MessageId,
    Multicast,
    Packet,
    Protocol,
    Record,
    SiteId,
    WireError,
)
from ordercast.core.events import Arrival, Consumed, Event, MulticastRequested, Received, Recovered, Started, TimerFired
from ordercast.protocols.parts.consensus import Consensus
from ordercast.protocols.parts.consensus_packets import Ack, Collect, Decide, Decided, Estimate, Propose
from ordercast.protocols.parts.detector import FailureDetector, Ping, Pong
from ordercast.protocols.parts.link import Behind, Letter, Link, Receipt
from ordercast.protocols.parts.multicast import Data, ReliableMulticast, Want
from ordercast.protocols.parts.quorum import Quorum
from ordercast.protocols.scalatom.address import Address, Entry
from ordercast.protocols.scalatom.arrangement import ARRANGEMENT
from ordercast.protocols.scalatom.catching import Catching, is_time_to_ask
from ordercast.protocols.scalatom.cells import Cells
from ordercast.protocols.scalatom.histories import Histories
from ordercast.protocols.scalatom.keeping import Keeping
from ordercast.protocols.scalatom.options import ScalatomOptions
from ordercast.protocols.scalatom.ordering import Ordering
from ordercast.protocols.scalatom.packets import (
    Body,
    CatchUp,
    CellNames,
    Delivered,
    History,
    Overdue,
    Sent,
    Settled,
    Stamped,
    Stamps,
    State,
    Summary,
)
from ordercast.protocols.scalatom.source import Source
from ordercast.protocols.scalatom.stable import checkpoint_of, restore_from


class Scalatom(Protocol):
    """Genuine total order to several groups, with open senders and unreliable failure detectors only."""

    contract = Contract(
        name="scalatom",
        title="timestamps, consensus and histories among the addressees only: open senders, overlapping groups",
        paper="Rodrigues, Guerraoui, Schiper 1998",
        guarantees=(
            "integrity",
            "no-duplication",
            "single-source-order",
            "multiple-source-order",
            "multiple-group-order",
            "acyclic-order",
            "uniform-agreement",
            "termination",
            "R1",
            "genuineness",
            "message-size",
        ),
        faults=EVERY_FAULT,
        crash="the others go on as long as a majority of each addressed cell is up; a cell without one blocks "
        "what is addressed to it, and what is ordered behind that",
        branches=(
            *Link.branches,
            *FailureDetector.branches,
            *ReliableMulticast.branches,
            *Consensus.branches,
            "batch",
            "gathered",
            "decided-before-it-came",
            "deferred",
            "history-piggybacked",
            "history-with-bodies",
            "catching-up",
            "overdue",
            "window-full",
            "blocked",
            "unblocked",
            "recovered-undecided",
        ),
        options=ScalatomOptions,
        minority_may_die=True,
        message_size={"a": 192, "b": 64},
    )
    arrangement = ARRANGEMENT
    packets: ClassVar[tuple[type[Packet], ...]] = (
        *Link.packets,
        *FailureDetector.packets,
        *ReliableMulticast.packets,
        *Consensus.packets,
        Stamps,
        History,
        Settled,
        Overdue,
        CatchUp,
        Summary,
    )
    records: ClassVar[tuple[type[Record], ...]] = (*Consensus.records, Sent, Stamped, Body, Delivered, State)
    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = options = cast(ScalatomOptions, context.options)
        self.ranks = {site: rank for rank, site in enumerate(context.sites)}
        self.cells = Cells(context.groups)
        cell = self.cells.of_site(self.site)
        self.cellmates: tuple[SiteId, ...] = ()
        """The other sites of our cell."""
        if cell is not None:
            self.cellmates = tuple(site for site in self.cells.cells[cell] if site != self.site)
        self.entries: dict[MessageId, Entry] = {}
        """Every message that is not over, in the order in which we heard of them. Bounded by what each source may
        have under way."""
        self._addresses: dict[CellNames, Address] = {}
        # No ordinal is given twice. (Else: c has a piece of our answer, up to our 164th message, and asks for the rest;
        # we crash, number what is left from 1, and answer that there is nothing after the 164th; c takes our history
        # for complete, and delivers what should come later.)
        self._ordinal = context.incarnation << 32
        self._deferred: dict[MessageId, dict[tuple[SiteId, int], Letter]] = {}
        """Message whose body we lack -> letters about it that are confirmed when it is here."""
        self._tick = 0
        self._watching = False
        self.link = Link(
            self,
            retransmit_seconds=options.retransmit_seconds,
            retransmit_seconds_max=options.retransmit_seconds_max,
            receipt_seconds=options.receipt_seconds,
            letters_max=options.letters_max,
        )
        self.detector = FailureDetector(
            self,
            ping_seconds=options.ping_seconds,
            suspicion_seconds=options.suspicion_seconds,
            suspicion_seconds_max=options.suspicion_seconds_max,
            on_suspected=lambda site: self.consensus.on_suspected(site),
        )
        self.ordering = Ordering(self)
        self.histories = Histories(self)
        self.keeping = Keeping(self)
        self.source = Source(self)
        self.catching = Catching(self)
        self.multicast = ReliableMulticast(
            self,
            self.link,
            eager=options.relay_eagerly,
            want_seconds=options.want_seconds,
            destinations=lambda multicast: self.address_of(multicast).sites,
            find=self._find_body,
            on_delivered=lambda multicast: self.ordering.on_delivered(multicast),
            on_old=lambda sender, message: self.keeping.on_old(sender, message),
        )
        self.consensus = Consensus(
            self,
            self.link,
            self.detector,
            eager=options.relay_eagerly,
            participants=lambda name: self.ordering.participants(name),
            quorum=lambda name: self.ordering.address_named(name).quorum,
            estimate=lambda name: self.ordering.estimate(name),
            on_decided=lambda name, value: self.ordering.on_decided(name, value),
            is_over=lambda name: self.ordering.is_over(name),
        )
        self._timers = {
            Link.RESEND_TIMER: lambda: self.link.on_resend_timeout(),
            Link.RECEIPT_TIMER: lambda: self.link.on_receipt_timeout(),
            FailureDetector.TIMER: lambda: self.detector.on_timeout(),
            ReliableMulticast.TIMER: lambda: self.multicast.on_timeout(),
            "stamps": lambda: self.ordering.on_timeout(),
            "history": lambda: self.histories.on_timeout(),
            "acknowledge": lambda: self.keeping.report(),
            "watch": lambda: self.on_watch_timeout(),
        }

    # ------------------------------------------------------------------ events
    def step(self, now: float, event: Event) -> None:
        """Whoever is heard is there."""
        if type(event) is Received:
            self.detector.heard(event.sender)
        super().step(now, event)

    def on_started(self, event: Started) -> None:
        """Tell the application how much it may send."""
        self.source.give_credit()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Any site may multicast to any groups."""
        self.source.multicast(event.multicast)

    def on_timer_fired(self, event: TimerFired) -> None:
        """Of a part, or our own."""
        self._timers[cast(str, event.timer)]()

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries."""
        self.keeping.on_consumed(event.count)

    # ------------------------------------------------------------------ messages of the parts
    def on_receipt(self, sender: SiteId, packet: Receipt, arrival: Arrival) -> None:
        """To the link."""
        self.link.on_receipt(sender, packet)

    def on_behind(self, sender: SiteId, packet: Behind, arrival: Arrival) -> None:
        """We have missed letters of the sender."""
        self.catching.begin(sender)
        self.link.acknowledge(sender, packet)

    def on_ping(self, sender: SiteId, packet: Ping, arrival: Arrival) -> None:
        """To the failure detector."""
        self.detector.on_ping(sender)

    def on_pong(self, sender: SiteId, packet: Pong, arrival: Arrival) -> None:
        """Heard already."""

    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """R-multicast."""
        if packet.multicast.id.source not in self.ranks:
            raise WireError(f"{packet.multicast.id.source} is not a site of the system")
        self.multicast.on_data(sender, packet)

    def on_want(self, sender: SiteId, packet: Want, arrival: Arrival) -> None:
        """R-multicast."""
        self.multicast.on_want(sender, packet)

    def on_propose(self, sender: SiteId, packet: Propose, arrival: Arrival) -> None:
        """Consensus."""
        self.consensus.on_propose(sender, packet)

    def on_ack(self, sender: SiteId, packet: Ack, arrival: Arrival) -> None:
        """Consensus."""
        self.consensus.on_ack(sender, packet)

    def on_decide(self, sender: SiteId, packet: Decide, arrival: Arrival) -> None:
        """Consensus."""
        self.consensus.on_decide(sender, packet)

    def on_collect(self, sender: SiteId, packet: Collect, arrival: Arrival) -> None:
        """Consensus."""
        self.consensus.on_collect(sender, packet)

    def on_estimate(self, sender: SiteId, packet: Estimate, arrival: Arrival) -> None:
        """Consensus."""
        self.consensus.on_estimate(sender, packet)

    # ------------------------------------------------------------------ our own messages
    def on_stamps(self, sender: SiteId, packet: Stamps, arrival: Arrival) -> None:
        """Step 2."""
        self.ordering.on_stamps(sender, packet)

    def on_history(self, sender: SiteId, packet: History, arrival: Arrival) -> None:
        """Step 5."""
        if sender not in self.cellmates:
            raise WireError(f"{sender} sent its history to {self.site}, which is in another cell")
        self.histories.on_history(sender, packet)
        self.link.acknowledge(sender, packet)

    def on_settled(self, sender: SiteId, packet: Settled, arrival: Arrival) -> None:
        """Applications have taken messages."""
        self.keeping.on_settled(sender, packet)

    def on_overdue(self, sender: SiteId, packet: Overdue, arrival: Arrival) -> None:
        """Somebody has not heard of something."""
        self.catching.on_overdue(sender, packet)

    def on_catch_up(self, sender: SiteId, packet: CatchUp, arrival: Arrival) -> None:
        """Somebody wants to know everything."""
        self.catching.on_catch_up(sender, packet)

    def on_summary(self, sender: SiteId, packet: Summary, arrival: Arrival) -> None:
        """An answer."""
        self.catching.on_summary(sender, packet)

    # ------------------------------------------------------------------ what all need
    def address(self, cells: CellNames) -> Address:
        """The destination set of that name; `WireError` when there is none."""
        address = self._addresses.get(cells)
        if address is None:
            known = range(len(self.cells.cells))
            if not cells or list(cells) != sorted(set(cells)) or any(cell not in known for cell in cells):
                raise WireError(f"there are no cells {cells}")
            quorum = Quorum(self.cells.cells[cell] for cell in cells)
            address = self._addresses[cells] = Address(cells, quorum, self.site)
        return address

    def address_of(self, multicast: Multicast) -> Address:
        """Dst(m)."""
        if not multicast.groups or any(group not in self.context.groups for group in multicast.groups):
            raise WireError(f"unknown groups {multicast.groups}")
        return self.address(self.cells.of_groups(multicast.groups))

    def address_with(self, cells: CellNames, sender: SiteId) -> Address:
        """The destination set of that name, when the sender and we are in it."""
        address = self.address(cells)
        if sender not in address.sites or self.site not in address.sites:
            raise WireError(f"{sender} and {self.site} are not both in the cells {cells}")
        return address

    def entry(self, message: MessageId, address: Address) -> Entry | None:
        """What we know of a message; None when it is over."""
        entry = self.entries.get(message)
        if entry is None and not self.multicast.is_finished(message):
            if message.source not in self.ranks:
                raise WireError(f"{message.source} is not a site of the system")
            self._ordinal += 1
            entry = self.entries[message] = Entry(message, address, self._ordinal, self._tick)
            self.keep_watching()
        return entry

    def _find_body(self, message: MessageId) -> Multicast | None:
        entry = self.entries.get(message)
        return None if entry is None else entry.multicast

    def want(self, entry: Entry, holder: SiteId) -> None:
        """We have heard of a message from somebody who has it."""
        if self.site in entry.address.sites:
            self.multicast.want(entry.message, (holder, *entry.address.others, entry.message.source))

    def acknowledge(self, sender: SiteId, letter: Letter) -> None:
        """Confirm a letter when every message that it names is in our log.

        (Else: p alone has m, and tells us its timestamp; we confirm that, crash, and have never heard of m; p is gone.
        Whom should we ask? As long as we have not confirmed it, p tells us again; afterwards m is in the log, and we
        know whom it concerns.)
        """
        for message in letter.served():
            entry = self.entries.get(message)
            if entry is not None and entry.multicast is None and self.site in entry.address.sites:
                self.branch("deferred")
                self._deferred.setdefault(message, {})[sender, letter.number] = letter
                return
        self.link.acknowledge(sender, letter)

    def acknowledge_deferred(self, message: MessageId) -> None:
        """A body has come."""
        for (sender, _), letter in self._deferred.pop(message, {}).items():
            self.acknowledge(sender, letter)

    # ------------------------------------------------------------------ waiting
    def keep_watching(self) -> None:
        """There is something that may be blocked."""
        if not self._watching:
            self._watching = True
            self.set_timer("watch", self.options.blocked_seconds / 2)

    def on_watch_timeout(self) -> None:
        """Say whether we are blocked, and by whom; ask about what has been here for long."""
        self._tick += 1
        old = takewhile(lambda entry: self._tick - entry.born_tick >= 2, self.entries.values())
        self.catching.ask_overdue(entry for entry in old if is_time_to_ask(self._tick - entry.born_tick))
        reason = self.whom_we_wait_for()
        if reason != self.obstacle("waiting"):
            self.branch("blocked" if reason else "unblocked")
            self.block("waiting", reason)
        self._watching = False
        if self.entries or reason:
            self.keep_watching()

    def whom_we_wait_for(self) -> str:
        """Why the oldest message that should be delivered here, or taken elsewhere, is not; empty when it is young."""
        for entry in self.entries.values():
            if self._tick - entry.born_tick < 2:
                break
            if self.site not in entry.address.sites:
                missing = entry.address.quorum.missing(entry.settled)
                if missing:
                    return f"{entry.message} is not taken by {', '.join(missing)}"
            elif not entry.sequence:
                missing = entry.address.quorum.missing(entry.stamps)
                if missing:
                    return f"{entry.message} has no timestamp from {', '.join(missing)}"
                return f"no sequence number is decided for {entry.message}"
            elif not entry.delivered:
                return self.histories.whom_we_wait_for(entry)
        return ""

    # ------------------------------------------------------------------ stable storage
    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold."""
        return len(self.entries)

    def checkpoint_state(self) -> State:
        """Everything that a crash must not lose."""
        return checkpoint_of(self)

    def on_recovered(self, event: Recovered) -> None:
        """Read the log; say again what may have been lost with the memory, and ask for what was."""
        if isinstance(event.checkpoint, State):
            restore_from(self, event.checkpoint)
        for record in event.records:
            self._recall(record)
        for entry in list(self.entries.values()):
            if self.keeping.is_over(entry):
                self.keeping.forget(entry)
            elif self.site in entry.address.sites and not entry.sequence:
                self.branch("recovered-undecided")
        self.source.resume()
        self.consensus.resume()
        self.catching.begin_all()
        self._promise_again()
        self.histories.deliver()
        for address in list(self._addresses.values()):
            self.ordering.propose(address)
        self.declare_recovered()

    def _promise_again(self) -> None:
        """Say how far our history is complete. (We may have crashed between a decision and that, and nobody asks.)"""
        decided = [entry.key for entry in self.entries.values() if entry.sequence]
        if decided:
            self.histories.promise_through(*max(decided))

    def _recall(self, record: Record) -> None:
        if isinstance(record, Sent):
            self.source.keep(record.multicast).multicast = record.multicast
        elif isinstance(record, Stamped):
            self._restore_stamped(record)
        elif isinstance(record, Body):
            entry = self.entry(record.multicast.id, self.address_of(record.multicast))
            if entry is not None:
                entry.multicast = record.multicast
        elif isinstance(record, Delivered):
            self.histories.replay(record.sequence, record.message)
        else:
            self.consensus.on_record(record)
            if isinstance(record, Decided):
                self.ordering.apply(record.instance, record.value)

    def _restore_stamped(self, record: Stamped) -> None:
        multicast = record.multicast
        if multicast.id.source == self.site:
            self.source.keep(multicast)
        entry = self.entry(multicast.id, self.address_of(multicast))
        if entry is not None:
            entry.multicast = multicast
            entry.index, entry.timestamp = record.index, record.timestamp
            entry.stamps[self.site] = record.timestamp
            self.histories.restore_own(entry)
            self.ordering.advance(record.timestamp)

    def addresses(self) -> tuple[Address, ...]:
        """All destination sets that were used."""
        return tuple(self._addresses.values())

    def check_invariants(self) -> None:
        """Of the parts that have some."""
        self.link.check_invariants()
        self.histories.check_invariants()
