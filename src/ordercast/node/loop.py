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


HEAP_KEPT_BYTES = 31 << 20
"""Just below the size from which glibc would map memory instead of taking it from the heap."""


def _keep_heap() -> None:
    """Teach glibc to keep free memory, up to twice this much.

    It gives the top of its heap back to the system as soon as 128 kB are free there, and bundles of 60 kB that come and
    go make that happen thousands of times a second: each time pages have to be made anew (9 % of all time with messages
    of 10 kB). A large block that is freed raises that threshold for good.
    """
    bytes(HEAP_KEPT_BYTES)


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Like `asyncio.run`, on the fastest loop there is."""
    _keep_heap()
    if uvloop_is_installed():
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)
    return asyncio.run(main)
