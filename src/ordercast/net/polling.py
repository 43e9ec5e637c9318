"""Looking for the next datagram instead of sleeping until it comes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from time import monotonic


class BusyPoll:
    """Keeps the event loop turning for some time after every datagram.

    A process that slept starts on a processor that was halted or did something else, with nothing of its own in the
    caches: of a lone message's way that is the larger part. Whoever has processors to spare can have it awake.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        # Not the loop's clock, which uvloop reads in whole milliseconds.
        self._clock = clock
        self._loop = loop
        self._seconds = seconds
        self._until = 0.0
        self._turns = False
        self._something_came = False

    def extend(self) -> None:
        """A datagram came, so there may be more."""
        self._until = self._clock() + self._seconds
        self._something_came = True
        if not self._turns:
            self._turns = True
            self._loop.call_soon(self._turn)

    def stop(self) -> None:
        """Sleep again."""
        self._until = 0.0

    def _turn(self) -> None:
        if self._something_came:
            # The application's tasks that it woke stand behind this turn. (Else: another process gets the processor
            # first, and the application gets its message when that is done.)
            self._something_came = False
        elif self._clock() < self._until:
            # Whoever else has something to do on this processor is served at once.
            os.sched_yield()
        else:
            self._turns = False
            return
        self._loop.call_soon(self._turn)
