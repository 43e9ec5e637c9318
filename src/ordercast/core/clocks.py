"""Logical clocks: Lamport's, and the hybrid of Lamport's and the local clock that InterGroup uses (Berket 2000,
4.5)."""

from __future__ import annotations

from ordercast.core.errors import UsageError


class LamportClock:
    """Counts events so that an effect always has a larger time than its cause (Lamport 1978)."""

    __slots__ = ("time",)

    def __init__(self, time: int = 0) -> None:
        if time < 0:
            raise UsageError(f"a Lamport clock starts at 0 or later, not at {time}")
        self.time = time

    def tick(self) -> int:
        """The time of a new local event: strictly larger than every earlier one."""
        self.time += 1
        return self.time

    def observe(self, other: int) -> int:
        """Take note of a time heard from elsewhere, so that the next tick lies after it."""
        if other > self.time:
            self.time = other
        return self.time


class HybridClock:
    """A Lamport clock in units of local time: it follows the local clock when that is ahead, and never runs backwards.

    `unit_seconds` is the granularity. Following the local clock lets idle sites keep up without messages; taking the
    maximum keeps causality when clocks disagree.
    """

    __slots__ = ("time", "unit_seconds")

    def __init__(self, unit_seconds: float = 1e-6, time: int = 0) -> None:
        if unit_seconds <= 0:
            raise UsageError(f"the unit of a hybrid clock is positive, not {unit_seconds}")
        self.unit_seconds = unit_seconds
        self.time = time

    def tick(self, now: float) -> int:
        """The time of a new local event at local time `now`."""
        self.time = max(self.time + 1, int(now / self.unit_seconds))
        return self.time

    def observe(self, other: int, now: float) -> int:
        """Take note of a time heard from elsewhere at local time `now`."""
        self.time = max(self.time, other, int(now / self.unit_seconds))
        return self.time
