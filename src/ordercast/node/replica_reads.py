"""Reads that are not stale: they wait until this replica has everything that was acknowledged before they began.

A read sends a call that changes nothing, and is made where that call has its place: what was acknowledged to anybody
before has an earlier one. Reads that begin while such a call is under way share the next one, so that a thousand reads
at a time cost two calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Barriers:
    """Calls that change nothing, of one replica."""

    def __init__(self, send: Callable[[], Awaitable[object]]) -> None:
        """`send` makes one such call, and waits for its place in the order."""
        self._send = send
        self._under_way: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        """Has not been sent: whoever begins to read now may wait for it."""

    async def wait(self) -> None:
        """Until a call that was sent after this moment has its place here; raises what the call raises."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._pass(self._under_way))
            self._next.add_done_callback(_look)
        # One reader who gives up does not take the others along.
        await asyncio.shield(self._next)

    async def _pass(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait((before,))
        self._under_way, self._next = self._next, None
        await self._send()


def _look(task: asyncio.Task[None]) -> None:
    """All who waited for it may have given up, and then nobody asks why it failed."""
    if not task.cancelled():
        task.exception()
