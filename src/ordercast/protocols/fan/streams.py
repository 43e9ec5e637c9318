"""The two ends of a stream of messages from one source to one group."""

from __future__ import annotations

from ordercast.core import InvariantViolation, Multicast, SiteId

PENDING_MAX = 4096
"""Out-of-order messages kept per stream. What overflows is dropped, as if the network had lost it: two seconds of a
fast source."""


class IncomingStream:
    """What a destination knows of one source's messages to one group: L and P of the thesis (6.4.2)."""

    __slots__ = ("last_delivered", "pending", "up")

    def __init__(self, last_delivered: int = 0, up: bool = True) -> None:
        self.last_delivered = last_delivered
        self.pending: dict[int, Multicast] = {}
        self.up = up
        """False from a crash until fragment (C) has found the place to go on."""

    def keep(self, number: int, multicast: Multicast) -> None:
        """Add to P."""
        if len(self.pending) < PENDING_MAX:
            self.pending[number] = multicast

    def move_to(self, last_delivered: int) -> None:
        """Set L; what P holds up to there will never be delivered."""
        self.last_delivered = last_delivered
        self.pending = {number: kept for number, kept in self.pending.items() if number > last_delivered}

    def missing_below(self, number: int) -> tuple[tuple[int, int], ...]:
        """The numbers between L and `number` that are not in P, as intervals."""
        intervals: list[tuple[int, int]] = []
        start = self.last_delivered + 1
        for kept in sorted(kept for kept in self.pending if kept < number):
            if kept > start:
                intervals.append((start, kept - 1))
            start = kept + 1
        if start < number:
            intervals.append((start, number - 1))
        return tuple(intervals)

    def check_invariants(self) -> None:
        """P lies above L, and L+1 is not in it."""
        if self.up and self.pending and min(self.pending) <= self.last_delivered + 1:
            raise InvariantViolation(f"pending {min(self.pending)} could be delivered after {self.last_delivered}")


class OutgoingStream:
    """What a source knows of its messages to one group: the last number, and its log for retransmissions."""

    __slots__ = ("acknowledged", "highest", "log", "members")

    def __init__(self, members: tuple[SiteId, ...], highest: int = 0) -> None:
        self.members = members
        self.highest = highest
        self.log: dict[int, Multicast] = {}
        self.acknowledged: dict[SiteId, int] = dict.fromkeys(members, 0)

    def number(self, multicast: Multicast, keep: bool) -> int:
        """Give the next number to a message."""
        self.highest += 1
        if keep:
            self.log[self.highest] = multicast
        return self.highest

    @property
    def lowest_kept(self) -> int:
        """The lowest number that can still be sent again; one above the highest when there is none."""
        return next(iter(self.log), self.highest + 1)

    def drop_oldest(self, keep: int) -> None:
        """Keep so many messages at the most."""
        while len(self.log) > keep:
            del self.log[self.lowest_kept]

    def on_acknowledge(self, site: SiteId, delivered: int) -> None:
        """Forget what every member has."""
        if site in self.acknowledged:
            self.acknowledged[site] = max(self.acknowledged[site], delivered)
            everywhere = min(self.acknowledged.values())
            while self.log and self.lowest_kept <= everywhere:
                del self.log[self.lowest_kept]
