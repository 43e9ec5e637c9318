"""Mutants of the two-phase protocol."""

from __future__ import annotations

from ordercast.core import MessageId, Multicast, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.classic.two_phase import TwoPhase
from ordercast.protocols.classic.two_phase.destination import Destination, Entry
from ordercast.protocols.classic.two_phase.packets import Data, Decided, Final, Proposed, Sent
from ordercast.protocols.classic.two_phase.source import Outgoing, Source
from tests.mutants.registry import call_without_log, mutant


@mutant(TwoPhase, "destination.on_data")
def forgets_priorities(self: Destination, sender: SiteId, packet: Data, arrival: Arrival) -> None:
    """A priority is told and not logged: after a crash the destination gives a lower one to a later message."""
    call_without_log(self._core, Proposed, Destination.on_data, self, sender, packet, arrival)


@mutant(TwoPhase, "destination.on_final", caught_by="no-duplication")
def forgets_final_priorities(self: Destination, sender: SiteId, packet: Final, arrival: Arrival) -> None:
    """What is delivered is not logged: after a crash the final priority comes again, and the delivery with it."""
    call_without_log(self._core, Decided, Destination.on_final, self, sender, packet, arrival)


@mutant(TwoPhase, "destination.enqueue")
def does_not_raise_its_clock(self: Destination, multicast: Multicast, number: int) -> None:
    """After a crash the clock does not know the priorities in the log, and gives them again."""
    self.entries[multicast.id] = entry = Entry(multicast, number)
    self._push(entry)


@mutant(TwoPhase, "destination.is_old")
def takes_copies_for_new(self: Destination, message: MessageId) -> bool:
    """No duplicate check: a copy of a delivered message waits in the queue, and everything behind it with it."""
    return False


@mutant(TwoPhase, "source.resend", caught_by="termination")
def says_everything_once(self: Source) -> None:
    """No retransmission."""


@mutant(TwoPhase, "source.resend")
def decides_without_the_silent(self: Source) -> None:
    """Whoever has not proposed in time is decided over: the priority may be lower than what it has delivered."""
    for outgoing in list(self.pending.values()):
        if outgoing.missing and self._core.waiting.tick - outgoing.born_tick >= 2:
            outgoing.missing.clear()
            if not outgoing.ahead:
                self._decide_if_possible(outgoing)
    Source.resend(self)


@mutant(TwoPhase, "source.multicast", caught_by="termination")
def forgets_its_messages(self: Source, multicast: Multicast) -> None:
    """A message is not logged: a source that crashes before it has decided never decides."""
    call_without_log(self._core, Sent, Source.multicast, self, multicast)


@mutant(TwoPhase, "source._decide_if_possible")
def forgets_its_decisions(self: Source, outgoing: Outgoing) -> None:
    """A decision is told and not logged: after a crash the source decides again, and differently."""
    call_without_log(self._core, Decided, Source._decide_if_possible, self, outgoing)


@mutant(TwoPhase, "source.note_taken", caught_by="termination")
def is_content_with_one(self: Source, site: SiteId, through: MessageId) -> None:
    """What one destination has taken is forgotten as if all had."""
    for other in list(self.peers):
        Source.note_taken(self, other, through)
