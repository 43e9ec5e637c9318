"""The thread in which a node is open for programs without an event loop, and how they wait for what happens there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from ordercast.core import UsageError
from ordercast.node import node as asynchronous
from ordercast.node.errors import NodeClosed
from ordercast.node.loop import run
from ordercast.node.waiting import within

Result = TypeVar("Result")


class NodeThread:
    """The thread in which a node is open, and its event loop."""

    def __init__(self, node: asynchronous.Node) -> None:
        self.node = node
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="ordercast-node", daemon=True)

    def start(self) -> None:
        """Open the node; what goes wrong there is raised here."""
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    def stop(self) -> None:
        """Close the node."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            run(self._main())
        except BaseException as error:
            self._error = error
        finally:
            self._started.set()

    async def _main(self) -> None:
        async with self.node:
            self._loop = asyncio.get_running_loop()
            self._stop = asyncio.Event()
            self._started.set()
            await self._stop.wait()

    def wait_for(self, coroutine: Coroutine[Any, Any, Result], timeout: float | None = None) -> Result:
        """Run something in the node's event loop and wait for what comes of it; `TimeoutError` after so many seconds,
        and then it is given up there, too."""
        if self._loop is None:
            coroutine.close()
            raise RuntimeError("enter the node first: with ordercast.open_synchronous(…) as node")
        if self._loop.is_closed():
            coroutine.close()
            raise NodeClosed("the node is closed")
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise UsageError(
                "a function that the node calls runs in the node's own thread, which would wait for itself: let "
                "another thread do this"
            )
        if timeout is not None:
            coroutine = _limit(coroutine, timeout)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function in the node's event loop."""
        return self.wait_for(_call(function))

    def next_of(self, events: AsyncIterator[Result], timeout: float | None = None) -> Result | None:
        """The next one; None when there is none any more."""
        return self.wait_for(_next(events), timeout)


async def _limit(coroutine: Coroutine[Any, Any, Result], timeout: float) -> Result:
    async with within(timeout, lambda: "not done"):
        return await coroutine


async def _call(function: Callable[[], Result]) -> Result:
    return function()


async def _next(events: AsyncIterator[Result]) -> Result | None:
    return await anext(events, None)
