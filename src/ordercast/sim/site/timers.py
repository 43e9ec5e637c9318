"""The timers of a site's instances, which run by the site's clock."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ordercast.core import InstanceId
from ordercast.core.events import Timer
from ordercast.sim.kernel import EventQueue
from ordercast.sim.site.clock import SiteClock
from ordercast.sim.site.processor import Processor


class _Running(msgspec.Struct, eq=False, gc=False):
    """A running timer. One that is pushed back again and again keeps one entry in the event queue, not one per push."""

    instance: InstanceId
    timer: Timer
    deadline: float
    queued_for: float


class Timers:
    """Calls `fire(now, instance, timer)` as a step of the processor when a timer has run out."""

    def __init__(
        self,
        queue: EventQueue,
        clock: SiteClock,
        processor: Processor,
        fire: Callable[[float, InstanceId, Timer], None],
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._processor = processor
        self._fire = fire
        self._running: dict[tuple[InstanceId, Timer], _Running] = {}

    def set(self, instance: InstanceId, timer: Timer, after_seconds: float) -> None:
        """Fire after so many seconds of the site's clock; a timer of the same name that is running is replaced."""
        key = (instance, timer)
        deadline = self._processor.cursor + after_seconds / self._clock.rate
        running = self._running.get(key)
        if running is not None and running.queued_for <= deadline:
            running.deadline = deadline
            return
        running = self._running[key] = _Running(instance, timer, deadline, deadline)
        self._queue.schedule(deadline, self._due, running)

    def cancel(self, instance: InstanceId, timer: Timer) -> None:
        """Do not fire."""
        self._running.pop((instance, timer), None)

    def forget(self, instance: InstanceId) -> None:
        """The instance has crashed: none of its timers fires."""
        self._running = {key: running for key, running in self._running.items() if key[0] != instance}

    def _due(self, running: _Running) -> None:
        if self._running.get((running.instance, running.timer)) is not running:
            return
        if running.deadline > self._queue.now:
            running.queued_for = running.deadline
            self._queue.schedule(running.deadline, self._due, running)
            return
        self._processor.do(self._run_out, running)

    def _run_out(self, now: float, running: _Running) -> None:
        # It may have been cancelled or pushed back while it waited for the processor.
        key = (running.instance, running.timer)
        if self._running.get(key) is not running:
            return
        if running.deadline > self._processor.cursor:
            self._due(running)
            return
        del self._running[key]
        self._fire(now, running.instance, running.timer)
