"""Groups whose methods block, with a type and without, for programs without an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Generic, Literal, Protocol, TypeVar, overload

from ordercast.core import SiteId
from ordercast.node.asking import Wait
from ordercast.node.consumer import Consumer
from ordercast.node.deliveries import Batch, CaughtUp, Delivery, Rollback, TypedDelivery, View
from ordercast.node.group import Group
from ordercast.node.node_thread import NodeThread
from ordercast.node.receipts import Confirm, Receipt
from ordercast.node.synchronous_consumer import SynchronousConsumer
from ordercast.node.typed import TypedGroup

Value = TypeVar("Value")


class _Asynchronous(Protocol[Value]):
    """What a group can do whether its messages are bytes or values."""

    @property
    def name(self) -> str: ...

    @property
    def members(self) -> tuple[SiteId, ...]: ...

    async def multicast(self, value: Value, /, *, confirm: Confirm, key: str | None = None) -> Receipt | None: ...

    def try_multicast(self, value: Value, /) -> None: ...

    async def multicast_many(self, values: Sequence[Value], /) -> None: ...

    def consume(self, name: str) -> Consumer[Value]: ...

    def views(self) -> AsyncIterator[View]: ...

    async def leave(self, timeout: float | None = None) -> None: ...


class _Blocking(Generic[Value]):
    """What both kinds of groups have."""

    def __init__(self, thread: NodeThread, group: _Asynchronous[Value]) -> None:
        self.name = group.name
        self._thread = thread
        self._any = group

    @property
    def members(self) -> tuple[SiteId, ...]:
        """Who is in it now, as far as this process knows."""
        return self._any.members

    @overload
    def multicast(self, payload: Value, *, key: str | None = None, timeout: float | None = None) -> None: ...

    @overload
    def multicast(
        self,
        payload: Value,
        *,
        confirm: Literal[True, "majority"],
        key: str | None = None,
        timeout: float | None = None,
    ) -> Receipt: ...

    def multicast(
        self, payload: Value, *, confirm: Confirm = False, key: str | None = None, timeout: float | None = None
    ) -> Receipt | None:
        """Send a message to the group; waits while the window is full, and with `confirm` until it is ordered. Of
        several messages with the same `key` the first one is delivered. `TimeoutError` after so many seconds; the
        message may be ordered all the same."""
        return self._thread.wait_for(self._any.multicast(payload, confirm=confirm, key=key), timeout)

    def try_multicast(self, payload: Value) -> None:
        """The same, but `WouldBlock` instead of waiting."""
        self._thread.call(lambda: self._any.try_multicast(payload))

    def multicast_many(self, payloads: Sequence[Value], *, timeout: float | None = None) -> None:
        """Send messages, in this order; after a `TimeoutError` the first of them are sent."""
        self._thread.wait_for(self._any.multicast_many(payloads), timeout)

    def consume(self, name: str, timeout: float | None = None) -> SynchronousConsumer[Value]:
        """Deliveries from a named position on, as `Group.consume` gives them: `delivery.done()` moves it.
        `TimeoutError` when none comes for so many seconds, and then the same iteration can go on."""
        return SynchronousConsumer(self._thread, lambda: self._any.consume(name), timeout)

    def views(self, timeout: float | None = None) -> Iterator[View]:
        """Who is in the group: now, and whenever that changes, ahead of what waits to be taken; `timeout` as in
        `consume`, and then the next call goes on."""
        views = self._any.views()
        while (view := self._thread.next_of(views, timeout)) is not None:
            yield view

    def leave(self, timeout: float | None = None) -> None:
        """Take no more deliveries; a group that no file names is left, and this is done when those who stay have
        delivered that."""
        self._thread.wait_for(self._any.leave(timeout))


class SynchronousGroup(_Blocking[bytes]):
    """A group whose methods block. Iterating waits for deliveries and ends when the node is closed."""

    def __init__(self, thread: NodeThread, group: Group) -> None:
        super().__init__(thread, group)
        self._group = group

    def batches(self, timeout: float | None = None) -> Iterator[Batch]:
        """Deliveries a bundle at a time; `TimeoutError` when none comes for so many seconds, and then the next call
        goes on there."""
        batches = self._group.batches()
        while (batch := self._thread.next_of(batches, timeout)) is not None:
            yield batch

    def events(self, timeout: float | None = None) -> Iterator[Batch | View | Rollback | CaughtUp]:
        """Deliveries a bundle at a time, and what else happens, each where it happened; `timeout` as in `batches`."""
        events = self._group.events()
        while (event := self._thread.next_of(events, timeout)) is not None:
            yield event

    def __iter__(self) -> Iterator[Delivery]:
        for batch in self.batches():
            yield from batch.deliveries()

    def ask(self, question: bytes, *, wait: Wait = "majority", timeout: float = 5.0) -> dict[SiteId, bytes]:
        """Ask the members of the group, as `Group.ask` does; member -> its answer."""
        return self._thread.wait_for(self._group.ask(question, wait=wait, timeout=timeout))

    def on_question(self, answer: Callable[[bytes], bytes]) -> None:
        """Answer questions to the group with a function, which is called in the node's thread."""
        self._thread.call(lambda: self._group.on_question(answer))

    def choose(self, service: str, sources: Sequence[SiteId] = ()) -> None:
        """Want another service for what is delivered here, of some sources or of all; done when it is active."""
        self._thread.wait_for(self._group.choose(service, sources))

    def choose_role(self, role: str) -> None:
        """Want another role in the group. Roles are the protocol's."""
        self._thread.call(lambda: self._group.choose_role(role))


class SynchronousTypedGroup(_Blocking[Value]):
    """A group with a type whose methods block. Iterating waits for values and ends when the node is closed."""

    def __init__(self, thread: NodeThread, group: TypedGroup[Value]) -> None:
        super().__init__(thread, group)
        self._typed = group

    def deliveries(self, timeout: float | None = None) -> Iterator[TypedDelivery[Value]]:
        """Values with their places in the order; `TimeoutError` when none comes for so many seconds, and then the next
        call goes on there. `TypeRefused` when the others have another type."""
        deliveries = aiter(self._typed)
        while (delivery := self._thread.next_of(deliveries, timeout)) is not None:
            yield delivery

    def __iter__(self) -> Iterator[TypedDelivery[Value]]:
        return self.deliveries()
