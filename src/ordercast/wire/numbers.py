"""Which bit of a datagram's destinations stands for whom: each process numbers its peers, and tells them so when it
greets them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ordercast.core import SiteId, UsageError

SPARE = 16
"""Processes that can be added to those that there are at the start, before a process has to be started again."""

REST_SECONDS = 180.0
"""A number whose owner was forgotten is given to somebody else only after so long. Then the one that had it has
forgotten this process, too, or was told its new number (see `FORGET_SECONDS`). (Else: c, cut off, still takes what
bears the number 5, which is d's by now; somebody sends it what was sealed for d.)"""


class Numbers:
    """The numbers that one process has given out."""

    def __init__(self, sites: Sequence[SiteId], room: int) -> None:
        """`sites` have the first numbers, in this order; there is room for so many in all, or a few more."""
        self.destination_bytes = -(-room // 8)
        self.room = 8 * self.destination_bytes
        self._of = {site: number for number, site in enumerate(sites)}
        self._free = deque(range(len(sites), self.room))
        self._resting: deque[tuple[float, int]] = deque()

    def __contains__(self, site: SiteId) -> bool:
        return site in self._of

    def get(self, site: SiteId) -> int:
        """Its number; -1 when it has none."""
        return self._of.get(site, -1)

    def give(self, site: SiteId, now: float) -> bool:
        """Give a process a number, unless it has one; whether there was one left."""
        while self._resting and self._resting[0][0] <= now:
            self._free.append(self._resting.popleft()[1])
        if site not in self._of:
            if not self._free:
                return False
            self._of[site] = self._free.popleft()
        return True

    def take_back(self, site: SiteId, now: float) -> None:
        """Nobody has it for a while."""
        self._resting.append((now + REST_SECONDS, self._of.pop(site)))

    def destinations(self, to: Sequence[SiteId]) -> bytes:
        """The bits of some that have numbers."""
        bits = 0
        for site in to:
            bits |= 1 << self._of[site]
        return bits.to_bytes(self.destination_bytes, "little")


def check_room(numbers: Numbers, site: SiteId, now: float) -> None:
    """Give a process that an operator adds a number; `UsageError` when there is none left."""
    if not numbers.give(site, now):
        raise UsageError(
            f"{site} cannot be added: this process has room for {numbers.room} others; restart it, and there is more"
        )
