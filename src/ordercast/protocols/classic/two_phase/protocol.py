"""The two-phase protocol: two roles at each site, one timer for both."""

from __future__ import annotations

from typing import cast

from ordercast.core import (
    EVERY_FAULT,
    TOTAL_ORDER,
    Context,
    Contract,
    GroupId,
    Multicast,
    Protocol,
    SiteId,
    UsageError,
    WireError,
)
from ordercast.core.events import (
    Arrival,
    Consumed,
    MulticastRequested,
    Recovered,
    Started,
    TimerFired,
)
from ordercast.protocols.classic.two_phase.arrangement import ARRANGEMENT
from ordercast.protocols.classic.two_phase.destination import Destination
from ordercast.protocols.classic.two_phase.options import TwoPhaseOptions
from ordercast.protocols.classic.two_phase.packets import (
    Acknowledge,
    Data,
    Decided,
    Final,
    Noted,
    Proposal,
    Proposed,
    Sent,
    State,
)
from ordercast.protocols.classic.two_phase.source import Outgoing, Source

ADDRESSES_MAX = 1024
"""Addresses whose destinations are remembered; all combinations of ten groups."""


class TwoPhase(Protocol):
    """Destinations propose priorities, the source takes the highest (Birman and Joseph 1987, after Skeen)."""

    contract = Contract(
        name="two-phase",
        title="destinations propose priorities, the source announces the highest: only those concerned take part",
        paper="Spauster 1991, 2.5 (Birman, Joseph 1987, ABCAST, after Skeen)",
        guarantees=(*TOTAL_ORDER, "genuineness"),
        faults=EVERY_FAULT,
        crash=(
            "the destinations of a message that a crashed site has not decided, or not given a priority, wait for that "
            "site to recover, and so does everything behind the message"
        ),
        branches=(
            "decided",
            "moved-back",
            "waited-for-earlier",
            "raised",
            "old",
            "proposed-again",
            "sent-again",
            "announced-again",
            "noted",
            "window-full",
            "blocked",
            "unblocked",
            "recovered-undecided",
            "recovered-queue",
        ),
        options=TwoPhaseOptions,
        explicit_destinations=True,
    )
    arrangement = ARRANGEMENT
    packets = (Data, Proposal, Final, Noted, Acknowledge)
    records = (Sent, Proposed, Decided, State)
    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(TwoPhaseOptions, context.options)
        self.ranks = {site: rank for rank, site in enumerate(context.sites)}
        self.tick = 0
        """Counts the intervals of `retransmit_seconds` in which there was anything to do. Waiting is measured in them,
        not by the site's clock, which may jump."""
        self.wait_ticks_max = max(1, round(self.options.retransmit_seconds_max / self.options.retransmit_seconds))
        self.source = Source(self)
        self.destination = Destination(self)
        self._addresses: dict[tuple[tuple[GroupId, ...], tuple[SiteId, ...] | None], tuple[SiteId, ...]] = {}
        self._others: dict[tuple[SiteId, ...], tuple[SiteId, ...]] = {}
        self._ticking = False

    # ------------------------------------------------------------------ events
    def on_started(self, event: Started) -> None:
        """Tell the application how much it may send."""
        self.source.give_credit()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Any site may multicast to any group."""
        if not self.destinations(event.multicast):
            raise UsageError("a multicast needs at least one destination")
        self.source.multicast(event.multicast)

    def on_timer_fired(self, event: TimerFired) -> None:
        """It is time to repeat, or to acknowledge."""
        if event.timer == "tick":
            self.on_tick()
        else:
            self.destination.on_acknowledge_timeout()

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries."""
        self.destination.on_consumed(event.count)

    # ------------------------------------------------------------------ messages
    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """At a destination."""
        if packet.multicast.id.source != sender or self.site not in self.destinations(packet.multicast):
            raise WireError(f"{sender} sent a message that is not its own, or not for {self.site}")
        if sender not in self.ranks:
            raise WireError(f"{sender} is not a site of the system")
        # To ourselves only after a crash, and then we have given it a priority already.
        if sender != self.site:
            self.destination.on_data(sender, packet.multicast)

    def on_proposal(self, sender: SiteId, packet: Proposal, arrival: Arrival) -> None:
        """At the source."""
        self.source.on_proposal(sender, packet)

    def on_final(self, sender: SiteId, packet: Final, arrival: Arrival) -> None:
        """At a destination."""
        if packet.message.source != sender:
            raise WireError(f"{sender} announced the priority of a message that is not its own")
        self.destination.on_final(sender, packet)

    def on_noted(self, sender: SiteId, packet: Noted, arrival: Arrival) -> None:
        """At the source."""
        self.source.on_noted(sender, packet.message)

    def on_acknowledge(self, sender: SiteId, packet: Acknowledge, arrival: Arrival) -> None:
        """At the source."""
        if packet.through.source != self.site:
            raise WireError(f"{sender} acknowledged somebody else's message")
        self.source.on_acknowledge(sender, packet.through)

    # ------------------------------------------------------------------ what both roles need
    def destinations(self, multicast: Multicast) -> tuple[SiteId, ...]:
        """The destinations of a message, sorted, each once."""
        address = (multicast.groups, multicast.destinations)
        known = self._addresses.get(address)
        if known is None:
            if any(group not in self.context.groups for group in multicast.groups):
                raise WireError(f"unknown group in {multicast.groups}")
            known = tuple(sorted(set(self.context.destinations(multicast))))
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            self._addresses[address] = known
        return known

    def others(self, destinations: tuple[SiteId, ...]) -> tuple[SiteId, ...]:
        """The destinations without this site."""
        known = self._others.get(destinations)
        if known is None:
            if len(self._others) >= ADDRESSES_MAX:
                self._others.clear()
            known = self._others[destinations] = tuple(site for site in destinations if site != self.site)
        return known

    def keep_ticking(self) -> None:
        """There is something that may have to be repeated, or that may block."""
        if not self._ticking:
            self._ticking = True
            self.set_timer("tick", self.options.retransmit_seconds)

    def on_tick(self) -> None:
        """Repeat what was not answered, and say whether we are blocked."""
        self.tick += 1
        self.source.resend()
        reason = self.source.whom_we_wait_for() or self.destination.whom_we_wait_for()
        if reason != self.obstacle("waiting"):
            self.branch("blocked" if reason else "unblocked")
            self.block("waiting", reason)
        self._ticking = False
        if self.source.pending or self.destination.entries or self.obstacle("waiting"):
            self.keep_ticking()

    def ticks_as_seconds(self, ticks: int) -> float:
        """How long so many intervals take."""
        return ticks * self.options.retransmit_seconds

    # ------------------------------------------------------------------ stable storage
    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold."""
        return len(self.source.pending) + len(self.destination.entries)

    def checkpoint_state(self) -> State:
        """Both roles."""
        destination, source = self.destination, self.source
        return State(
            clock=destination.clock,
            queue=tuple((entry.multicast, entry.number, entry.final) for entry in destination.entries.values()),
            delivered=tuple(destination.delivered.values()),
            pending=tuple((outgoing.multicast, outgoing.final) for outgoing in source.pending.values()),
            last_finals=tuple((site, peer.last_final) for site, peer in source.peers.items()),
        )

    def on_recovered(self, event: Recovered) -> None:
        """Read the log: the queue is again what it was, and what was delivered from it is delivered again.

        Which messages were delivered need not be logged: it follows from the priorities, given and final, in the order
        in which they were logged.
        """
        source, destination = self.source, self.destination
        if isinstance(event.checkpoint, State):
            self._restore(event.checkpoint)
        destination.begin_replay()
        sent: list[Outgoing] = []
        for record in event.records:
            if isinstance(record, Sent):
                sent.append(source.keep(record.multicast, self.destinations(record.multicast), record.number))
                if record.number:
                    destination.enqueue(record.multicast, record.number)
            elif isinstance(record, Proposed):
                destination.enqueue(record.multicast, record.number)
            elif isinstance(record, Decided):
                outgoing = source.pending.get(record.message)
                if outgoing is not None:
                    source.settle(outgoing, record.number)
                entry = destination.entries.get(record.message)
                if entry is not None:
                    destination.finalize(entry, record.number)
        destination.end_replay()
        if any(not outgoing.final for outgoing in source.pending.values()):
            self.branch("recovered-undecided")
        if destination.entries:
            self.branch("recovered-queue")
        source.resume(sent)
        if self.site in destination.delivered:
            source.on_acknowledge(self.site, destination.delivered[self.site])
        self.keep_ticking()
        self.declare_recovered()

    def _restore(self, state: State) -> None:
        source, destination = self.source, self.destination
        destination.restore(state.queue, state.delivered)
        destination.clock = state.clock
        for multicast, final in state.pending:
            entry = destination.entries.get(multicast.id)
            number = 0 if entry is None else entry.number
            outgoing = source.keep(multicast, self.destinations(multicast), number)
            if final:
                source.settle(outgoing, final)
        for site, last_final in state.last_finals:
            source.peer(site).last_final = last_final

    def check_invariants(self) -> None:
        """Of both roles."""
        self.source.check_invariants()
        self.destination.check_invariants()
