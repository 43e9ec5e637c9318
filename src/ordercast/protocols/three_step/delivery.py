"""Rule 5: delivery in the order of final timestamps."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, MessageId
from ordercast.core.effects import Deliver, Replay
from ordercast.protocols.parts.handover import Handover
from ordercast.protocols.parts.multicast import Mark
from ordercast.protocols.three_step.entries import Entry
from ordercast.protocols.three_step.packets import Delivered

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep


class Delivery(Handover):
    """What has a final timestamp, and what may still come before it."""

    records = (Delivered,)
    branches = ("tie",)

    def __init__(self, core: ThreeStep) -> None:
        super().__init__(core)
        self._core = core
        self._final: list[Mark] = []
        """Messages with a final timestamp that are not delivered, as a heap; dead items are dropped later."""
        self.open: deque[tuple[int, MessageId]] = deque()
        """Places of our cell, by timestamp, from the first whose message is not delivered and has no final one."""
        self._complete = 0
        """With what we have accepted, we have every place of S up to this timestamp."""
        self._pending: list[tuple[int, int]] = []
        """Words of the primary for which places are missing: the lowest and the highest."""

    # ------------------------------------------------------------------ what is known
    def begin(self) -> None:
        """Another epoch has begun: its places come next."""
        self.open.clear()
        self._complete = 0
        self._pending.clear()

    def hear_primary(self, count: int, clock: int) -> bool:
        """The primary has said, in S, a clock with so many places; it counts when we have accepted these. Whether it
        counts now, and is news.

        (Else: our clock and another follower's were raised by another cell; the primary is behind, and gives less.)
        """
        if clock <= self._complete:
            return False
        here = self._core.ordering.count
        if count <= here and not self._pending:
            self._complete = clock
            return True
        before = self._complete
        pending = [*self._pending, (count, clock)]
        for needed, said in pending:
            if needed <= here:
                self._complete = max(self._complete, said)
        left = [(needed, said) for needed, said in pending if said > self._complete]
        self._pending = sorted({min(left), max(left)}) if left else []
        return self._complete > before

    def on_final(self, entry: Entry, sequence: int) -> None:
        """The final timestamp of a message is known; what can be delivered is, at the end of the turn."""
        entry.sequence = sequence
        if entry.delivered or self._core.site not in entry.address.sites:
            return
        key = (sequence, entry.message)
        if self.mark is not None and key <= self.mark:
            raise InvariantViolation(f"{key} is final after {self.mark} was delivered")
        heappush(self._final, key)

    # ------------------------------------------------------------------ delivery
    def deliver_at_once(self, entry: Entry, sequence: int) -> None:
        """A message has the last place of our cell, goes nowhere else, and its timestamp is fixed by that, for we are a
        quorum with the primary, which has given it: (i) and (ii) hold."""
        if self._final or not self.is_lowest(sequence):
            self.on_final(entry, sequence)
            self.deliver()
            return
        core = self._core
        entry.sequence = sequence
        if core.context.stable:
            core.append(Delivered((entry.key,)))
        ready = (entry,)
        self.hand_over(ready, Deliver)
        if entry.message.source == core.site:
            core.source.note_delivered(ready)

    def deliver(self) -> None:
        """Deliver what can be delivered; which, and in which order, is logged before the application has it."""
        if not self._final:
            return
        core = self._core
        for needed, said in self._pending:
            if needed <= core.ordering.count:
                self._complete = max(self._complete, said)
        ready: list[Entry] = []
        keys: list[Mark] = []
        final, entries = self._final, core.entries
        # (i) to (iii) hold for all that come before one for which they hold: mostly all of them.
        past = final[-1][0]
        if not (self.is_primary_past(past) and self.is_quorum_past(past)):
            past = 0
        lowest = past if self.is_lowest(past) else 0
        while final:
            entry = entries.get(final[0][1])
            if entry is None or entry.delivered:
                heappop(final)
                continue
            if (entry.sequence > lowest or entry.multicast is None) and not self.is_next(entry, past):
                break
            keys.append(heappop(final))
            if final and final[0][0] == entry.sequence:
                core.branch("tie")
            ready.append(entry)
        if ready:
            if core.context.stable:
                core.append(Delivered(tuple(keys)))
            self.hand_over(ready, Deliver)
            core.source.note_delivered(ready)

    def is_next(self, entry: Entry, past: int) -> bool:
        """Whether nothing can come before it any more; (i) and (ii) are known to hold up to a timestamp."""
        t = entry.sequence
        return (
            entry.multicast is not None
            and (t <= past or (self.is_primary_past(t) and self.is_quorum_past(t)))
            and self.is_lowest(t)
        )

    def is_primary_past(self, t: int) -> bool:
        """(i): the primary gives no timestamp up to t any more in S, and we have all that it gave."""
        return self._complete >= t

    def is_quorum_past(self, t: int) -> bool:
        """(ii): nor does any later primary: a quorum has said, in S, a clock of at least t, and one of them reports
        for every later start.

        (Else: the primary alone had 7, and dies, and the next one gives 6.)
        """
        core = self._core
        return core.ordering.own_voices.clock_in(core.primary.started) >= t

    def is_lowest(self, t: int) -> bool:
        """(iii): every other message with a timestamp up to t is delivered or has its final one."""
        places = self.open
        while places:
            timestamp, message = places[0]
            entry = self._core.entries.get(message)
            if entry is not None and not entry.delivered and not entry.sequence:
                return timestamp > t
            places.popleft()
        return True

    def recall_delivered(self, record: Delivered) -> None:
        """These were delivered."""
        for sequence, message in record.keys:
            entry = self._core.entries.get(message)
            if entry is None:
                raise InvariantViolation(f"{message} was delivered, and is not in the log")
            entry.sequence = sequence
            self.hand_over((entry,), Replay)

    # ------------------------------------------------------------------ waiting
    def whom_we_wait_for(self, entry: Entry) -> str:
        """Why a message with a final timestamp is not delivered."""
        core = self._core
        t = entry.sequence
        if entry.multicast is None:
            return f"{entry.message} is known by name only"
        if not self.is_primary_past(t):
            return f"{entry.message} waits for {core.primary.primary_of(core.primary.promised)}, which orders"
        if not self.is_quorum_past(t):
            voices = core.ordering.own_voices
            started = core.primary.started
            silent = [site for site, voice in voices.said.items() if voice.epoch != started or voice.clock < t]
            return f"{entry.message} waits for {', '.join(silent)}"
        if not self.is_lowest(t):
            return f"{entry.message} waits for {self.open[0][1]}, which may come before it"
        return f"{entry.message} waits for an earlier message"
