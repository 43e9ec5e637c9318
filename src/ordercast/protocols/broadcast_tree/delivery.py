"""Delivery, and what the application has taken."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.core.effects import Deliver, Replay
from ordercast.protocols.broadcast_tree.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.broadcast_tree.protocol import BroadcastTree

Effect = type[Deliver] | type[Replay]


class Delivery(Part):
    """From a host to its application."""

    branches = ("waited-for-order",)

    def __init__(self, core: BroadcastTree) -> None:
        self._core = core
        self._in_order = core.options.order == "source"
        self._given: deque[tuple[Stream, int]] = deque()
        """Handed to the application and not taken yet, in order."""

    def deliver(self, stream: Stream, number: int, sender: SiteId | None, effect: Effect = Deliver) -> None:
        """As soon as it comes; or, in the order of the source, when all before it have been."""
        if not stream.is_destination:
            stream.taken.add(number)
        elif not self._in_order:
            self._give(stream, number, sender, effect)
        else:
            if number > stream.delivered + 1:
                self._core.branch("waited-for-order")
            self.deliver_waiting(stream, sender, effect)

    def deliver_waiting(self, stream: Stream, sender: SiteId | None, effect: Effect = Deliver) -> None:
        """What has waited for those before it: they have been delivered, or nobody has them any more."""
        while stream.delivered + 1 in stream.kept:
            stream.delivered += 1
            self._give(stream, stream.delivered, sender, effect)

    def _give(self, stream: Stream, number: int, sender: SiteId | None, effect: Effect) -> None:
        self._given.append((stream, number))
        self._core.outbox.append(effect(stream.kept[number], parent=sender))

    def note_floor(self, stream: Stream, sender: SiteId) -> None:
        """Nobody has the messages before the floor any more: in the order of the source, go on with what is there."""
        if self._in_order and stream.is_destination:
            self.deliver_waiting(stream, sender)

    def on_consumed(self, count: int) -> None:
        """The application has taken deliveries. After a crash the count may include replays, which are not waited
        for."""
        for _ in range(min(count, len(self._given))):
            stream, number = self._given.popleft()
            stream.taken.add(number)

    def resume(self) -> None:
        """After a crash: the application takes the replays without our counting. They are behind us."""
        self._given.clear()
        for stream in self._core.streams.values():
            in_order = self._in_order and stream.is_destination
            for first, last in ((1, stream.delivered),) if in_order else stream.numbers:
                stream.taken.add_range(first, last)
