"""The destination's part: give priorities, and deliver what has its final one and is first."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, MessageId, Multicast, Part, SiteId, WireError
from ordercast.core.effects import Deliver, Replay
from ordercast.core.events import Arrival
from ordercast.protocols.classic.two_phase.packets import (
    Acknowledge,
    Data,
    Decided,
    Final,
    Noted,
    Proposal,
    Proposed,
)

if TYPE_CHECKING:
    from ordercast.protocols.classic.two_phase.protocol import TwoPhase

Key = tuple[int, int, int, int]
"""Priority number; then rank of the source, incarnation and number of the message, which make it unique."""


class Entry:
    """A message in the queue."""

    __slots__ = ("final", "multicast", "number")

    def __init__(self, multicast: Multicast, number: int) -> None:
        self.multicast = multicast
        self.number = number
        self.final = False
        """Deliverable in the words of the paper: `number` is the final priority."""


class Destination(Part):
    """A site to which messages are addressed."""

    packets = (Data, Final)
    timers = ("acknowledge",)
    records = (Proposed,)
    branches = ("moved-back", "old", "proposed-again", "noted")

    def __init__(self, core: TwoPhase) -> None:
        self._core = core
        self.clock = 0
        """The highest priority number given or seen here."""
        self.entries: dict[MessageId, Entry] = {}
        """The queue. It holds at most a window of each source, because a source sends no more until we acknowledge; a
        bound of its own would not do. (Two destinations, full of messages for which each wants the other's priority,
        would refuse each other for ever.)"""
        self.delivered: dict[SiteId, MessageId] = {}
        """Of each source the last message delivered: what is not later is old. This is all that must be remembered of
        finished messages, because the messages of a source are delivered in the order of their names."""
        self.last_key: Key | None = None
        self._heap: list[tuple[int, int, int, int, Entry]] = []
        """The queue in order; a message whose priority has changed leaves its old place behind as a dead item."""
        self._given: deque[MessageId] = deque()
        """Handed to the application and not taken yet, in order."""
        self._taken: dict[SiteId, MessageId] = {}
        self._unreported: dict[SiteId, int] = {}
        """Source -> messages taken since it was told; 0: it asks to be told again."""
        self.asked_again: set[SiteId] = set()
        """The sources that in this interval have announced again what waits here for others before it."""
        self._head: Entry | None = None
        self._head_tick = 0

    # ------------------------------------------------------------------ first phase
    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """Give it a priority, or say again which one it has.

        The priority is stable before the source hears of it. (Else: d gives m 3, e gave it 2, the source announces 3
        and e delivers m; d has crashed, and forgotten m. m' comes, e gives it 4 and d gives it 1: 4 is announced, d
        delivers m' and then, when m is sent to it again, m; e delivered them the other way round.)
        """
        core = self._core
        multicast = packet.multicast
        message = multicast.id
        address = core.addresses[multicast.groups, multicast.destinations]
        if message.source != sender or core.site not in address.sites:
            raise WireError(f"{sender} sent a message that is not its own, or not for {core.site}")
        if sender not in core.ranks:
            raise WireError(f"{sender} is not a site of the system")
        if sender == core.site:
            # To ourselves only after a crash, and then we have given it a priority already.
            return
        entry = self.entries.get(message)
        if entry is not None:
            if not entry.final:
                core.branch("proposed-again")
                core.send((sender,), Proposal(message, entry.number))
            return
        if self.is_old(message):
            self._report_again(sender)
            return
        number = self.give_number()
        core.append(Proposed(multicast, number))
        self.enqueue(multicast, number)
        core.send((sender,), Proposal(message, number))
        core.waiting.keep_ticking()

    def is_old(self, message: MessageId) -> bool:
        """Whether the message was delivered here."""
        last = self.delivered.get(message.source)
        return last is not None and message <= last

    def give_number(self) -> int:
        """A priority number higher than any given or seen here."""
        self.clock += 1
        return self.clock

    def enqueue(self, multicast: Multicast, number: int) -> None:
        """Put a message in the queue, undeliverable, with the priority that it was given here."""
        entry = self.entries[multicast.id] = Entry(multicast, number)
        self.clock = max(self.clock, number)
        self._push(entry)

    def _push(self, entry: Entry) -> None:
        message = entry.multicast.id
        rank = self._core.ranks[message.source]
        heappush(self._heap, (entry.number, rank, message.incarnation, message.number, entry))

    # ------------------------------------------------------------------ second phase
    def on_final(self, sender: SiteId, packet: Final, arrival: Arrival) -> None:
        """The priority is final: log it, and deliver what can be delivered."""
        core = self._core
        message = packet.message
        if message.source != sender:
            raise WireError(f"{sender} announced the priority of a message that is not its own")
        entry = self.entries.get(message)
        if entry is None:
            if self.is_old(message):
                self._report_again(sender)
            return
        if entry.final:
            core.branch("noted")
            core.send((sender,), Noted(message))
            self.asked_again.add(sender)
        elif packet.number >= entry.number:
            core.append(Decided(message, packet.number))
            self.finalize(entry, packet.number)

    def finalize(self, entry: Entry, number: int, effect: type[Deliver] | type[Replay] = Deliver) -> None:
        """Replace the priority, mark the message deliverable, and deliver from the front.

        The record is written: no crash delivers a message twice, or another in its place.
        """
        entry.final = True
        self.clock = max(self.clock, number)
        if number != entry.number:
            entry.number = number
            self._push(entry)
            if self._first() is not entry:
                self._core.branch("moved-back")
        self._deliver_from_front(effect)

    def _first(self) -> Entry | None:
        """The entry with the lowest priority; dead items in front of it are dropped."""
        heap = self._heap
        while heap and heap[0][0] != heap[0][4].number:
            heappop(heap)
        return heap[0][4] if heap else None

    def _deliver_from_front(self, effect: type[Deliver] | type[Replay]) -> None:
        core = self._core
        heap = self._heap
        while (entry := self._first()) is not None and entry.final:
            number, rank, incarnation, message_number, _ = heappop(heap)
            key = (number, rank, incarnation, message_number)
            if self.last_key is not None and key <= self.last_key:
                raise InvariantViolation(f"{key} is delivered after {self.last_key}")
            self.last_key = key
            message = entry.multicast.id
            del self.entries[message]
            self.delivered[message.source] = message
            self._given.append(message)
            core.outbox.append(effect(entry.multicast, key, message.source))

    # ------------------------------------------------------------------ acknowledgements
    def on_consumed(self, count: int) -> None:
        """The application has taken deliveries; their sources hear of it from time to time.

        The count may include replays that the application had not seen before a crash, so it can exceed what we know.
        """
        core = self._core
        for _ in range(min(count, len(self._given))):
            message = self._given.popleft()
            source = message.source
            self._taken[source] = message
            if source == core.site:
                core.source.note_taken(source, message)
                continue
            unreported = self._unreported.get(source, 0) + 1
            if unreported >= core.options.acknowledge_every:
                self._unreported.pop(source, None)
                core.send((source,), Acknowledge(message))
            else:
                self._report_soon(source, unreported)

    def _report_again(self, source: SiteId) -> None:
        """The source repeats itself: it has not heard that we are done."""
        self._core.branch("old")
        if source not in self._unreported:
            self._report_soon(source, 0)

    def _report_soon(self, source: SiteId, unreported: int) -> None:
        if not self._unreported:
            self._core.set_timer("acknowledge", self._core.options.acknowledge_seconds)
        self._unreported[source] = unreported

    def on_acknowledge_timeout(self) -> None:
        """Tell the sources what was taken."""
        for source in sorted(self._unreported):
            if source in self._taken:
                self._core.send((source,), Acknowledge(self._taken[source]))
        self._unreported.clear()

    # ------------------------------------------------------------------ crash and recovery
    def recall_proposed(self, record: Proposed) -> None:
        """A message that was given a priority here."""
        self.enqueue(record.multicast, record.number)

    def resume(self) -> None:
        """The log is read. The application takes the replays without our counting: they are behind us."""
        self._given.clear()
        self._taken = dict(self.delivered)

    def restore(self, queue: tuple[tuple[Multicast, int, bool], ...], delivered: tuple[MessageId, ...]) -> None:
        """The state of a checkpoint."""
        self.delivered = {message.source: message for message in delivered}
        for multicast, number, final in queue:
            self.enqueue(multicast, number)
            self.entries[multicast.id].final = final

    # ------------------------------------------------------------------ blocking
    def find_undelivered(self) -> tuple[SiteId, str] | None:
        """For whom the first message in the queue waits, and why; None when it does not wait for long, or is our own:
        for whom that waits the source's part knows."""
        core = self._core
        head = self._first()
        if head is not self._head:
            self._head, self._head_tick = head, core.waiting.tick
        if head is None or not core.waiting.is_long(self._head_tick):
            return None
        source = head.multicast.id.source
        return None if source == core.site else (source, f"site {source} has not decided {head.multicast.id}")

    def check_invariants(self) -> None:
        """Nothing deliverable is first, nothing waits before what was delivered, no number exceeds the clock."""
        head = self._first()
        if head is None:
            if self.entries:
                raise InvariantViolation(f"{len(self.entries)} messages are not in the order of the queue")
            return
        if head.final:
            raise InvariantViolation(f"{head.multicast.id} is first and deliverable, and not delivered")
        if self.last_key is not None and self._heap[0][:4] <= self.last_key:
            raise InvariantViolation(f"{head.multicast.id} waits before {self.last_key}, which is delivered")
        if sum(item[0] == item[4].number for item in self._heap) != len(self.entries):
            raise InvariantViolation("the queue and its order do not hold the same messages")
        if max(entry.number for entry in self.entries.values()) > self.clock:
            raise InvariantViolation(f"a priority is above {self.clock}, the highest given or seen")
