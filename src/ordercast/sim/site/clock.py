"""A site's own clock, which may jump and run at a rate of its own."""

from __future__ import annotations

from ordercast.sim.kernel import EventQueue


class SiteClock:
    """Shows the simulated time until it is changed."""

    def __init__(self, queue: EventQueue) -> None:
        self.rate = 1.0
        """Seconds of this clock in one simulated second."""
        self.untouched = True
        """Whether it was never changed: it shows the simulated time then, and need not be asked."""
        self._queue = queue
        self._simulated_base = 0.0
        self._local_base = 0.0
        """What it was, and what the clock showed, when it began to run at its present rate."""

    def read(self, now: float) -> float:
        """What the clock shows at a simulated time."""
        return self._local_base + (now - self._simulated_base) * self.rate

    def change(self, rate: float, jump_seconds: float) -> None:
        """Let the clock jump, and run at another rate from now on."""
        now = self._queue.now
        self._local_base = self.read(now) + jump_seconds
        self._simulated_base = now
        self.rate = rate
        self.untouched = False
