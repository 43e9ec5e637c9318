"""Mutants of the symmetric timestamps."""

from __future__ import annotations

from msgspec.structs import replace

from ordercast.core import Multicast, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.classic.lamport import Lamport
from ordercast.protocols.classic.lamport.asking import Asking
from ordercast.protocols.classic.lamport.destination import Destination, Stream
from ordercast.protocols.classic.lamport.packets import Data, Delivered, Request, Reserved, Sent, State, Tick
from ordercast.protocols.classic.lamport.source import Source
from ordercast.protocols.classic.lamport.ticking import Ticking
from tests.mutants.registry import call_without_log, mutant


@mutant(Lamport, "ticking.reserve")
def forgets_its_clock(self: Ticking) -> None:
    """The clock is told and not logged: after a crash it is behind what others have been told."""
    call_without_log(self._core, Reserved, Ticking.reserve, self)


@mutant(Lamport, "destination.hear_clock")
def believes_a_clock_at_once(self: Destination, rank: int, tick: Tick) -> bool:
    """A clock counts although messages before it have not come: one of them may have an earlier timestamp."""
    news = Destination.hear_clock(self, rank, tick)
    stream = self.streams[rank]
    stream.known = max(stream.known, tick.time)
    return news


@mutant(Lamport, "destination.take", caught_by="no-silent-divergence")
def skips_gaps(self: Destination, rank: int, number: int, data: Data) -> bool:
    """No gap detection: what comes is what is next, and what comes late is old."""
    stream: Stream = self.streams[rank]
    if number > stream.released:
        stream.delivered += number - stream.released - 1
        stream.released = stream.announced = number - 1
        stream.taken = min(stream.taken, stream.delivered)
    return Destination.take(self, rank, number, data)


@mutant(Lamport, "destination.deliver_what_is_due", caught_by="no-duplication")
def forgets_its_deliveries(self: Destination) -> None:
    """Deliveries are not logged: after a crash they are asked for, and delivered, again."""
    call_without_log(self._core, Delivered, Destination.deliver_what_is_due, self)


@mutant(Lamport, "source.multicast")
def forgets_its_messages(self: Source, multicast: Multicast) -> Data:
    """A message is not logged: after a crash the next one gets its number."""
    data: Data = call_without_log(self._core, Sent, Source.multicast, self, multicast)
    return data


@mutant(Lamport, "source.on_request", caught_by="termination")
def does_not_send_again(self: Source, sender: SiteId, packet: Request, arrival: Arrival) -> None:
    """No retransmission."""


@mutant(Lamport, "source.forget_taken", caught_by="termination")
def forgets_one_too_many(self: Source, rank: int, taken: int) -> bool:
    """One off: the message behind the last one taken is forgotten with it, though it may be lost."""
    return Source.forget_taken(self, rank, min(taken + 1, self.links[rank].highest) if taken else taken)


@mutant(Lamport, "asking.on_interval_timeout", caught_by="termination")
def waits_without_asking(self: Asking) -> None:
    """Whoever waits for a clock that was lost on the way waits for ever."""


@mutant(Lamport, "checkpoint_state")
def sums_up_one_delivery_too_few(self: Lamport) -> State:
    """A checkpoint says of each source that one message fewer was delivered than was."""
    state = Lamport.checkpoint_state(self)
    return replace(state, delivered=tuple(max(0, number - 1) for number in state.delivered))
