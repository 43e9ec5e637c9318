"""The reliable services where views change: which of what has its turn in the group's order the application gets."""

from __future__ import annotations

from collections.abc import Mapping

from ordercast.protocols.intergroup.packets import Data
from ordercast.protocols.intergroup.services import SERVICES, GroupTimestamp, ReliableSource, Service
from ordercast.protocols.intergroup.stream import Stream


class TimestampInViews(Service):
    """`group-timestamp`: everything where it has its turn."""

    name = GroupTimestamp.name
    reliable = True
    promises = GroupTimestamp.promises

    def settle(self, stream: Stream, data: Data) -> None:
        """Deliver it, unless a service before has."""
        if data.seq > stream.delivered:
            self._core.hand_over(self._group, stream, data, self)


class SourceInViews(Service):
    """`reliable-source`: as soon as it has its turn in the order of its source; while a repair is under way, when the
    cut is known."""

    name = ReliableSource.name
    reliable = True
    promises = ReliableSource.promises

    def take(self, stream: Stream, data: Data) -> None:
        """Deliver it, unless nobody knows whether it belongs to the view."""
        member = self._group.member
        if member is not None and not member.order.halted and data.change is None:
            self.settle(stream, data)

    def settle(self, stream: Stream, data: Data) -> None:
        """Deliver it, unless that has happened."""
        if data.seq > stream.delivered and self.means(stream.sender):
            self._core.hand_over(self._group, stream, data, self)


IN_VIEWS: Mapping[str, type[Service]] = {
    **SERVICES,
    TimestampInViews.name: TimestampInViews,
    SourceInViews.name: SourceInViews,
}
"""By name."""
