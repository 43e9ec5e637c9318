"""The reliable services where views change: which of what has its turn in the group's order the application gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ordercast.core import SiteId
from ordercast.protocols.intergroup.packets import Data
from ordercast.protocols.intergroup.services import SERVICES, GroupTimestamp, ReliableSource, Service
from ordercast.protocols.intergroup.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.group import ProcessGroup
    from ordercast.protocols.intergroup.protocol import InterGroup


class TimestampInViews(Service):
    """`group-timestamp`: everything where it has its turn."""

    name = GroupTimestamp.name
    reliable = True
    certified = True
    promises = GroupTimestamp.promises
    follows_group = True

    def settle(self, stream: Stream, data: Data) -> None:
        """Deliver it, unless a service before has."""
        if data.seq > stream.delivered or data.proxied is not None:
            self._core.hand_over(self._group, stream, data, self)


class SourceInViews(Service):
    """`reliable-source`: as soon as it has its turn in the order of its source; while a repair is under way, when the
    cut is known."""

    name = ReliableSource.name
    reliable = True
    promises = ReliableSource.promises

    def __init__(self, core: InterGroup, group: ProcessGroup, sources: frozenset[SiteId] | None) -> None:
        super().__init__(core, group, sources)
        self._held: dict[SiteId, int] = {}
        """New senders -> their last message that waits for its turn among all."""

    def take(self, stream: Stream, data: Data) -> None:
        """Deliver it, unless nobody knows whether it belongs to the view."""
        member = self._group.member
        if member is None or member.order.halted or data.change is not None or data.proxied is not None:
            return
        sender = stream.sender
        if sender not in member.members or self._held.get(sender, 0) > stream.ordered:
            # What it has multicast through a proxy before it became a sender has its turn before its PAdd.
            self._held[sender] = data.seq
            return
        self._held.pop(sender, None)
        self.settle(stream, data)

    def settle(self, stream: Stream, data: Data) -> None:
        """Deliver it, unless that has happened. Which messages by proxy are new, only the order of all can say."""
        if data.proxied is not None or (data.seq > stream.delivered and self.means(stream.sender)):
            self._core.hand_over(self._group, stream, data, self)


IN_VIEWS: Mapping[str, type[Service]] = {
    **SERVICES,
    TimestampInViews.name: TimestampInViews,
    SourceInViews.name: SourceInViews,
}
"""By name."""
