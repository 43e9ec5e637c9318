"""Waiting for something that a group has to deliver, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from ordercast.node.errors import GroupBlocked
from ordercast.node.obstacles import BLOCKED_SECONDS

Result = TypeVar("Result")

LOOK_AGAIN_SECONDS = 0.5
"""Until who waits long looks again whether the group is blocked."""


async def wait_unless_blocked(
    future: asyncio.Future[Result], told: Callable[[], str], hint: str, on_blocked: Callable[[], None] = lambda: None
) -> Result:
    """Wait for it; `GroupBlocked` when the group is blocked meanwhile: `told` says why, and `hint` what that means.

    Only who has waited as long as a group that is blocked hears of it: the obstacle may be that of another group.
    """
    patience = BLOCKED_SECONDS
    while not future.done():
        done, _ = await asyncio.wait((future,), timeout=patience)
        patience = LOOK_AGAIN_SECONDS
        blocked = told()
        if blocked and not done:
            on_blocked()
            raise GroupBlocked(f"{blocked}; {hint}")
    return future.result()


@asynccontextmanager
async def within(seconds: float | None, why: Callable[[], str]) -> AsyncIterator[None]:
    """Like `asyncio.timeout`, whose error has no text."""
    patience = asyncio.timeout(seconds)
    try:
        async with patience:
            yield
    except TimeoutError:
        if not patience.expired():
            raise
        raise TimeoutError(f"{why()}, after {seconds:g} s") from None
