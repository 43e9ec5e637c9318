"""Patience with a site that may be gone: attempts in vain become ever more seldom, and smaller; news begins anew."""

from __future__ import annotations


def ticks_in(seconds: float, tick_seconds: float) -> int:
    """How many intervals of a timer make up this time, at least one."""
    return max(1, round(seconds / tick_seconds))


class BackOff:
    """When to try again with one site, and with how much. Time is counted in intervals of its user's timer, not read
    from the clock, which may jump."""

    __slots__ = ("_burst_max", "_wait_ticks", "_wait_ticks_max", "burst", "next_tick")

    def __init__(self, wait_ticks_max: int, burst_max: int = 1) -> None:
        self._wait_ticks_max = wait_ticks_max
        """Intervals between two attempts at the most: it is how late a site that comes back may be found."""
        self._burst_max = burst_max
        self.next_tick = 0
        """The first interval in which to try again."""
        self.burst = burst_max
        """How much to try at a time."""
        self._wait_ticks = 1

    def begin_anew(self) -> None:
        """The site is there: try soon when it falls silent, and as much as it takes."""
        self.next_tick = 0
        self.burst = self._burst_max
        self._wait_ticks = 1

    def note_attempt(self, tick: int) -> None:
        """Something was tried in this interval: wait twice as long with the next time, and then try with less."""
        self.next_tick = tick + self._wait_ticks
        self._wait_ticks = min(2 * self._wait_ticks, self._wait_ticks_max)
        self.burst = max(1, self.burst // 4)
