"""A consumer with a named position whose methods block, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ordercast.node.consumer import Consumer, Pending
from ordercast.node.deliveries import TypedDelivery
from ordercast.node.node_thread import NodeThread

Value = TypeVar("Value")


class SynchronousPending(TypedDelivery[Value]):
    """A delivery that somebody works on, until it says that it is done. In a group without a type, `value` is the
    payload."""

    __slots__ = ("_pending", "_thread")

    def __init__(self, thread: NodeThread, pending: Pending[Value]) -> None:
        super().__init__(pending.delivery, pending.value)
        self._thread = thread
        self._pending = pending

    def done(self, timeout: float | None = None) -> None:
        """The work on this delivery, and on all before it, is done. When this returns, a restart begins behind it.
        `TimeoutError` after so many seconds; the position may be kept all the same."""
        self._thread.wait_for(self._pending.done(), timeout)


class SynchronousConsumer(Generic[Value]):
    """Iterates over the deliveries of a group from a named position on, until the node is closed. `TimeoutError` when
    none comes for so many seconds, and then the same iteration can go on."""

    def __init__(self, thread: NodeThread, consume: Callable[[], Consumer[Value]], timeout: float | None) -> None:
        self._thread = thread
        self._consumer = thread.call(consume)
        self._timeout = timeout

    @property
    def name(self) -> str:
        """What its position is called."""
        return self._consumer.name

    @property
    def position(self) -> int:
        """The offset at which a restart would begin."""
        return self._consumer.position

    def __iter__(self) -> SynchronousConsumer[Value]:
        return self

    def __next__(self) -> SynchronousPending[Value]:
        pending = self._thread.next_of(self._consumer, self._timeout)
        if pending is None:
            raise StopIteration
        return SynchronousPending(self._thread, pending)
