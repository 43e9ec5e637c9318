"""Who waits until a replicated state has changed."""

from __future__ import annotations

import asyncio


class Changes:
    """Wakes all who wait; who does not wait costs nothing."""

    def __init__(self) -> None:
        self._waiting: asyncio.Future[None] | None = None

    def tell(self) -> None:
        """The state has changed, or has come, or there will be none any more."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def wait(self) -> None:
        """Until it changes the next time."""
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_future()
        # One who gives up does not take the others along.
        await asyncio.shield(self._waiting)
