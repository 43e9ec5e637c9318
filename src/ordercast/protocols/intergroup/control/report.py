"""What travels in the `data` fields of control messages (2.2.2): for each process group, values that are merged on
their way through the hierarchy (3.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ordercast.core import GroupId, SiteId, WireError

TIMESTAMP_MAX = 1 << 62
RECEIVERS_MAX = 1 << 32
CUT_SENDERS_MAX = 1024
"""Larger ones come from nobody's clock, and from no network."""


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

    def elsewhere(self) -> GroupReport:
        """The same from somebody who is counted elsewhere."""
        return GroupReport(self.timestamp, self.holder, 0)

    def check(self) -> None:
        """Refuse what nobody can have reported."""
        if not (0 <= self.receivers < RECEIVERS_MAX and -TIMESTAMP_MAX < self.timestamp < TIMESTAMP_MAX):
            raise WireError(f"a report of {self.receivers} receivers at {self.timestamp}")


class CutReport(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What those who wait for a new view have of an old one (5.4.2): the most that can be recovered from it."""

    epoch: tuple[int, str, int]
    """Which view."""
    last: dict[SiteId, int]
    """Sender -> the last number that somebody has, without a gap before it."""
    time: int
    """The timestamp of the last message that somebody has delivered in the order of all senders."""
    reporters: int
    """How many have said so."""

    def merge(self, other: CutReport) -> CutReport:
        """What both together say; of two views the later one, for processes that come to no end with the earlier one
        find out otherwise."""
        if self.epoch != other.epoch:
            return max(self, other, key=lambda report: report.epoch)
        last = dict(self.last)
        for sender, seq in other.last.items():
            last[sender] = max(last.get(sender, 0), seq)
        return CutReport(self.epoch, last, max(self.time, other.time), self.reporters + other.reporters)

    def elsewhere(self) -> CutReport:
        """The same from somebody who is counted elsewhere."""
        return CutReport(self.epoch, self.last, self.time, 0)

    def check(self) -> None:
        """Refuse what nobody can have reported."""
        if len(self.last) > CUT_SENDERS_MAX or not 0 <= self.reporters < RECEIVERS_MAX:
            raise WireError(f"a cut of {len(self.last)} senders")
        if any(not 0 <= seq < TIMESTAMP_MAX for seq in (self.time, *self.last.values())):
            raise WireError("a cut at a number that no message has")


class ControlData(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The `data` field. Each field here is one kind of value, by process group; a kind has `merge`, `elsewhere` and
    `check` as `GroupReport` has, and the rest of the hierarchy does not know which kinds there are."""

    reports: dict[GroupId, GroupReport] = {}
    cuts: dict[GroupId, CutReport] = {}

    def check(self, groups_max: int) -> None:
        """Refuse what is impossible, or too much."""
        for kind in KINDS:
            values: dict[GroupId, Any] = getattr(self, kind)
            if len(values) > groups_max:
                raise WireError(f"control data of {len(values)} groups")
            for value in values.values():
                value.check()

    def elsewhere(self) -> ControlData:
        """The same from somebody who is counted elsewhere."""
        return ControlData(
            *({group: value.elsewhere() for group, value in getattr(self, kind).items()} for kind in KINDS)
        )


KINDS = ControlData.__struct_fields__

NO_DATA = ControlData()


def merge(data: Iterable[ControlData]) -> ControlData:
    """What all of them together say, of each kind and group."""
    merged: tuple[dict[GroupId, Any], ...] = tuple({} for _ in KINDS)
    for each in data:
        for kind, values in zip(KINDS, merged, strict=True):
            for group, value in getattr(each, kind).items():
                values[group] = values[group].merge(value) if group in values else value
    return ControlData(*merged)
