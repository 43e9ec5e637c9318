"""The clock of 4.3: Lamport's, which follows the local clock, and the fastest one that it has heard of."""

from __future__ import annotations

UNITS = 1_000_000
"""Of logical time in a second."""


class GroupClock:
    """Logical time in microseconds.

    It never runs backwards, is larger at each reading that leaves the process than at the one before, and is at least
    as large as everything heard. Between that it runs on with the local clock, from wherever it is: local clocks that
    began at different times differ by days, and whoever only took the maximum on receipt would stand still between two
    packets, so that everyone waits for its next Keep Alive, and for the way of ours to it.
    """

    __slots__ = ("_offset", "time")

    def __init__(self) -> None:
        self.time = 0
        """The last reading: nothing that this process sends from now on has a time as early as this."""
        self._offset = 0

    def read(self, now: float) -> int:
        """The time at local time `now`. A local clock that was set back goes on from where it was."""
        local = int(now * UNITS) + self._offset
        if local >= self.time:
            self.time = local
        else:
            self._offset += self.time - local
        return self.time

    def tick(self, now: float) -> int:
        """The time of a Data message or a Keep Alive: later than every earlier one, and than everything heard."""
        self.time = max(self.read(now), self.time) + 1
        return self.time

    def observe(self, timestamp: int, now: float) -> None:
        """Somebody has sent something at that time: ours is not earlier, from now on."""
        if timestamp > self.time:
            # As after `read`, without a call for each packet.
            local = int(now * UNITS) + self._offset
            if local < timestamp:
                self._offset += timestamp - local
                local = timestamp
            self.time = local
