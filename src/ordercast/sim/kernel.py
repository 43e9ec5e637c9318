"""The event queue: simulated time, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVar

from ordercast.core import OrdercastError

Kind = TypeVar("Kind")


class Runaway(OrdercastError):
    """The run has handled more events than it may: messages or timers that beget each other without end."""


class EventQueue:
    """Calls functions at simulated times, in order of time and, at equal times, in the order in which they were
    scheduled."""

    def __init__(self) -> None:
        self.now = 0.0
        self.handled = 0
        self.events_max = 1 << 60
        """How many events may be handled before the run counts as a runaway."""
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = count().__next__

    def schedule(self, time: float, function: Callable[..., None], *arguments: Any) -> None:
        """Call the function at a time; one that has passed means now."""
        heappush(self._queue, (time, self._order(), function, arguments))

    def waiting(self, kind: type[Kind]) -> list[Kind]:
        """The objects of a kind with which functions are scheduled that have not been called yet, in order."""
        in_order = sorted(self._queue, key=lambda entry: entry[:2])
        return [argument for *_, arguments in in_order for argument in arguments if isinstance(argument, kind)]

    def run(self, until: float) -> None:
        """Handle everything up to and including a time; it is that time then."""
        queue = self._queue
        left = self.events_max - self.handled
        try:
            while queue:
                entry = heappop(queue)
                time, _, function, arguments = entry
                if time > until:
                    heappush(queue, entry)
                    break
                if time > self.now:
                    self.now = time
                function(*arguments)
                left -= 1
                if left < 0:
                    raise Runaway(f"more than {self.events_max} events")
        except OrdercastError as error:
            error.add_note(f"at {self.now:.6f} simulated seconds")
            raise
        finally:
            self.handled = self.events_max - left
        self.now = max(self.now, until)
