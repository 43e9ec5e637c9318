"""The order of a group: messages and changes of the sender group by timestamp, each view's after those of the one
before."""

from __future__ import annotations

from collections.abc import Container
from heapq import heappop, heappush
from typing import TYPE_CHECKING
from zlib import crc32

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
        self._queue: list[Entry] = []
        self.halted = False
        """Whether a repair is under way: nothing is delivered until it has found where the view ends."""
        self.last: tuple[int, SiteId] = (0, "")
        """Timestamp and sender of the last one."""
        self.reached = 0
        """Everything up to this time has had its turn."""
        self.count = 0
        """Application messages that have had it."""
        self.history = 0
        """A checksum of all that has had its turn since the last repair. Views that PAdd and PLeave make are named by
        it. (Named by the change alone: a and b lose each other with PLeave under way; a has m before it, b can no
        longer get m; both install the view without the leaver after the same one, and have delivered different
        messages in that.)"""

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, stream: Stream, data: Data) -> None:
        """A message has its turn in the order of its source."""
        heappush(self._queue, (data.timestamp, stream.sender, data.seq, stream, data))

    def advance(self) -> None:
        """Settle what nothing can come before."""
        queue, group = self._queue, self._member.group
        while not self.halted:
            horizon = group.passed(self._member.core.clock.time)
            if not group.senders.members:
                return
            if not queue or queue[0][0] > horizon:
                self.reached = max(self.reached, horizon)
                return
            self._settle(heappop(queue))

    def flush(self, cut: Cut, survivors: Container[SiteId]) -> None:
        """The view ends: settle what is before the cut, in order, and drop the rest."""
        queue = self._queue
        told = cut.time <= cut.heard
        while queue:
            entry = heappop(queue)
            if not told and entry[0] > cut.heard:
                told = True
                self._member.tell_holes(survivors)
            if _belongs(entry, cut, survivors):
                self._settle(entry)

    def proxied_before(self, cut: Cut, survivors: Container[SiteId]) -> dict[SiteId, int]:
        """Who multicasts through proxies -> the number of its last message that will have had its turn when the view
        ends there."""
        found = dict(self._member.proxied)
        for entry in self._queue:
            data = entry[4]
            if data.proxied is not None and _belongs(entry, cut, survivors):
                source = data.multicast.id.source
                found[source] = max(found.get(source, 0), data.proxied.number)
        return found

    def _settle(self, entry: Entry) -> None:
        timestamp, sender, seq, stream, data = entry
        if (timestamp, sender) <= self.last:
            raise InvariantViolation(f"{timestamp} of {sender} has its turn after {self.last}")
        self.last = (timestamp, sender)
        self.history = crc32(b"%d %s" % (timestamp, sender.encode()), self.history)
        self.reached = max(self.reached, timestamp)
        stream.ordered, stream.ordered_at = seq, timestamp
        group = self._member.group
        if stream is group.own:
            self._member.core.transmission.note_settled(group, seq)
        if data.change is not None:
            self._member.on_change(sender, data)
            return
        if data.proxied is not None and not self._member.on_proxied(data, data.proxied):
            return
        self.count += data.multicast.count
        group.service.settle(stream, data)

    def begin(self, time: int) -> None:
        """A view begins that was not reached by the order: nothing of what waits belongs to it."""
        self._queue.clear()
        self.history = 0
        self.last = max(self.last, (time, ""))
        self.reached = max(self.reached, time)

    def waiting(self) -> list[tuple[Stream, Data]]:
        """What waits, in order."""
        return [(stream, data) for *_, stream, data in sorted(self._queue, key=lambda entry: entry[:3])]

    def oldest(self) -> int | None:
        """The earliest timestamp that waits."""
        return self._queue[0][0] if self._queue else None
