"""The timer parameters of 3.2.2 and how they adapt (Figures 3.1 and 3.2, after SRM)."""

from __future__ import annotations

from random import Random

AVG_DUP_REQ = 1.0
AVG_REQ_DELAY = 1.0
AVG_RTX_DELAY = 1.0
"""Thresholds; delays are measured in units of the distance, or a network of 100 ms would never be below them and one of
a millisecond never above."""
ALPHA = 0.25
EPSILON = 0.1

LOW_REQUEST = (0.5, 2.0)
HIGH_REQUEST = (1.0, 100.0)
LOW_REPAIR = (0.5, 10.0)
HIGH_REPAIR = (1.0, 100.0)
"""The ranges of 3.2.2."""


def clamp(value: float, limits: tuple[float, float]) -> float:
    """The value, or the nearest one within the range."""
    return min(max(value, limits[0]), limits[1])


def average(before: float, value: float) -> float:
    """An exponentially weighted moving average."""
    return (1 - ALPHA) * before + ALPHA * value


def draw_within(random: Random, least: float, most: float, limit: float) -> float:
    """A time of an interval that ends at a limit at the latest; one half of that is left to chance. (With each time cut
    to the limit alone, all whose interval lies behind it would ask or answer at the same moment.)"""
    if most > limit:
        least, most = min(least, limit / 2), limit
    return random.uniform(least, most)


class RequestParameters:
    """How long a process waits before it asks for a message that is missing."""

    def __init__(self) -> None:
        self.low = 2.0
        self.high = 2.0
        self.delay = 0.0
        """avgReqDelay, in distances."""
        self.duplicates = 0.0
        """avgDupReq."""
        self.heard = 0
        """Duplicate requests of this period."""

    def draw(self, random: Random, distance: float, attempt: int, limit: float) -> float:
        """Seconds until the request leaves (3.3), at most `limit`; `attempt` is 0 at first."""
        scale = float(3**attempt) * distance
        return draw_within(random, self.low * scale, (self.low + self.high) * scale, limit)

    def after_request(self, delay: float) -> None:
        """A request was sent, so many distances after the loss was noticed."""
        self.delay = average(self.delay, delay)
        self.low = clamp(self.low - 0.05, LOW_REQUEST)

    def before_timer(self) -> None:
        """A timer for another loss is about to be set: a period is over.

        Duplicates are looked at first, as SRM does. (As printed, whoever waits for long never hears of its duplicates:
        with both averages high, the interval is never widened.)
        """
        self.duplicates = average(self.duplicates, self.heard)
        self.heard = 0
        low, high = self.low, self.high
        quick = self.delay < AVG_REQ_DELAY - EPSILON
        few = self.duplicates < AVG_DUP_REQ - EPSILON
        if self.duplicates >= AVG_DUP_REQ:
            high += 0.5
            if quick:
                low += 0.05
        elif self.delay >= AVG_REQ_DELAY:
            low -= 0.05
            if few:
                high -= 0.1
        elif few and quick:
            high -= 0.1
        self.low, self.high = clamp(low, LOW_REQUEST), clamp(high, HIGH_REQUEST)


class RepairParameters:
    """How long a process waits before it sends what somebody has asked for."""

    def __init__(self) -> None:
        self.low = 10.0
        self.high = 10.0
        self.delay = 0.0
        """avgRtxDelay, in distances."""

    def draw(self, random: Random, distance: float, limit: float) -> float:
        """Seconds until the retransmission leaves (3.4), at most `limit`."""
        return draw_within(random, self.low * distance, (self.low + self.high) * distance, limit)

    def after_repair(self, delay: float) -> None:
        """A retransmission was sent, so many distances after it was asked for."""
        self.delay = average(self.delay, delay)
        self.low = clamp(self.low - 0.05, LOW_REPAIR)

    def after_cancellation(self, delay: float) -> None:
        """Somebody else was quicker."""
        self.delay = average(self.delay, delay)
        step = -0.05 if self.delay >= AVG_RTX_DELAY else 0.1
        self.high = clamp(self.high + step, HIGH_REPAIR)

    def before_timer(self) -> None:
        """A timer for another retransmission is about to be set."""
        if self.delay >= AVG_RTX_DELAY:
            self.low = clamp(self.low - 0.05, LOW_REPAIR)
        elif self.delay < AVG_RTX_DELAY - EPSILON:
            self.low = clamp(self.low + 0.05, LOW_REPAIR)
