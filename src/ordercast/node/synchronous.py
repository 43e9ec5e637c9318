"""The same node for programs without an event loop: it runs in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from ordercast.core import GroupId, SiteId
from ordercast.node import node as asynchronous
from ordercast.node.asking import Wait
from ordercast.node.deliveries import Batch, CaughtUp, Delivery, Rollback, View
from ordercast.node.group import Group
from ordercast.node.loop import run
from ordercast.node.receipts import Confirm, Receipt
from ordercast.node.replicated import Replicated
from ordercast.node.synchronous_replica import SynchronousReplica

Result = TypeVar("Result")
State = TypeVar("State")


class _NodeThread:
    """The thread in which a node is open, and its event loop."""

    def __init__(self, node: asynchronous.Node) -> None:
        self._node = node
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
        async with self._node:
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
        if timeout is not None:
            coroutine = _limit(coroutine, timeout)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class SynchronousNode:
    """A node whose methods block. Threads may share it; one thread at a time takes the deliveries of a group."""

    def __init__(
        self, configuration: str | Path | Mapping[str, Any], process: SiteId, overrides: dict[str, Any]
    ) -> None:
        self._node = asynchronous.open(configuration, process, **overrides)
        self._thread = _NodeThread(self._node)

    def __enter__(self) -> SynchronousNode:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._thread.stop()

    def join(
        self, *names: GroupId, role: str = "", service: str = "", timeout: float | None = None
    ) -> SynchronousGroup:
        """Be in a group and take its deliveries; of several, in one order. Done when the process is in."""
        joining = self._node.join(*names, role=role, service=service, timeout=timeout)
        return SynchronousGroup(self._thread, self._thread.wait_for(joining))

    def replicate(
        self, replica: Replicated[State], group: GroupId, timeout: float | None = None
    ) -> SynchronousReplica[State]:
        """Let a `Replicated` join a group; done when its state is there. `TimeoutError` after so many seconds."""
        return SynchronousReplica(
            self._thread.wait_for(replica.join(self._node, group, timeout)), self._thread.wait_for
        )

    def members(self, group: GroupId) -> tuple[SiteId, ...]:
        """Who is in a group, as far as this process knows."""
        return self._node.members(group)

    def status(self) -> dict[str, Any]:
        """What there is to know about the node, also who was found and who is looked for."""
        return self._thread.wait_for(_call(self._node.status))

    @overload
    def multicast(
        self,
        payload: bytes,
        groups: Sequence[GroupId] = (),
        destinations: Sequence[SiteId] | None = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> None: ...

    @overload
    def multicast(
        self,
        payload: bytes,
        groups: Sequence[GroupId] = (),
        *,
        confirm: Literal[True, "majority"],
        key: str | None = None,
        timeout: float | None = None,
    ) -> Receipt: ...

    def multicast(
        self,
        payload: bytes,
        groups: Sequence[GroupId] = (),
        destinations: Sequence[SiteId] | None = None,
        *,
        confirm: Confirm = False,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Receipt | None:
        """Send a message to one or several groups; waits while the window is full, and with `confirm` until it is
        ordered. `key` is as in `Group.multicast`. `TimeoutError` after so many seconds; the message may be ordered all
        the same."""
        if destinations is not None:
            return self._thread.wait_for(self._node.multicast(payload, groups, destinations, key=key), timeout)
        return self._thread.wait_for(self._node.multicast(payload, groups, confirm=confirm, key=key), timeout)

    def try_multicast(self, payload: bytes, groups: Sequence[GroupId]) -> None:
        """The same, but `WouldBlock` instead of waiting."""
        self._thread.wait_for(_call(lambda: self._node.try_multicast(payload, groups)))

    def multicast_many(
        self, payloads: Sequence[bytes], groups: Sequence[GroupId], *, timeout: float | None = None
    ) -> None:
        """Send messages to the same groups, in this order; after a `TimeoutError` the first of them are sent."""
        self._thread.wait_for(self._node.multicast_many(payloads, groups), timeout)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent is accepted."""
        self._thread.wait_for(self._node.flush(), timeout)


class SynchronousGroup:
    """A group whose methods block. Iterating waits for deliveries and ends when the node is closed."""

    def __init__(self, thread: _NodeThread, group: Group) -> None:
        self.name = group.name
        self._thread = thread
        self._group = group

    @property
    def members(self) -> tuple[SiteId, ...]:
        """Who is in it now, as far as this process knows."""
        return self._group.members

    @overload
    def multicast(self, payload: bytes, *, key: str | None = None, timeout: float | None = None) -> None: ...

    @overload
    def multicast(
        self,
        payload: bytes,
        *,
        confirm: Literal[True, "majority"],
        key: str | None = None,
        timeout: float | None = None,
    ) -> Receipt: ...

    def multicast(
        self, payload: bytes, *, confirm: Confirm = False, key: str | None = None, timeout: float | None = None
    ) -> Receipt | None:
        """Send a message to the group; waits while the window is full, and with `confirm` until it is ordered. Of
        several messages with the same `key` the first one is delivered. `TimeoutError` after so many seconds; the
        message may be ordered all the same."""
        return self._thread.wait_for(self._group.multicast(payload, confirm=confirm, key=key), timeout)

    def try_multicast(self, payload: bytes) -> None:
        """The same, but `WouldBlock` instead of waiting."""
        self._thread.wait_for(_call(lambda: self._group.try_multicast(payload)))

    def multicast_many(self, payloads: Sequence[bytes], *, timeout: float | None = None) -> None:
        """Send messages, in this order; after a `TimeoutError` the first of them are sent."""
        self._thread.wait_for(self._group.multicast_many(payloads), timeout)

    def batches(self, timeout: float | None = None) -> Iterator[Batch]:
        """Deliveries a bundle at a time; `TimeoutError` when none comes for so many seconds, and then the next call
        goes on there."""
        batches = self._group.batches()
        while (batch := self._thread.wait_for(_next(batches), timeout)) is not None:
            yield batch

    def events(self, timeout: float | None = None) -> Iterator[Batch | View | Rollback | CaughtUp]:
        """Deliveries a bundle at a time, and what else happens, each where it happened; `timeout` as in `batches`."""
        events = self._group.events()
        while (event := self._thread.wait_for(_next(events), timeout)) is not None:
            yield event

    def views(self, timeout: float | None = None) -> Iterator[View]:
        """Who is in the group: now, and whenever that changes, ahead of what waits to be taken; `timeout` as in
        `batches`."""
        views = self._group.views()
        while (view := self._thread.wait_for(_next(views), timeout)) is not None:
            yield view

    def __iter__(self) -> Iterator[Delivery]:
        for batch in self.batches():
            yield from batch.deliveries()

    def ask(self, question: bytes, *, wait: Wait = "majority", timeout: float = 5.0) -> dict[SiteId, bytes]:
        """Ask the members of the group, as `Group.ask` does; member -> its answer."""
        return self._thread.wait_for(self._group.ask(question, wait=wait, timeout=timeout))

    def on_question(self, answer: Callable[[bytes], bytes]) -> None:
        """Answer questions to the group with a function, which is called in the node's thread."""
        self._thread.wait_for(_call(lambda: self._group.on_question(answer)))

    def choose(self, service: str, sources: Sequence[SiteId] = ()) -> None:
        """Want another service for what is delivered here, of some sources or of all; done when it is active."""
        self._thread.wait_for(self._group.choose(service, sources))

    def choose_role(self, role: str) -> None:
        """Want another role in the group. Roles are the protocol's."""
        self._thread.wait_for(_call(lambda: self._group.choose_role(role)))

    def leave(self, timeout: float | None = None) -> None:
        """Take no more deliveries; a group that no file names is left, and this is done when those who stay have
        delivered that."""
        self._thread.wait_for(self._group.leave(timeout))


async def _limit(coroutine: Coroutine[Any, Any, Result], timeout: float) -> Result:
    async with asyncio.timeout(timeout):
        return await coroutine


async def _call(function: Callable[[], Result]) -> Result:
    return function()


async def _next(events: AsyncIterator[Result]) -> Result | None:
    return await anext(events, None)


def open_synchronous(
    configuration: str | Path | Mapping[str, Any], process: SiteId, **overrides: Any
) -> SynchronousNode:
    """`with ordercast.open_synchronous("bank.toml", process="branch-7") as node: …`."""
    return SynchronousNode(configuration, process, overrides)
