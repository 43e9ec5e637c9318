"""Deliveries in the order of their keys, and how many of each group there were."""

from __future__ import annotations

from ordercast.core import GroupId, InvariantViolation, Part
from ordercast.core.effects import Deliver, Replay
from ordercast.protocols.parts.kept import Keeper, Kept
from ordercast.protocols.parts.multicast import Mark


class Handover(Part):
    """The part of a host that gives messages to the application. Which is next, a subclass decides."""

    def __init__(self, core: Keeper) -> None:
        self._host = core
        self.mark: Mark | None = None
        """The last delivery, or what was skipped behind it."""
        self.offsets: dict[GroupId, int] = {
            group: 0 for group, members in sorted(core.context.groups.items()) if core.site in members
        }
        """How many application messages were delivered in each group of our cell up to there: the same everywhere."""

    def hand_over(self, entry: Kept, effect: type[Deliver] | type[Replay]) -> None:
        """Deliver a message, or deliver it again from the log."""
        core = self._host
        if entry.multicast is None:
            raise InvariantViolation(f"{entry.message} is delivered without a body")
        mark = entry.key
        if self.mark is not None and mark <= self.mark:
            raise InvariantViolation(f"{mark} is delivered after {self.mark}")
        self.mark = mark
        entry.delivered = True
        multicast, message, offsets = entry.multicast, entry.message, self.offsets
        for group in multicast.groups:
            if group in offsets:
                offsets[group] += multicast.count
        key = (entry.sequence, core.ranks[message.source], message.incarnation, message.number)
        core.outbox.append(effect(multicast, key, message.source))
        if effect is Deliver:
            core.keeping.on_given(entry)
        else:
            entry.settled.add(core.site)
