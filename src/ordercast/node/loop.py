"""The event loop: uvloop where it is installed, which is twice as fast here, else asyncio's own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ordercast.core import UsageError

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
    factory = None
    if uvloop_is_installed():
        import uvloop

        factory = uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(main)
    except UsageError as error:
        # From the caller's own lines on: a mistake of theirs is not looked for in the event loop's.
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_frame.f_code is not getattr(main, "cr_code", None):
            traceback = traceback.tb_next
        raise error.with_traceback(traceback or error.__traceback__) from error.__cause__
