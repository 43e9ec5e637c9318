"""Patience: what has been here for long is looked at again and again, and the application hears whom we wait for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar

from ordercast.core import Part

if TYPE_CHECKING:
    from ordercast.protocols.parts.kept import Keeper


class Watch(Part):
    """One timer for all messages; it runs while there are any. What to do about them is a subclass's business."""

    timers = ("watch",)
    branches: ClassVar[tuple[str, ...]] = ("blocked", "unblocked")

    def __init__(self, core: Keeper, seconds: float) -> None:
        self._host = core
        self._seconds = seconds
        self.tick = 0
        """Counts the intervals of the timer. Waiting is measured in them, not by the site's clock, which may jump."""
        self.is_running = False

    def keep_watching(self) -> None:
        """There is something that may have to be asked about, or be blocked."""
        if not self.is_running:
            self.is_running = True
            self._host.set_timer("watch", self._seconds)

    def on_watch_timeout(self) -> None:
        """Ask about what has been here for long; say whether we are blocked, and by whom."""
        host = self._host
        self.tick += 1
        is_told = self.look()
        reason = self.whom_we_wait_for() if is_told else ""
        if is_told and reason != host.obstacle("waiting"):
            host.branch("blocked" if reason else "unblocked")
            host.block("waiting", reason)
        self.is_running = False
        if self.is_needed() or reason or not is_told:
            self.keep_watching()

    def is_needed(self) -> bool:
        """Whether there is anything to look at."""
        return bool(self._host.entries)

    @abstractmethod
    def look(self) -> bool:
        """An interval is over. Whether it can be said whom we wait for."""

    @abstractmethod
    def whom_we_wait_for(self) -> str:
        """Why the oldest message that should be delivered here, or taken elsewhere, is not; empty when it is young."""

    def old(self) -> Iterator[Any]:
        """What has been here for two intervals, the oldest first."""
        return takewhile(lambda entry: self.tick - entry.born_tick >= 2, self._host.entries.values())
