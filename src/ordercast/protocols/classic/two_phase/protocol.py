"""The two-phase protocol: two roles at each site, one timer for both."""

from __future__ import annotations

from typing import cast

from ordercast.core import EVERY_FAULT, TOTAL_ORDER, AtRest, Context, Contract, Protocol, UsageError
from ordercast.core.effects import Replay
from ordercast.core.events import Consumed, MulticastRequested, Started
from ordercast.protocols.classic.two_phase.address import Addresses
from ordercast.protocols.classic.two_phase.arrangement import ARRANGEMENT
from ordercast.protocols.classic.two_phase.destination import Destination
from ordercast.protocols.classic.two_phase.options import TwoPhaseOptions
from ordercast.protocols.classic.two_phase.packets import Decided, State
from ordercast.protocols.classic.two_phase.source import Source
from ordercast.protocols.classic.two_phase.waiting import Waiting


class TwoPhase(Protocol):
    """Destinations propose priorities, the source takes the highest (Birman and Joseph 1987, after Skeen)."""

    parts = (Source, Destination, Waiting)
    records = (Decided, State)
    wants_consumed = True

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
            *(branch for part in parts for branch in part.branches),
            "recovered-undecided",
            "recovered-queue",
        ),
        options=TwoPhaseOptions,
        at_rest=lambda sites, groups, options: AtRest(
            messages=sites, entries=45 + 7 * sites, credit=options.window_messages
        ),
        explicit_destinations=True,
    )
    arrangement = ARRANGEMENT

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(TwoPhaseOptions, context.options)
        self.ranks = {site: rank for rank, site in enumerate(context.sites)}
        self.addresses = Addresses(context)
        self.waiting = self.attach(Waiting(self))
        self.source = self.attach(Source(self))
        self.destination = self.attach(Destination(self))

    def on_started(self, event: Started) -> None:
        """Tell the application how much it may send."""
        self.source.give_credit()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Any site may multicast to any group."""
        multicast = event.multicast
        if not self.addresses[multicast.groups, multicast.destinations].sites:
            raise UsageError("a multicast needs at least one destination")
        self.source.multicast(multicast)

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries."""
        self.destination.on_consumed(event.count)

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

    def restore(self, state: State) -> None:
        """Both roles as they were then."""
        source, destination = self.source, self.destination
        destination.restore(state.queue, state.delivered)
        destination.clock = state.clock
        for multicast, final in state.pending:
            entry = destination.entries.get(multicast.id)
            number = 0 if entry is None else entry.number
            address = self.addresses[multicast.groups, multicast.destinations]
            outgoing = source.keep(multicast, address, number)
            if final:
                source.settle(outgoing, final)
        for site, last_final in state.last_finals:
            source.peer(site).last_final = last_final

    def recall_decided(self, record: Decided) -> None:
        """At the source, at a destination, or at both. The queue is again what it was, and what was delivered from it
        is delivered again.

        Which messages were delivered need not be logged: it follows from the priorities, given and final, in the order
        in which they were logged.
        """
        outgoing = self.source.pending.get(record.message)
        if outgoing is not None:
            self.source.settle(outgoing, record.number)
        entry = self.destination.entries.get(record.message)
        if entry is not None:
            self.destination.finalize(entry, record.number, Replay)

    def resume(self) -> None:
        """Say again what nobody may have heard, and go on waiting for the rest."""
        source, destination = self.source, self.destination
        destination.resume()
        if any(not outgoing.final for outgoing in source.pending.values()):
            self.branch("recovered-undecided")
        if destination.entries:
            self.branch("recovered-queue")
        source.resume()
        if self.site in destination.delivered:
            source.note_taken(self.site, destination.delivered[self.site])
        self.waiting.keep_ticking()
