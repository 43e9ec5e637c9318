"""Flow control and congestion avoidance (4.5.3): a bucket that lets several messages go at once."""

from __future__ import annotations

DECREASE = 0.75
"""What is left of the bandwidth parameter after a loss report."""
INCREASE_PER_SECOND = 0.1
"""Its growth, as a share of the largest one: from the least to the most in ten seconds without losses."""
HEADER_BYTES = 40
"""What a message costs besides its payload."""


class Bucket:
    """Bytes flow in at the rate of the bandwidth parameter; a message that leaves takes its own out.

    The thesis computes a time to wait before each message, as RTCP does. A timer cannot be finer than a millisecond
    (the prototype's was ten), which is what limited it to 100 messages a second. The bucket lets the same number of
    bytes go in the same time, as many at once as have flowed in meanwhile.
    """

    def __init__(self, low: float, high: float, burst: float) -> None:
        self._low = low
        self._high = high
        self._burst = burst
        self.bandwidth = high
        self._level = burst
        self._filled_at = 0.0

    def fill(self, now: float) -> None:
        """Let flow in what has since the last time. (A clock that was set brings nothing, or a second's worth.)"""
        elapsed = min(max(0.0, now - self._filled_at), 1.0)
        self._filled_at = now
        self._level = min(self._burst, self._level + elapsed * self.bandwidth)
        self.bandwidth = min(self._high, self.bandwidth + elapsed * INCREASE_PER_SECOND * self._high)

    def take(self, size: int) -> bool:
        """Whether a message may leave now. One that is larger than what ever flows in leaves when the bucket is full,
        and the next ones wait for it."""
        cost = size + HEADER_BYTES
        if self._level < min(cost, self._burst):
            return False
        self._level -= cost
        return True

    def wait_seconds(self, size: int) -> float:
        """How long it takes until a message may leave."""
        lacking = min(size + HEADER_BYTES, self._burst) - self._level
        return max(0.001, lacking / self.bandwidth)

    def note_loss(self) -> None:
        """Somebody has reported a loss."""
        self.bandwidth = max(self._low, self.bandwidth * DECREASE)
