"""The same node for programs without an event loop: it runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from ordercast.core import GroupId, SiteId
from ordercast.node import node as asynchronous
from ordercast.node.group import Group
from ordercast.node.node_thread import NodeThread
from ordercast.node.receipts import Confirm, Receipt
from ordercast.node.replicated import Replicated
from ordercast.node.synchronous_group import SynchronousGroup, SynchronousTypedGroup
from ordercast.node.synchronous_replica import SynchronousReplica
from ordercast.node.typed import TypedGroup

State = TypeVar("State")
Value = TypeVar("Value")


class SynchronousNode:
    """A node whose methods block. Threads may share it; one thread at a time takes the deliveries of a group."""

    def __init__(
        self, configuration: str | Path | Mapping[str, Any], process: SiteId, overrides: dict[str, Any]
    ) -> None:
        self._node = asynchronous.open(configuration, process, **overrides)
        self.internals = NodeThread(self._node)
        """For other parts of this package, as `Node.internals` is."""

    def __enter__(self) -> SynchronousNode:
        self.internals.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.internals.stop()

    @overload
    def join(
        self, *names: GroupId, role: str = "", service: str = "", timeout: float | None = None
    ) -> SynchronousGroup: ...

    @overload
    def join(
        self,
        *names: GroupId,
        type: type[Value],
        version: str = "",
        encode: Callable[[Value], bytes] | None = None,
        decode: Callable[[bytes], Value] | None = None,
        role: str = "",
        service: str = "",
        timeout: float | None = None,
    ) -> SynchronousTypedGroup[Value]: ...

    def join(self, *names: GroupId, **wanted: Any) -> SynchronousGroup | SynchronousTypedGroup[Any]:
        """Be in a group and take its deliveries; of several, in one order. Done when the process is in. With a `type`
        its messages are values, as `Node.join` says."""
        group: Group | TypedGroup[Any] = self.internals.wait_for(self._node.join(*names, **wanted))
        if isinstance(group, TypedGroup):
            return SynchronousTypedGroup(self.internals, group)
        return SynchronousGroup(self.internals, group)

    def replicate(
        self, replica: Replicated[State], group: GroupId, timeout: float | None = None
    ) -> SynchronousReplica[State]:
        """Let a `Replicated` join a group; done when its state is there. `TimeoutError` after so many seconds."""
        return SynchronousReplica(
            self.internals.wait_for(replica.join(self._node, group, timeout)), self.internals.wait_for
        )

    def members(self, group: GroupId) -> tuple[SiteId, ...]:
        """Who is in a group, as far as this process knows."""
        return self._node.members(group)

    def status(self) -> dict[str, Any]:
        """What there is to know about the node, also who was found and who is looked for."""
        return self.internals.call(self._node.status)

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
            return self.internals.wait_for(self._node.multicast(payload, groups, destinations, key=key), timeout)
        return self.internals.wait_for(self._node.multicast(payload, groups, confirm=confirm, key=key), timeout)

    def try_multicast(self, payload: bytes, groups: Sequence[GroupId]) -> None:
        """The same, but `WouldBlock` instead of waiting."""
        self.internals.call(lambda: self._node.try_multicast(payload, groups))

    def multicast_many(
        self, payloads: Sequence[bytes], groups: Sequence[GroupId], *, timeout: float | None = None
    ) -> None:
        """Send messages to the same groups, in this order; after a `TimeoutError` the first of them are sent."""
        self.internals.wait_for(self._node.multicast_many(payloads, groups), timeout)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent is accepted."""
        self.internals.wait_for(self._node.flush(), timeout)


def open_synchronous(
    configuration: str | Path | Mapping[str, Any], process: SiteId, **overrides: Any
) -> SynchronousNode:
    """`with ordercast.open_synchronous("bank.toml", process="branch-7") as node: …`."""
    return SynchronousNode(configuration, process, overrides)
