"""The two ends of a stream of messages from one source to one group."""

from __future__ import annotations

from ordercast.core import Multicast, SiteId
from ordercast.protocols.parts.numbered import Incoming, Outgoing


class IncomingStream(Incoming[Multicast]):
    """What a destination knows of one source's messages to one group: L and P of the thesis (6.4.2) are `released` and
    `early`."""

    __slots__ = ("up",)

    def __init__(self, up: bool = True) -> None:
        super().__init__()
        self.up = up
        """False from a crash until fragment (C) has found the place to go on."""

    def skip_to(self, number: int) -> None:
        """Set L; what P holds up to there will never be delivered."""
        self.released = number
        self.early = {kept: multicast for kept, multicast in self.early.items() if kept > number}

    def check_invariants(self) -> None:
        """P lies above L, and L+1 is not in it."""
        if self.up:
            super().check_invariants()


class OutgoingStream(Outgoing[Multicast]):
    """What a source knows of its messages to one group: the last number, and its log for retransmissions.

    One stream to all members: it counts as acknowledged what the source no longer keeps for any of them.
    """

    __slots__ = ("delivered", "members")

    def __init__(self, members: tuple[SiteId, ...]) -> None:
        super().__init__()
        self.members = members
        self.delivered: dict[SiteId, int] = dict.fromkeys(members, 0)
        """Member -> the number up to which it has acknowledged."""

    def number(self, multicast: Multicast, keep: bool) -> int:
        """Give the next number to a message."""
        number = next(self.numbers)
        if keep:
            self.kept.append(multicast)
        else:
            self.acknowledged = number
        return number

    def drop_oldest(self, keep: int) -> None:
        """Keep so many messages at the most."""
        self.acknowledge(self.highest - keep)

    def on_acknowledge(self, site: SiteId, delivered: int) -> None:
        """Forget what every member has."""
        if site in self.delivered:
            self.delivered[site] = max(self.delivered[site], delivered)
            self.acknowledge(min(min(self.delivered.values()), self.highest))
