"""What travels in the `data` fields of control messages (2.2.2): for each process group, values that are merged on
their way through the hierarchy (3.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ordercast.core import GroupId, SiteId, WireError

TIMESTAMP_MAX = 1 << 62
RECEIVERS_MAX = 1 << 32
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


class ControlData(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The `data` field. Each field here is one kind of value, by process group; a kind has `merge`, `elsewhere` and
    `check` as `GroupReport` has, and the rest of the hierarchy does not know which kinds there are."""

    reports: dict[GroupId, GroupReport] = {}

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
