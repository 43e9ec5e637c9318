"""A numbered stream from one site to another: 1, 2, 3 … without a gap, whatever the network loses.

Each end is half of it. The sender keeps what the receiver has not acknowledged, and sends again what is asked for. The
receiver releases in the order of the numbers, keeps what comes early, and knows what is missing. When to ask, when to
acknowledge, how much may be under way and what stands in the log are the protocol's business.

There are no packets here: one packet of a protocol may carry the numbers of many streams, one for each receiver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import copy
from itertools import count
from typing import Generic, Protocol, TypeVar

from ordercast.core import InvariantViolation, Multicast, SiteId, missing_intervals

Intervals = tuple[tuple[int, int], ...]
"""Closed intervals of numbers, ascending."""
EARLY_MAX = 4096
"""What came before its turn, kept for one stream. What overflows is dropped, as if the network had lost it. No less
than what senders keep for one receiver by default, so that what is on its way finds room."""

Item = TypeVar("Item")


class Carrier(Protocol):
    """A packet with a message inside."""

    @property
    def multicast(self) -> Multicast: ...


Carried = TypeVar("Carried", bound=Carrier)


class Outgoing(Generic[Item]):
    """The sender's end."""

    __slots__ = ("acknowledged", "kept", "numbers")

    def __init__(self) -> None:
        self.numbers = count(1)
        """Gives the next number. What gets it must be kept before the step ends."""
        self.acknowledged = 0
        """The receiver needs nothing up to this number any more."""
        self.kept: deque[Item] = deque()
        """What is not acknowledged: its numbers follow on `acknowledged` without a gap."""

    @property
    def highest(self) -> int:
        """The number of the last one that is kept, or was acknowledged."""
        return self.acknowledged + len(self.kept)

    def acknowledge(self, through: int) -> list[Item]:
        """Forget what the receiver has; what that was, in order. (Nothing: the acknowledgement is old, or speaks of
        numbers that were never given.)"""
        if through > self.highest:
            return []
        forget = self.kept.popleft
        forgotten = [forget() for _ in range(self.acknowledged, through)]
        self.acknowledged += len(forgotten)
        return forgotten

    def asked_for(self, missing: Intervals) -> Iterator[tuple[int, Item]]:
        """Those of the missing ones that are kept, each with its number. (The network may ask for anything.)"""
        for first, last in missing:
            for number in range(max(first, self.acknowledged + 1), min(last, self.highest) + 1):
                yield number, self.kept[number - self.acknowledged - 1]

    def restore(self, highest: int, acknowledged: int) -> None:
        """After a crash, before the first number is given: so far the stream had come. What lies between the two is
        to be kept next."""
        self.numbers = count(highest + 1)
        self.acknowledged = acknowledged

    def check_invariants(self) -> None:
        """Every number that was given is acknowledged or kept."""
        following = next(copy(self.numbers))
        if following != self.highest + 1:
            raise InvariantViolation(
                f"{len(self.kept)} kept after {self.acknowledged}, and the next number is {following}"
            )


class MeasuredOutgoing(Outgoing[Carried]):
    """The sender's end where bytes are bounded as well as messages."""

    __slots__ = ("kept_bytes", "to")

    def __init__(self, to: SiteId) -> None:
        super().__init__()
        self.to = to
        """The receiver."""
        self.kept_bytes = 0
        """Of the payloads of what is kept."""

    def keep(self, packet: Carried) -> None:
        """The packet has the next number."""
        self.kept.append(packet)
        self.kept_bytes += len(packet.multicast.payload)

    def acknowledge(self, through: int) -> list[Carried]:
        """Forget what the receiver has."""
        forgotten = super().acknowledge(through)
        for packet in forgotten:
            self.kept_bytes -= len(packet.multicast.payload)
        return forgotten

    def check_invariants(self) -> None:
        """The bytes are those of what is kept."""
        super().check_invariants()
        kept_bytes = sum(len(packet.multicast.payload) for packet in self.kept)
        if kept_bytes != self.kept_bytes:
            raise InvariantViolation(f"{kept_bytes} bytes are kept for {self.to}, not {self.kept_bytes}")


class Incoming(Generic[Item]):
    """The receiver's end."""

    __slots__ = ("announced", "early", "early_max", "released")

    def __init__(self, early_max: int = EARLY_MAX) -> None:
        self.released = 0
        """Everything up to this number has had its turn."""
        self.announced = 0
        """The highest number that is known to exist; what is released need not have been announced."""
        self.early: dict[int, Item] = {}
        """Number -> what came before its turn."""
        self.early_max = early_max

    def announce(self, highest: int) -> None:
        """So much exists."""
        if highest > self.announced:
            self.announced = highest

    def keep(self, number: int, item: Item) -> None:
        """It came before its turn."""
        if len(self.early) < self.early_max:
            self.early[number] = item
        self.announce(number)

    def release(self) -> Iterator[Item]:
        """What came early and has its turn now, one after the other."""
        while (item := self.early.pop(self.released + 1, None)) is not None:
            self.released += 1
            yield item

    @property
    def has_gap(self) -> bool:
        """Whether anything that is known to exist has not come."""
        return self.announced - self.released > len(self.early)

    def missing(self, first: int, last: int) -> Intervals:
        """The numbers of first … last that have not come."""
        return missing_intervals(self.early, max(first, self.released + 1), last)

    def restore(self, released: int) -> None:
        """After a crash: so much has had its turn."""
        self.released = released
        self.announce(released)

    def check_invariants(self) -> None:
        """What is kept as early comes later than the next one."""
        if self.early and min(self.early) <= self.released + 1:
            raise InvariantViolation(f"{min(self.early)} waits although {self.released} is released")
