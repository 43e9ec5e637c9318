"""The order of a group: messages and changes of the sender group by timestamp, each view's after those of the one
before."""

from __future__ import annotations

from collections.abc import Container, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, SiteId
from ordercast.protocols.intergroup.packets import Data
from ordercast.protocols.intergroup.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.membership.packets import Cut
    from ordercast.protocols.intergroup.membership.view import InView


Entry = tuple[int, SiteId, int, Stream, Data]
"""Timestamp, sender and number of a message, with its stream."""


def _belongs(entry: Entry, cut: Cut, survivors: Container[SiteId]) -> bool:
    """Whether a message is before the end of a view."""
    return entry[2] <= cut.last.get(entry[1], 0) and (entry[1] in survivors or entry[0] <= cut.time)


class ViewOrder:
    """What has its turn in the order of its source waits here until nothing earlier can come of any sender.

    All processes of a group keep it, with any service: it is what views are agreed on by.
    """

    def __init__(self, member: InView) -> None:
        self._member = member
        self.queue: list[Entry] = []
        """What waits, a heap."""
        self.halted = False
        """Whether a repair is under way: nothing is delivered until it has found where the view ends."""
        self.last: tuple[int, SiteId] = (0, "")
        """Timestamp and sender of the last one."""
        self.reached = 0
        """Everything up to this time has had its turn."""
        self.count = 0
        """Application messages that have had it."""

    def __len__(self) -> int:
        return len(self.queue)

    def put(self, stream: Stream, data: Data) -> None:
        """A message has its turn in the order of its source."""
        heappush(self.queue, (data.timestamp, stream.sender, data.seq, stream, data))

    def advance(self) -> None:
        """Settle what nothing can come before."""
        queue, group = self.queue, self._member.group
        while not self.halted and group.senders.members:
            horizon = group.passed(self._member.core.clock.time)
            due: list[Entry] = []
            while queue and queue[0][0] <= horizon:
                entry = heappop(queue)
                due.append(entry)
                if entry[4].change is not None or entry[4].proxied is not None:
                    # Others may be senders then, or the proxy has sent the next one.
                    self._settle(due)
                    break
            else:
                self._settle(due)
                if horizon > self.reached:
                    self.reached = horizon
                return

    def flush(self, cut: Cut, survivors: Container[SiteId]) -> None:
        """The view ends: settle what is before the cut, in order, and drop the rest."""
        queue = self.queue
        ends = self._ends_of_the_gone(cut, survivors) if cut.time > cut.heard else {}
        while queue:
            entry = heappop(queue)
            if ends and entry[0] > cut.heard:
                self._tell_holes(entry, ends)
            if _belongs(entry, cut, survivors):
                self._settle((entry,))

    def _ends_of_the_gone(self, cut: Cut, survivors: Container[SiteId]) -> dict[SiteId, tuple[int, SiteId]]:
        """Senders that do not go on -> timestamp and sender of the last message of each that waits and belongs here."""
        ends = {sender: (0, "") for sender in self._member.members if sender not in survivors}
        for entry in self.queue:
            if entry[1] in ends and _belongs(entry, cut, survivors):
                ends[entry[1]] = max(ends[entry[1]], entry[:2])
        return ends

    def _tell_holes(self, entry: Entry, ends: dict[SiteId, tuple[int, SiteId]]) -> None:
        """Of some senders there is nothing more before a message.

        Each is told behind its last one. (All of them where the first is silent: b ends the view alone, has heard of a
        up to 1 and has d7 at 2, and its own m at 9, which depends on d8 by way of another group. Told at 1, the hole of
        d seems to lie before d7, and d8 is missing between d7 and m.)
        """
        over = [sender for sender, end in ends.items() if end < entry[:2]]
        for sender in over:
            del ends[sender]
        if over:
            self._member.tell_holes(over)

    def proxied_before(self, cut: Cut, survivors: Container[SiteId]) -> dict[SiteId, int]:
        """Who multicasts through proxies -> the number of its last message that will have had its turn when the view
        ends there."""
        found = dict(self._member.proxied)
        for entry in self.queue:
            data = entry[4]
            if data.proxied is not None and _belongs(entry, cut, survivors):
                source = data.multicast.id.source
                found[source] = max(found.get(source, 0), data.proxied.number)
        return found

    def _settle(self, entries: Sequence[Entry]) -> None:
        """They have their turn, all together. Only the last of them can be a change of the sender group, or come
        through a proxy: what that brings about may ask how far the order is."""
        if not entries:
            return
        member, group = self._member, self._member.group
        first, last = entries[0][:2], entries[-1][:2]
        if first <= self.last:
            # Those behind it come out of a heap, and no sender has two with one timestamp.
            raise InvariantViolation(f"{first[0]} of {first[1]} has its turn after {self.last}")
        own, service, count = group.own, group.service, 0
        for timestamp, _, seq, stream, data in entries:
            stream.ordered = seq
            stream.ordered_at = timestamp
            if stream is own:
                member.core.transmission.note_settled(group, seq)
            if data.change is None and data.proxied is None:
                count += data.multicast.count
                service.settle(stream, data)
        self.count += count
        self.last = last
        if last[0] > self.reached:
            self.reached = last[0]
        if data.change is not None:
            member.on_change(last[1], data)
        elif data.proxied is not None and member.on_proxied(data, data.proxied):
            self.count += data.multicast.count
            service.settle(stream, data)

    def begin(self, time: int) -> None:
        """A view begins that was not reached by the order: nothing of what waits belongs to it."""
        self.queue.clear()
        self.last = max(self.last, (time, ""))
        self.reached = max(self.reached, time)

    def waiting(self) -> list[tuple[Stream, Data]]:
        """What waits, in order."""
        return [(stream, data) for *_, stream, data in sorted(self.queue, key=lambda entry: entry[:3])]

    def oldest(self) -> int | None:
        """The earliest timestamp that waits."""
        return self.queue[0][0] if self.queue else None
