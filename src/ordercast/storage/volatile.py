"""No log at all, for processes that are configured without one."""

from __future__ import annotations

from ordercast.core import Record
from ordercast.storage.log import Recovery


class VolatileLog:
    """Counts records and forgets them: nothing survives a crash, and nothing has to wait for a disk."""

    def __init__(self) -> None:
        self.position = 0
        self.synced = 0

    def append(self, record: Record) -> None:
        """Forget a record."""
        self.position = self.synced = self.position + 1

    def sync(self, position: int) -> None:
        """There is nothing to wait for."""

    def checkpoint(self, state: Record, position: int) -> None:
        """Nobody will ever read it."""

    def recover(self) -> Recovery:
        """Nothing is left."""
        return Recovery([], None, 0)
