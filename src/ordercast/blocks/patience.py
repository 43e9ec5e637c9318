"""Waiting for a while, and saying what for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


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
