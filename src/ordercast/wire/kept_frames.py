"""Frames larger than a datagram, at the sender: kept for a while, so that lost fragments can be sent again."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from ordercast.core import SiteId

BYTES_MAX = 8 << 20
"""Twice the longest frame; of bundles of 60 kB, 45 ms at 3,000 a second, which is many round trips of a LAN."""

KEEP_SECONDS = 1.0
"""Longer than a receiver goes on asking; then memory is free again when nobody sends."""

REPAIRS_PER_FRAGMENT = 4
"""Copies of a fragment for each receiver, on average over a frame: more only feed a storm."""

LISTENERS = 8
"""What is sent to whoever listens is repaired for as many as that: nobody knows how many they are, or who."""


class KeptFrame:
    """One frame as it was sent."""

    __slots__ = ("channel", "content", "fragment_bytes", "repairs_left", "to")

    def __init__(
        self, to: tuple[SiteId, ...], content: bytearray, fragment_bytes: int, channel: bytes | None = None
    ) -> None:
        self.to = to
        self.channel = channel
        """The label of its fragments, when they are for whoever listens."""
        self.content = content
        self.fragment_bytes = fragment_bytes
        self.repairs_left = REPAIRS_PER_FRAGMENT * (len(to) if channel is None else LISTENERS) * self.count

    @property
    def count(self) -> int:
        """Its fragments."""
        return -(-len(self.content) // self.fragment_bytes)

    def is_for(self, receiver: SiteId) -> bool:
        """Whether somebody may ask for it."""
        return self.channel is not None or receiver in self.to

    def take_repairs(self, indexes: Sequence[int]) -> list[int]:
        """Which of these can be sent again, ascending: the last fragment, which may be shorter, comes last."""
        chosen = sorted({index for index in indexes if index < self.count})[: self.repairs_left]
        self.repairs_left -= len(chosen)
        return chosen


class KeptFrames:
    """The frames sent last. Two generations take turns, so that a frame is kept for one to two `KEEP_SECONDS`."""

    def __init__(self) -> None:
        self.deadline = inf
        """When `turn` has something to do."""
        self._young: dict[int, KeptFrame] = {}
        self._old: dict[int, KeptFrame] = {}
        self._bytes_held = 0

    def keep(self, number: int, frame: KeptFrame, now: float) -> None:
        """Keep a frame, and forget the oldest ones where that is too much."""
        self._young[number] = frame
        self._bytes_held += len(frame.content)
        while self._bytes_held > BYTES_MAX:
            generation = self._old or self._young
            self._bytes_held -= len(generation.pop(next(iter(generation))).content)
        if self.deadline == inf:
            self.deadline = now + KEEP_SECONDS

    def get(self, number: int) -> KeptFrame | None:
        """The frame, if it is still there."""
        return self._young.get(number) or self._old.get(number)

    def turn(self, now: float) -> None:
        """Forget what is older than `KEEP_SECONDS`."""
        if now >= self.deadline:
            self._bytes_held -= sum(len(frame.content) for frame in self._old.values())
            self._old, self._young = self._young, {}
            self.deadline = now + KEEP_SECONDS if self._old else inf
