"""A site's processor: one step after the other, and a queue of those that wait for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from ordercast.sim.kernel import EventQueue
from ordercast.sim.site.clock import SiteClock

Step = Callable[[float, Any], None]
Kind = TypeVar("Kind")


class Processor:
    """Runs steps: functions that get the site's own time and one argument. A step begins when the one before has
    ended."""

    def __init__(self, queue: EventQueue, clock: SiteClock, on_caught_up: Callable[[float], None]) -> None:
        """`on_caught_up` hears when what had gathered during a pause is done."""
        self.cursor = 0.0
        """There is work up to this time; sends and rows of a step happen one after the other along it."""
        self.paused = False
        self.steps = 0
        self.slowest_seconds = 0.0
        """The longest that anything had to wait for the processor plus took there: compared with phi_p."""
        self._queue = queue
        self._clock = clock
        self._on_caught_up = on_caught_up
        self._inbox: deque[tuple[float, Step, Any]] = deque()
        """Since when each waits, and what it is."""
        self._resumed_at = 0.0
        """What waited through a pause has waited for the processor only since its end."""
        self._wakes = False
        """Whether the event queue will come for the inbox."""
        self._backlog: int | None = None
        """How much of what had gathered during the last pause is still to be done; None when nobody asks."""

    # ------------------------------------------------------------------ steps
    def do(self, step: Step, argument: Any) -> None:
        """Run a step now, or queue it when the site is busy or paused."""
        now = self._queue.now
        if self.paused or self._inbox or self.cursor > now:
            self._inbox.append((now, step, argument))
            if not self.paused:
                self._wake_at(self.cursor)
            return
        # As `run`, which most steps need not call: they find the site idle.
        self.cursor = now
        self.steps += 1
        clock = self._clock
        step(now if clock.untouched else clock.read(now), argument)
        taken = self.cursor - now
        if taken > self.slowest_seconds:
            self.slowest_seconds = taken

    def run(self, step: Step, argument: Any) -> None:
        """Run a step as soon as the one before has ended, in front of what is queued."""
        self._run(self._queue.now, step, argument)

    def _run(self, since: float, step: Step, argument: Any) -> None:
        """Run a step that has waited for so long."""
        now = self._queue.now
        begin = self.cursor if self.cursor > now else now
        self.cursor = begin
        self.steps += 1
        step(self._clock.read(begin), argument)
        taken = self.cursor - since
        if taken > self.slowest_seconds:
            self.slowest_seconds = taken

    def _wake_at(self, time: float) -> None:
        if not self._wakes and self._inbox:
            self._wakes = True
            self._queue.schedule(time, self._work)

    def _work(self) -> None:
        """Take the next step from the inbox, then come back when that is done."""
        self._wakes = False
        if self.paused or not self._inbox:
            return
        since, step, argument = self._inbox.popleft()
        self._run(max(since, self._resumed_at), step, argument)
        if self._backlog is not None:
            self._backlog -= 1
            self._finish_backlog(self.cursor)
        self._wake_at(self.cursor)

    # ------------------------------------------------------------------ standing still
    def pause(self) -> None:
        """Take no step; what comes waits."""
        self.paused = True
        self._backlog = None

    def resume(self) -> None:
        """Go on with what waits."""
        now = self._resumed_at = self._queue.now
        self.paused = False
        self._backlog = len(self._inbox)
        self._wake_at(now)
        self._finish_backlog(now)

    def _finish_backlog(self, time: float) -> None:
        if self._backlog == 0:
            self._backlog = None
            self._on_caught_up(time)

    def waiting(self, kind: type[Kind]) -> list[Kind]:
        """The objects of a kind with which steps are queued, in order."""
        return [argument for _, _, argument in self._inbox if isinstance(argument, kind)]

    def halt(self) -> None:
        """Forget what waits: the site has crashed."""
        self.paused = False
        self._backlog = None
        self._inbox.clear()

    def restart(self) -> None:
        """Be free from now on: whatever a site was busy with before a crash is gone."""
        self.cursor = self._queue.now
