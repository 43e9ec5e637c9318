"""What one process hears of another by one way: reachability, latency, jitter, losses, order (Berket 2000, 6.2.4)."""

from __future__ import annotations

from collections import deque
from typing import Annotated

import msgspec

from ordercast.node.beacon_packets import Beacon, Echo
from ordercast.node.state_packets import Number

RECENT_MAX = 1024
"""Numbers that are remembered, to tell what is late from what comes twice."""

JITTER_SHARE = 1 / 16
"""How much of the jitter is that of the last beacon (RFC 3550)."""


class Heard(msgspec.Struct, frozen=True):
    """A period of one source, at one receiver."""

    received: Number = 0
    """Each beacon counted once; with none, the source is not reached."""
    lost: Number = 0
    late: Number = 0
    """Came after one that was sent later."""
    repeated: Number = 0
    latency_ms: Annotated[float, msgspec.Meta(ge=0.0)] | None = None
    """Half of the way there and back, on average. None: nothing has come back."""
    latency_ms_max: Annotated[float, msgspec.Meta(ge=0.0)] | None = None
    jitter_ms: Annotated[float, msgspec.Meta(ge=0.0)] | None = None
    """How much the way takes longer or shorter from one beacon to the next (RFC 3550)."""


class Hearing:
    """One source. Times are those of the clocks that the two of them have; they need not agree."""

    def __init__(self) -> None:
        self._life = -1
        self._begin(-1)

    def _begin(self, life: int) -> None:
        self._life = life
        self._highest = 0
        self._highest_before = 0
        """At the end of the last period; from the first beacon on losses are counted."""
        self._recent: deque[int] = deque(maxlen=RECENT_MAX)
        self._received = self._late = self._repeated = 0
        self._ways: list[float] = []
        self._last: tuple[float, float] | None = None
        """When the beacon that came last was sent, and when it came."""
        self._jitter: float | None = None

    def hear(self, beacon: Beacon, now: float) -> None:
        """A beacon of the source has come. One of an earlier life of it is none."""
        if beacon.life < self._life:
            return
        if beacon.life > self._life:
            self._begin(beacon.life)
            self._highest = self._highest_before = max(0, beacon.number - 1)
        if beacon.number in self._recent:
            self._repeated += 1
            return
        self._recent.append(beacon.number)
        self._received += 1
        if beacon.number < self._highest:
            self._late += 1
        self._highest = max(self._highest, beacon.number)
        if self._last is not None:
            change = abs((now - self._last[1]) - (beacon.sent - self._last[0]))
            before = self._jitter or 0.0
            self._jitter = before + (change - before) * JITTER_SHARE
        self._last = beacon.sent, now

    def measure(self, echo: Echo, now: float) -> None:
        """The source has heard a beacon of ours, and says when that was sent, and how long ago it came."""
        there_and_back = now - echo.sent - echo.held
        if there_and_back >= 0:
            self._ways.append(there_and_back / 2)

    def echo(self, now: float) -> Echo | None:
        """For the source: what was heard of it last."""
        return None if self._last is None else Echo(self._last[0], max(0.0, now - self._last[1]))

    def report(self) -> Heard:
        """What the period was like; the next one begins."""
        ways, jitter = self._ways, self._jitter
        heard = Heard(
            self._received,
            max(0, self._highest - self._highest_before - self._received),
            self._late,
            self._repeated,
            1000 * sum(ways) / len(ways) if ways else None,
            1000 * max(ways) if ways else None,
            None if jitter is None else 1000 * jitter,
        )
        self._highest_before = self._highest
        self._received = self._late = self._repeated = 0
        self._ways = []
        return heard
