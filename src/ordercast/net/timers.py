"""The timers of a live site's instances. Most are set again before they are due, so that must be cheap."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from math import inf

from ordercast.core import InstanceId
from ordercast.core.effects import CancelTimer, SetTimer
from ordercast.core.events import Timer
from ordercast.runtime import Instance

LOOP_SECONDS = 0.001
"""An event loop need not see smaller times. (uvloop counts in whole milliseconds, rounds what it waits for, and calls
at once where nothing is left of that: a timer that came up a third of a millisecond early would be asked again and
again, without any sleep, until the next millisecond begins.)"""


DUE_SECONDS = 1e-6
"""What is due within so little is due: 5.0 and a thousandth are more than 5.001, and a millisecond is long."""


class _Waiting:
    """A timer that is pushed back or cancelled keeps its place in the event loop until that comes up."""

    __slots__ = ("deadline", "handle", "queued_for")

    def __init__(self, deadline: float, handle: asyncio.TimerHandle) -> None:
        self.deadline = deadline
        self.queued_for = deadline
        self.handle = handle


class Timers:
    """Timers by instance and name, in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_due: Callable[[InstanceId, Timer], None]) -> None:
        self._loop = loop
        self._on_due = on_due
        self._waiting: dict[tuple[InstanceId, Timer], _Waiting] = {}
        self.at_once: dict[tuple[InstanceId, Timer], None] = {}
        """Those that were set to no time at all: they are due at the end of the turn."""

    def set_timer(self, instance: Instance, effect: SetTimer) -> None:
        """Fire after so many seconds."""
        key = (instance.name, effect.timer)
        if effect.after_seconds <= 0.0:
            if key in self._waiting:
                self._cancel(key)
            self.at_once[key] = None
            return
        if self.at_once:
            self.at_once.pop(key, None)
        deadline = self._loop.time() + effect.after_seconds
        waiting = self._waiting.get(key)
        if waiting is not None:
            if waiting.queued_for <= deadline:
                waiting.deadline = deadline
                return
            waiting.handle.cancel()
        self._waiting[key] = _Waiting(deadline, self._loop.call_at(deadline, self._come_up, key))

    def cancel_timer(self, instance: Instance, effect: CancelTimer) -> None:
        """Do not fire; most timers are set again before they would have been due."""
        key = (instance.name, effect.timer)
        self.at_once.pop(key, None)
        self._cancel(key)

    def _cancel(self, key: tuple[InstanceId, Timer]) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.deadline = inf

    def take_at_once(self) -> Iterator[tuple[InstanceId, Timer]]:
        """What is due at the end of the turn. What is set meanwhile to no time at all waits for the end of the next."""
        for key in tuple(self.at_once):
            if key in self.at_once:
                del self.at_once[key]
                yield key

    def stop(self) -> None:
        """No timer fires any more."""
        for waiting in self._waiting.values():
            waiting.handle.cancel()
        self._waiting.clear()
        self.at_once.clear()

    def _come_up(self, key: tuple[InstanceId, Timer]) -> None:
        waiting = self._waiting[key]
        now = self._loop.time()
        if waiting.deadline == inf:
            del self._waiting[key]
        elif waiting.deadline > now + DUE_SECONDS:
            waiting.queued_for = max(waiting.deadline, now + LOOP_SECONDS)
            waiting.handle = self._loop.call_at(waiting.queued_for, self._come_up, key)
        else:
            del self._waiting[key]
            self._on_due(*key)
