"""The two ends of an edge: numbered messages from one site to another (Spauster 3.4)."""

from __future__ import annotations

from ordercast.core import InvariantViolation, SiteId
from ordercast.protocols.propagation_graph.packets import Forward, Submit

WAITING_MAX = 4096
"""Messages in one wait queue. What overflows is dropped, as if the network had lost it; a sender's default history, so
never less than that is on its way."""
MISSING_MAX = 64
"""Intervals in one request, and messages sent in answer to one: the first are what the others wait for."""

Numbered = Submit | Forward


class Outgoing:
    """The sender's end."""

    __slots__ = ("acknowledged", "highest", "kept", "kept_bytes", "seen", "submissions", "to", "vain")

    def __init__(self, to: SiteId) -> None:
        self.to = to
        self.highest = 0
        self.acknowledged = 0
        self.kept: dict[int, Numbered] = {}
        """Number -> what is not acknowledged yet, in order."""
        self.kept_bytes = 0
        """Of their payloads."""
        self.submissions = 0
        """How many of these are this site's own messages."""
        self.seen = 0
        """The highest number at the last look: what is above it is too young to worry."""
        self.vain = 0
        """Looks in a row at which nothing new was acknowledged."""

    def keep(self, message: Numbered) -> None:
        """The message has the next number."""
        self.highest += 1
        self.kept[self.highest] = message
        self.kept_bytes += len(message.multicast.payload)
        if type(message) is Submit:
            self.submissions += 1

    def acknowledge(self, taken: int) -> bool:
        """Forget what the receiver has; whether there was anything."""
        taken = min(taken, self.highest)
        if taken <= self.acknowledged:
            return False
        kept = self.kept
        for number in range(self.acknowledged + 1, taken + 1):
            message = kept.pop(number)
            self.kept_bytes -= len(message.multicast.payload)
            if type(message) is Submit:
                self.submissions -= 1
        self.acknowledged = taken
        self.vain = 0
        return True

    def restore(self, highest: int, acknowledged: int) -> None:
        """After a crash; what is kept is there already, in whatever order."""
        self.highest, self.acknowledged = highest, acknowledged
        self.kept = dict(sorted(self.kept.items()))
        self.kept_bytes = sum(len(message.multicast.payload) for message in self.kept.values())
        self.submissions = sum(type(message) is Submit for message in self.kept.values())

    def check_invariants(self) -> None:
        """Everything above the acknowledged is kept, in order."""
        first = next(iter(self.kept), self.highest + 1)
        if first != self.acknowledged + 1 or len(self.kept) != self.highest - self.acknowledged:
            raise InvariantViolation(
                f"edge to {self.to}: {len(self.kept)} kept from {first} on, with {self.acknowledged} of {self.highest} "
                "acknowledged"
            )


class Incoming:
    """The receiver's end."""

    __slots__ = ("announced", "asked", "requesting", "sender", "stalled", "taken", "told", "waiting")

    def __init__(self, sender: SiteId) -> None:
        self.sender = sender
        self.taken = 0
        """Everything up to this number is forwarded and delivered."""
        self.waiting: dict[int, Numbered] = {}
        """The wait queue: what came before its turn, or finds no room further on."""
        self.announced = 0
        """The highest number that is known to exist."""
        self.told = 0
        """The number that was acknowledged last."""
        self.stalled = False
        """The next message is there and has to wait for room."""
        self.requesting = False
        self.asked = 0
        """The last number that was asked for."""

    def restore(self, taken: int) -> None:
        """After a crash. What is logged may have been acknowledged."""
        self.taken = self.told = taken

    @property
    def has_gap(self) -> bool:
        """Whether anything that is known to exist has not come. (What waits for room is no gap.)"""
        return self.announced - self.taken > len(self.waiting)

    def missing(self) -> tuple[tuple[int, int], ...]:
        """What is known to exist and has not come, as intervals; not all when there are many."""
        intervals: list[tuple[int, int]] = []
        start = self.taken + 1
        for number in sorted(self.waiting):
            if number > start:
                intervals.append((start, number - 1))
            start = number + 1
        if start <= self.announced:
            intervals.append((start, self.announced))
        return tuple(intervals[:MISSING_MAX])

    def check_invariants(self) -> None:
        """What waits comes later than what is taken, and the next one waits only for room."""
        if self.waiting:
            first = min(self.waiting)
            if first <= self.taken or (first == self.taken + 1) != self.stalled:
                raise InvariantViolation(f"edge from {self.sender}: {first} waits, and {self.taken} is taken")
        elif self.stalled:
            raise InvariantViolation(f"edge from {self.sender}: stalled with an empty wait queue")
