"""Step 5: potential predecessors from histories, and delivery in the order of sequence numbers.

A message is delivered when a majority of the cell has promised that its history is complete up to the message's
sequence number, and everything in these histories with a timestamp that is not higher is decided. Of what is decided
the lowest is first.

The *promise* of a site: with the first `count` entries its history is complete up to that timestamp. An entry counts
only when a promise covers it: then its body is with a majority of the cell, or has come with the promise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, MessageId, Multicast, SiteId, WireError
from ordercast.core.effects import Deliver, Replay
from ordercast.core.events import Arrival
from ordercast.protocols.parts.handover import Handover
from ordercast.protocols.parts.multicast import Mark
from ordercast.protocols.scalatom.entries import Entry
from ordercast.protocols.scalatom.packets import Delivered, History, Resumption, Stamps

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom

BODY_BYTES_MAX = 32768
"""Bodies in one history, unless one alone is larger: half of the largest datagram."""


FIRST_TIMESTAMP = 1
"""No sequence number is lower."""


class Mate:
    """The history of another site of the cell, as far as it is known here."""

    __slots__ = ("_ahead", "_pending", "_uncovered", "applied", "promise", "resumption")

    def __init__(self) -> None:
        self.applied = 0
        """So many entries, from the first, are known."""
        self.promise = 0
        self.resumption: Resumption | None = None
        """What it no longer has for us, when it had given us up: its history does not count before we are past that."""
        self._ahead: dict[int, tuple[MessageId, int]] = {}
        """Entries that came before earlier ones; as many as are not over, at the most."""
        self._pending: list[tuple[int, int]] = []
        """Promises for which entries are missing: the lowest and the highest."""
        self._uncovered: deque[tuple[MessageId, int]] = deque()
        """Entries that no promise covers yet."""

    def add(self, index: int, message: MessageId, timestamp: int) -> None:
        """An entry; it counts when all before it are here."""
        if index < 0:
            index, timestamp = -index, FIRST_TIMESTAMP
        if index > self.applied:
            self._ahead[index] = (message, timestamp)

    def apply(self) -> None:
        """Take what is contiguous. (Not contiguous: of the entries 1, 2, 3, with a promise for 3, the second is still
        under way, and what it names is not waited for.)"""
        while self.applied + 1 in self._ahead:
            self.applied += 1
            self._uncovered.append(self._ahead.pop(self.applied))

    def skip_to(self, base: int) -> None:
        """What is not here of the first `base` entries is over."""
        for index in sorted(index for index in self._ahead if index <= base):
            self._uncovered.append(self._ahead.pop(index))
        self.applied = max(self.applied, base)
        self.apply()

    def add_promise(self, count: int, promise: int) -> None:
        """A promise; it counts when its entries are here. An older one does not take a later one back."""
        if promise > self.promise:
            pending = [*self._pending, (count, promise)]
            self._pending = sorted({min(pending), max(pending)})

    def forget_uncovered(self) -> None:
        """All that the entries name is over. (They wait for a promise that may never come: what they name was decided
        below their timestamps.)"""
        self._uncovered.clear()

    def newly_covered(self) -> Iterator[tuple[MessageId, int]]:
        """The entries that have become part of the history."""
        for count, promise in self._pending:
            if count <= self.applied:
                self.promise = max(self.promise, promise)
        self._pending = [(count, promise) for count, promise in self._pending if promise > self.promise]
        while self._uncovered and self._uncovered[0][1] <= self.promise:
            yield self._uncovered.popleft()


class Histories(Handover):
    """The histories of one cell, at one of its sites."""

    packets = (History,)
    timers = ("history",)
    records = (Delivered,)
    branches = ("history-piggybacked", "history-with-bodies")

    def __init__(self, core: Scalatom) -> None:
        super().__init__(core)
        self._core = core
        self.count = 0
        """Entries in our own history, ever."""
        self._own: dict[int, Entry] = {}
        """Those that are not over everywhere, by index; timestamps ascend with it."""
        self._unstable: dict[int, Entry] = {}
        """Those of them whose body perhaps nobody else in the cell has."""
        self.promised = 0
        """The highest promise that we have made."""
        self.lowest = 0
        """After a lost log: a lower promise would leave out what we have stamped and forgotten, and is not made."""
        self._wanted = 0
        self._wanted_for: MessageId | None = None
        self._topic: MessageId | None = None
        """A message with which we have promised, by which the packet can be judged."""
        self.mates: dict[SiteId, Mate] = {site: Mate() for site in core.cellmates}
        self._majority = (len(core.cellmates) + 1) // 2 + 1
        self._blockers: list[tuple[int, MessageId]] = []
        """Timestamps in histories of messages that were not decided then, as a heap; dead items are dropped later."""
        self._decided: list[tuple[int, MessageId]] = []
        """Decided and not delivered, as a heap."""

    # ------------------------------------------------------------------ our own history
    def add_own(self, entry: Entry) -> int:
        """R-deliver is an event of our history; its place in it."""
        self.count += 1
        self._own[self.count] = entry
        self._unstable[self.count] = entry
        heappush(self._blockers, (self._lowest_number(entry), entry.message))
        return self.count

    def _lowest_number(self, entry: Entry) -> int:
        return FIRST_TIMESTAMP if self.is_stamped_again(entry) else entry.timestamp

    def is_stamped_again(self, entry: Entry) -> bool:
        """Whether we may have given it another timestamp before we lost our log: its number may be lower than this one.

        (Else: a has forgotten that it gave m 15, and gives it 23. 17 is decided with the 15. b takes a's history, in
        which m stands at 23, and delivers 20.)
        """
        return 0 < entry.timestamp <= self.lowest

    def told_index(self, entry: Entry) -> int:
        """Its place in our history, for others."""
        return -entry.index if self.is_stamped_again(entry) else entry.index

    def restore_own(self, entry: Entry) -> None:
        """From the log."""
        self.count = max(self.count, entry.index)
        self._own[entry.index] = entry
        if not entry.sequence:
            self._unstable[entry.index] = entry
            heappush(self._blockers, (self._lowest_number(entry), entry.message))

    def note_stable(self, entry: Entry) -> None:
        """Whether a majority of the cell has the body: then one that stays up has it."""
        if entry.index in self._unstable and self.is_stable(entry):
            del self._unstable[entry.index]

    def is_stable(self, entry: Entry) -> bool:
        """A site has logged what it has stamped; what is decided was stamped by a majority."""
        if entry.sequence:
            return True
        present = sum(site in entry.stamps for site in self.mates) + (self._core.site in entry.stamps)
        return present >= self._majority

    def forget(self, entry: Entry) -> None:
        """It is over everywhere."""
        self._own.pop(entry.index, None)
        self._unstable.pop(entry.index, None)
        if not self._core.entries:
            for mate in self.mates.values():
                mate.forget_uncovered()

    # ------------------------------------------------------------------ promises
    def piggyback(self, message: MessageId) -> tuple[int, int]:
        """What a packet about a message promises, which goes to the whole cell anyway: our history up to the first
        entry whose body is unstable and has not been sent."""
        self._topic = message
        unsent = (entry.timestamp for entry in self._unstable.values() if entry.timestamp > self.promised)
        self.promised = next(unsent, self._core.ordering.clock) - 1
        return self._count_through(self.promised), self._audible(self.promised)

    def _audible(self, promise: int) -> int:
        return promise if promise >= self.lowest else 0

    def _count_through(self, promise: int) -> int:
        count = self.count
        for index in reversed(self._own):
            if self._own[index].timestamp <= promise:
                break
            count = index - 1
        return count

    def promise_through(self, sequence: int, message: MessageId) -> None:
        """A sequence number is decided: the cell needs our history up to there."""
        if not self.mates or self._core.loss.lost:
            return
        sequence = max(sequence, self.lowest)
        self._topic = message
        if self.promised >= sequence:
            self._core.branch("history-piggybacked")
            return
        if self._wanted_for is None and self._core.options.history_seconds > 0:
            self._core.set_timer("history", self._core.options.history_seconds)
        self._wanted = max(self._wanted, sequence)
        self._wanted_for = message
        if self._core.options.history_seconds <= 0:
            self.on_history_timeout()

    def on_history_timeout(self) -> None:
        """Send the history, unless something has carried it meanwhile."""
        message, self._wanted_for = self._wanted_for, None
        if message is None:
            return
        core = self._core
        core.ordering.send_stamps()
        if self.promised >= self._wanted:
            core.branch("history-piggybacked")
            return
        self._send(tuple(self.mates), self.promised, self._wanted, message)
        self.promised = self._wanted

    def tell_again(self, site: SiteId) -> None:
        """A site of the cell has lost its memory, or our letters: promise it what we have promised all.

        (Only what we were asked for by a decision: a promise that went with a timestamp is lost in the crash of b; the
        decision comes, we have promised enough already, and say nothing; with c gone b waits for ever.)
        """
        if self._topic is not None:
            self._send((site,), 0, self.promised, self._topic)

    def _send(self, to: tuple[SiteId, ...], low: int, high: int, message: MessageId) -> None:
        core = self._core
        while low < high:
            low, bodies = self.bodies_between(low, high)
            if bodies:
                core.branch("history-with-bodies")
            core.link.post(
                to,
                History(core.link.next, message, self._count_through(low), self._audible(low), bodies, core.loss.lives),
            )

    def bodies_between(self, low: int, high: int) -> tuple[int, tuple[Multicast, ...]]:
        """The bodies of unstable entries above one timestamp, up to another, or as many as fit; and what can be
        promised then.

        (Without them: p alone has m', promises, and is gone; whoever has its history waits for m' for ever.)
        """
        bodies: list[Multicast] = []
        size = 0
        for entry in self._unstable.values():
            if entry.timestamp <= low or entry.multicast is None:
                continue
            if entry.timestamp > high:
                break
            size += len(entry.multicast.payload)
            if bodies and size > BODY_BYTES_MAX:
                return entry.timestamp - 1, tuple(bodies)
            bodies.append(entry.multicast)
        return high, tuple(bodies)

    # ------------------------------------------------------------------ the histories of the others
    def add_stamps(self, sender: SiteId, packet: Stamps) -> None:
        """New entries, and a promise."""
        mate = self.mates[sender]
        for stamp in packet.stamps:
            mate.add(stamp.index, stamp.message, stamp.timestamp)
        mate.apply()
        self.on_promise(mate, packet.count, packet.promise)

    def on_history(self, sender: SiteId, packet: History, arrival: Arrival) -> None:
        """A promise, with bodies: whoever learns of a message in this way takes it as R-delivered."""
        core = self._core
        mate = self.mates.get(sender)
        if mate is None:
            raise WireError(f"{sender} sent its history to {core.site}, which is in another cell")
        for body in packet.bodies:
            core.multicast.take(sender, body)
        self.on_promise(mate, packet.count, packet.promise)
        core.link.acknowledge(sender, packet)

    def on_promise(self, mate: Mate, count: int, promise: int) -> None:
        """A history is complete up to a timestamp, when its first `count` entries are here."""
        mate.add_promise(count, promise)
        self.on_applied(mate)

    def on_applied(self, mate: Mate) -> None:
        """More entries, or a promise: some of them are part of the history now."""
        for message, timestamp in mate.newly_covered():
            entry = self._core.entries.get(message)
            if entry is not None and not entry.sequence:
                heappush(self._blockers, (timestamp, message))
        self.deliver()

    # ------------------------------------------------------------------ delivery
    def on_decided(self, entry: Entry) -> None:
        """It stands in the order of delivery."""
        self._unstable.pop(entry.index, None)
        if self.mark is not None and entry.key <= self.mark:
            raise InvariantViolation(f"{entry.key} is decided after {self.mark} was delivered")
        heappush(self._decided, entry.key)

    def deliver(self) -> None:
        """Deliver what can be delivered, and log how far that is before the application has it."""
        core = self._core
        if core.loss.lost:
            return
        # Again, since the history of a site that had given us up may count now.
        while ready := list(self._take_deliverable()):
            core.append(Delivered(*ready[-1].key))
            self.hand_over(ready, Deliver)
            core.returning.on_moved()

    def _take_deliverable(self) -> Iterator[Entry]:
        decided = self._decided
        while decided:
            sequence, message = decided[0]
            entry = self._core.entries[message]
            if entry.multicast is None or not self.is_complete(sequence) or not self.is_first(sequence):
                return
            heappop(decided)
            yield entry

    def is_complete(self, sequence: int) -> bool:
        """Whether a majority of the cell has promised its history up to there; our own is always complete."""
        present = 1 + sum(mate.promise >= sequence and self.is_usable(mate) for mate in self.mates.values())
        return present >= self._majority

    def is_usable(self, mate: Mate) -> bool:
        """Whether a history lacks nothing that we need.

        (Else: b has given us up and forgotten m; we take b's history, in which m is not, for complete, and deliver what
        comes after m, while c keeps m for us.)
        """
        return mate.resumption is None or self._core.has_reached(mate.resumption.through)

    def is_first(self, sequence: int) -> bool:
        """Whether everything in the histories that could get a sequence number as low is decided.

        As low, and not only lower: with equal numbers the names decide (erratum).
        """
        blockers = self._blockers
        while blockers:
            timestamp, message = blockers[0]
            entry = self._core.entries.get(message)
            if entry is not None and not entry.sequence:
                return timestamp > sequence
            heappop(blockers)
        return True

    # ------------------------------------------------------------------ crash and recovery
    def recall_delivered(self, record: Delivered) -> None:
        """Everything up to here was delivered."""
        decided = self._decided
        mark = (record.sequence, record.message)
        while decided and decided[0] <= mark:
            self.hand_over((self._core.entries[heappop(decided)[1]],), Replay)
        self.mark = mark

    def skip_through(self, mark: Mark) -> None:
        """Of what is not delivered up to there, nothing ever will be."""
        self.mark = mark
        while self._decided and self._decided[0] <= mark:
            self._core.keeping.forget(self._core.entries[heappop(self._decided)[1]])

    def resume(self) -> None:
        """Say how far our history is complete. (We may have crashed between a decision and that, and nobody asks.)"""
        decided = [entry.key for entry in self._core.entries.values() if entry.sequence]
        if decided:
            self.promise_through(*max(decided))
        self.deliver()

    # ------------------------------------------------------------------ waiting
    def whom_we_wait_for(self, entry: Entry) -> str:
        """Why a decided message is not delivered."""
        if not self.is_complete(entry.sequence):
            silent = [
                site for site, mate in self.mates.items() if mate.promise < entry.sequence or not self.is_usable(mate)
            ]
            return f"{entry.message} waits for the histories of {', '.join(silent)}"
        if not self.is_first(entry.sequence):
            return f"{entry.message} waits for {self._blockers[0][1]}, which may come before it"
        return f"{entry.message} waits for an earlier message"

    def check_invariants(self) -> None:
        """Nothing that could be delivered waits, nothing waits before what was delivered."""
        if self._decided:
            sequence, message = self._decided[0]
            if self.mark is not None and (sequence, message) <= self.mark:
                raise InvariantViolation(f"{message} waits before {self.mark}, which is delivered")
            complete = self._core.entries[message].multicast is not None and self.is_complete(sequence)
            if complete and self.is_first(sequence):
                raise InvariantViolation(f"{message} could be delivered and is not")
        if list(self._own) != sorted(self._own):
            raise InvariantViolation("the history is not in order")
        if any(entry.timestamp >= self._core.ordering.clock for entry in self._own.values()):
            raise InvariantViolation(f"a timestamp is not below the clock, {self._core.ordering.clock}")
