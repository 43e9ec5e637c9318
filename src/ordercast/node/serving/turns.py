"""Runs of clients for which a group had no room: each gets its turn, in the order in which they came."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from ordercast.core import OrdercastError
from ordercast.node.errors import GroupBlocked

BLOCKED_PAUSE_SECONDS = 0.5
"""Between two attempts at a group that does not go on. Its clients are told, and what they have sent waits here."""


class Turn(Protocol):
    """Somebody's run."""

    def attempt(self) -> bool:
        """Take it, if there is room; whether it is done with."""

    def fail(self, error: OrdercastError) -> None:
        """There will be no room."""


class Turns:
    """Those who wait for room in one group.

    One task waits for all of them. (Else: 1. hundreds of clients send at full rate, and each waits by itself. 2. There
    is room for one run. 3. All are woken, one sends, and the others wait again: most of the time goes into waking.)
    """

    def __init__(self, wait_for_room: Callable[[], Awaitable[None]]) -> None:
        self._wait_for_room = wait_for_room
        self._waiting: deque[Turn] = deque()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, turn: Turn) -> None:
        """Somebody waits, behind all others."""
        self._waiting.append(turn)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Nobody is served any more."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._waiting:
                if self._waiting[0].attempt():
                    self._waiting.popleft()
                else:
                    await self._wait()
        finally:
            self._task = None

    async def _wait(self) -> None:
        try:
            await self._wait_for_room()
        except GroupBlocked:
            await asyncio.sleep(BLOCKED_PAUSE_SECONDS)
        except OrdercastError as error:
            self._waiting.popleft().fail(error)
