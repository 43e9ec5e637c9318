"""Deliveries in the order of their keys, and how many of each group there were."""

from __future__ import annotations

from collections.abc import Sequence

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

    def hand_over(self, ready: Sequence[Kept], effect: type[Deliver] | type[Replay]) -> None:
        """Deliver messages, or deliver them again from the log."""
        core, offsets, last = self._host, self.offsets, self.mark
        ranks, want = core.ranks, core.outbox.append
        for entry in ready:
            multicast, message = entry.multicast, entry.message
            if multicast is None:
                raise InvariantViolation(f"{message} is delivered without a body")
            mark = (entry.sequence, message)
            if last is not None and mark <= last:
                raise InvariantViolation(f"{mark} is delivered after {last}")
            last = mark
            entry.delivered = True
            for group in multicast.groups:
                if group in offsets:
                    offsets[group] += multicast.count
            key = (entry.sequence, ranks[message.source], message.incarnation, message.number)
            want(effect(multicast, key, message.source))
        self.mark = last
        if effect is Deliver:
            core.keeping.on_given(ready)
        else:
            for entry in ready:
                entry.settled.add(core.site)
