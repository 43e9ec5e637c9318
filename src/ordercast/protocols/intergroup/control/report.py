"""What travels in the `data` fields of control messages (2.2.2): for each process group, values that are merged on
their way through the hierarchy (3.5)."""

from __future__ import annotations

import msgspec

from ordercast.core import SiteId


class GroupReport(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far those who take part in a process group are: the acknowledgement of 3.5, and an estimate of the receivers
    (chapter 8)."""

    timestamp: int
    """Nobody still needs a message with a smaller timestamp."""
    holder: SiteId
    """Who says so: the site that holds the acknowledgement back."""
    receivers: int
    """How many take part."""

    def merge(self, other: GroupReport) -> GroupReport:
        """What both together say."""
        first = self if (self.timestamp, self.holder) <= (other.timestamp, other.holder) else other
        return GroupReport(first.timestamp, first.holder, self.receivers + other.receivers)
