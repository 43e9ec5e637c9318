"""How much of a state may be under way: a transfer in the background gives way to everything else.

After LEDBAT (RFC 6817): the window grows by a chunk with each round trip while answers come as fast as they can, and
shrinks when they come late, because then the network or a process has other things to do. So a group under load is
delayed by `TARGET_SECONDS` at the most, and an idle one lends all its capacity.
"""

from __future__ import annotations

from math import inf

TARGET_SECONDS = 0.01
"""The delay that a transfer may add to what else is on the way."""

WINDOW_MIN = 2.0
"""Chunks that are under way at least: a transfer never stops for good, however busy the others are."""

WINDOW_START = 4.0

TIMEOUT_MIN, TIMEOUT_MAX = 0.05, 0.4
"""Seconds until a chunk counts as lost. The wire repairs fragments faster than the one, and a giver that is silent for
five times the other is given up."""
TIMEOUT_START = 0.2
"""As long as no answer has come."""


class Window:
    """Chunks that may be under way, and how long to wait for one."""

    def __init__(self, most: int) -> None:
        self._most = max(WINDOW_MIN, float(most))
        self._size = min(WINDOW_START, self._most)
        self._fastest = inf
        self._mean = 0.0
        self._deviation = 0.0
        self._backoff = 1.0

    @property
    def chunks(self) -> int:
        """How many may be under way."""
        return int(self._size)

    @property
    def timeout(self) -> float:
        """Seconds until an answer counts as lost (RFC 6298)."""
        usual = TIMEOUT_START if self._fastest == inf else self._mean + 4 * self._deviation
        return min(TIMEOUT_MAX, max(TIMEOUT_MIN, usual) * self._backoff)

    def on_answer(self, seconds: float | None) -> None:
        """A chunk has come so long after it was asked for; None when it was asked for twice, and nobody knows which
        question this answers (RFC 6298, section 3)."""
        self._backoff = 1.0
        if seconds is None:
            return
        if self._fastest == inf:
            self._mean, self._deviation = seconds, seconds / 2
        else:
            self._deviation += (abs(seconds - self._mean) - self._deviation) / 4
            self._mean += (seconds - self._mean) / 8
        self._fastest = min(self._fastest, seconds)
        room = max(-1.0, 1.0 - (seconds - self._fastest) / TARGET_SECONDS)
        self._resize(self._size + room / self._size)

    def on_loss(self) -> None:
        """Something was not answered in time."""
        self._backoff = min(2 * self._backoff, TIMEOUT_MAX / TIMEOUT_MIN)
        self._resize(self._size / 2)

    def _resize(self, size: float) -> None:
        self._size = max(WINDOW_MIN, min(self._most, size))
