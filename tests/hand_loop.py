"""An event loop in the test's hands: what is due runs when it is told to."""

from __future__ import annotations

from collections.abc import Callable
from queue import Queue
from typing import Any

DEADLINE_SECONDS = 30.0
"""Against hanging; not a measure of speed."""


class HandLoop:
    """What of an event loop hands over work needs: soon, and from a thread."""

    def __init__(self) -> None:
        self.due: list[Callable[[], object]] = []
        """A loop with nothing due would sleep."""
        self._from_threads: Queue[Callable[[], object]] = Queue()

    def call_soon(self, function: Callable[..., object], *arguments: Any) -> None:
        self.due.append(lambda: function(*arguments))

    def call_soon_threadsafe(self, function: Callable[..., object], *arguments: Any) -> None:
        self._from_threads.put(lambda: function(*arguments))

    def run_due(self) -> None:
        due, self.due = self.due, []
        for function in due:
            function()

    def wait(self) -> None:
        """Run what is due, then the next thing that comes from a thread."""
        self.run_due()
        self._from_threads.get(timeout=DEADLINE_SECONDS)()

    def nothing_came(self) -> bool:
        return self._from_threads.empty()
