"""The clock of a plan. It stands still while something happens alone, so that a slow machine moves the rest of the plan
and does not let it overlap."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

STEP_SECONDS = 0.05
"""How long somebody sleeps at a time who waits for a moment of the plan."""


class PlanClock:
    """Seconds since the plan began, without those by which something that happened alone took too long."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._began = monotonic()
        self._held: float | None = None

    @property
    def now(self) -> float:
        """The moment of the plan."""
        return self._monotonic() - self._began if self._held is None else self._held

    async def until(self, moment: float) -> None:
        """Wait for a moment."""
        while (left := moment - self.now) > 0:
            await asyncio.sleep(min(left, STEP_SECONDS))

    def hold(self) -> None:
        """Stand still."""
        self._held = self.now

    def release(self, reserved: float) -> None:
        """Go on as if the time that has passed, but no more than was reserved for it, had passed here too."""
        if self._held is not None:
            passed = self._monotonic() - self._began - self._held
            self._began += max(0.0, passed - reserved)
            self._held = None
