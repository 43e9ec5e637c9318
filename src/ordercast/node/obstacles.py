"""What keeps a process from going on, and when that is worth telling."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ordercast.core import SiteId

logger = logging.getLogger("ordercast.node")

BLOCKED_SECONDS = 2.0
"""How long a group may stand still until the application hears of it: longer than a restart of a small process."""


class Obstacles:
    """The reasons to wait that the protocol has given and not taken back."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        process: SiteId,
        unread: Callable[[], list[str]],
        on_blocked: Callable[[str], None],
    ) -> None:
        """`unread` gives the groups whose deliveries wait for an application that has not joined them; `on_blocked`
        gets what the application is to hear: why it is blocked, or an empty text when it can go on."""
        self.told = ""
        """Why the process is blocked, once that has lasted; empty when it is not."""
        self._loop = loop
        self._process = process
        self._unread = unread
        self._on_blocked = on_blocked
        self._reasons: dict[str, str] = {}
        self._patience: asyncio.TimerHandle | None = None

    @property
    def reasons(self) -> str:
        """Why there is no progress now, told or not; empty when nothing is in the way."""
        return "; ".join(self._reasons.values())

    def change(self, by: str, reason: str) -> None:
        """Something is in the way, or no longer. A short wait is how fast senders are held back, and no news."""
        before = bool(self._reasons)
        if reason:
            self._reasons[by] = reason
        else:
            self._reasons.pop(by, None)
        if self._reasons and not before:
            self._patience = self._loop.call_later(BLOCKED_SECONDS, self._tell)
        elif before and not self._reasons:
            self.stop()
            if self.told:
                logger.info("process %s goes on", self._process)
                self.told = ""
                self._on_blocked("")
        elif self.told:
            self._tell()

    def stop(self) -> None:
        """Tell nothing that was not told yet."""
        if self._patience is not None:
            self._patience.cancel()

    def _tell(self) -> None:
        unread = self._unread()
        hint = f"; process {self._process} has not joined {unread[0]}, where its deliveries wait" if unread else ""
        self.told = self.reasons + hint
        logger.warning("process %s is blocked: %s", self._process, self.told)
        self._on_blocked(self.told)
