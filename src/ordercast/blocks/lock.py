"""A lock with a lease and fencing numbers."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from types import TracebackType

from ordercast.blocks.state import State
from ordercast.core import OrdercastError, UsageError
from ordercast.node import Replicated
from ordercast.node.waiting import within

RENEWALS = 3
"""Times in a lease that its holder asks for more: two of them may be lost."""


class Lock:
    """One lock of a group, as one holder sees it.

    async with shared.lock("backup") as fence: …

    `fence` is greater than that of every holder before. Whoever writes somewhere with a lock hands it over, and what is
    written there with a smaller number is refused there: a holder that was paused for longer than its lease, and does
    not know it yet, does no harm.
    """

    def __init__(self, replica: Replicated[State], name: str, holder: str, lease: float) -> None:
        if not lease > 0:
            raise UsageError(f"lease={lease}: a lock needs some seconds")
        self.name = name
        self.fence = 0
        """The number of the last time that it was had."""
        self.lost = asyncio.Event()
        """Set when the lease has ended before it was given back: the group was blocked, or this process paused."""
        self._replica = replica
        self._holder = holder
        self._lease = lease
        self._until = 0.0
        """By this process' own clock."""
        self._renewing: asyncio.Task[None] | None = None

    @property
    def is_held(self) -> bool:
        """Whether it is had here, as far as this process can tell by its own clock."""
        return time.monotonic() < self._until

    async def acquire(self, timeout: float | None = None) -> int:
        """Wait for the lock; its fencing number. `TimeoutError` after so many seconds."""
        self._check_free()
        try:
            async with within(timeout, lambda: f"lock {self.name} is not had: {self._held()[0] or 'nobody'} has it"):
                while not (fence := await self._ask(waits=True)):
                    await self._wait()
        except BaseException:
            # Also when nobody knows whether it was given: then it is given back, or its lease ends.
            with suppress(OrdercastError, TimeoutError):
                async with asyncio.timeout(self._lease):
                    await self._replica.call(State.release, self.name, self._holder, self._lease)
            raise
        return self._begin(fence)

    async def try_acquire(self) -> int:
        """The same without waiting; 0 when another one has it."""
        self._check_free()
        fence = await self._ask(waits=False)
        return self._begin(fence) if fence else 0

    async def release(self) -> bool:
        """Give it back; whether this one still had it."""
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        self._until = 0.0
        return await self._replica.call(State.release, self.name, self._holder, self._lease)

    async def __aenter__(self) -> int:
        return await self.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(OrdercastError, TimeoutError):  # the group is blocked or closed, and the lease ends by itself
            await self.release()

    # ------------------------------------------------------------------ inside
    def _check_free(self) -> None:
        if self._renewing is not None:
            raise UsageError(f"lock {self.name} is had already: make another one for another task")

    async def _ask(self, waits: bool) -> int:
        # The lease counts from before the question: whoever is told late has less of it.
        asked = time.monotonic()
        fence = await self._replica.call(State.acquire, self.name, self._holder, self._lease, waits)
        if fence:
            self._until = asked + self._lease
        return fence

    async def _wait(self) -> None:
        """Until the lock may be free."""
        holder, until = self._held()
        if holder in ("", self._holder):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.01, until - time.time())):
                while self._held() == (holder, until):
                    await self._replica.changed()

    def _held(self) -> tuple[str, float]:
        """Who has it, and until when."""
        state = self._replica.state
        lock = None if state is None else state.locks.get(self.name)
        return ("", 0.0) if lock is None else (lock.holder, lock.until)

    def _begin(self, fence: int) -> int:
        self.fence = fence
        self.lost.clear()
        self._renewing = asyncio.create_task(self._renew(fence))
        return fence

    async def _renew(self, fence: int) -> None:
        while self.is_held:
            await asyncio.sleep(self._lease / RENEWALS)
            with suppress(OrdercastError, TimeoutError):
                async with asyncio.timeout(max(0.0, self._until - time.monotonic())):
                    if await self._ask(waits=False) != fence:
                        break  # another one had it meanwhile, or it was free: not the lease that was begun
        self._until, self._renewing = 0.0, None
        self.lost.set()
