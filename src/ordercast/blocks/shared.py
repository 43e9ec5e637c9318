"""A group that holds building blocks by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from ordercast.blocks.election import Election
from ordercast.blocks.lock import Lock
from ordercast.blocks.map import Map
from ordercast.blocks.queue import Counter, Queue
from ordercast.blocks.state import State
from ordercast.core import GroupId, SiteId, UsageError
from ordercast.node import Node, Replicated
from ordercast.node.asking import Wait

Value = TypeVar("Value")

LEASE_SECONDS = 10.0
"""For which a lock is held by whoever is not heard of any more. Longer than a pause that happens every day, and than
clocks of the machines may differ."""

WORK_SECONDS = 60.0
"""For which an item of a queue is with whoever works on it."""


class Shared:
    """Maps, locks, elections, queues and counters of one group.

    shared = await ordercast.Shared().join(node, "everyone")
    settings = shared.map("settings", str)
    """

    def __init__(self, *, timeout: float | None = None, quorum: int | None = None) -> None:
        """`timeout` and `quorum` are those of `Replicated`."""
        self.replica = Replicated(State(), timeout=timeout, version="blocks-1", quorum=quorum)
        """The state behind them."""
        self._process = ""
        self._names = 0

    async def join(self, node: Node, group: GroupId, timeout: float | None = None) -> Shared:
        """Hold the blocks of a group, of which all members do this. Done when they are here."""
        await self.replica.join(node, group, timeout)
        self._process = f"{node.process}.{node.incarnation}"
        return self

    async def leave(self, timeout: float | None = None) -> None:
        """Hold them no more, as `Replicated.leave` says."""
        await self.replica.leave(timeout)

    async def ask(self, question: bytes, *, wait: Wait = "majority", timeout: float = 5.0) -> dict[SiteId, bytes]:
        """Ask the members of the group, as `Group.ask` does; member -> its answer."""
        return await self.replica.ask(question, wait=wait, timeout=timeout)

    def on_question(self, answer: Callable[[bytes], bytes]) -> None:
        """Answer questions to the group with a function, as `Group.on_question` does."""
        self.replica.on_question(answer)

    def _name(self) -> str:
        if not self._process:
            raise UsageError("these blocks are in no group: await their join first")
        self._names += 1
        return f"{self._process}.{self._names}"

    @overload
    def map(self, name: str) -> Map[Any]: ...

    @overload
    def map(self, name: str, type: type[Value]) -> Map[Value]: ...

    def map(self, name: str, type: Any = Any) -> Map[Any]:  # noqa: A002
        """A map from texts to values of a type, with watches."""
        return Map(self.replica, name, type)

    def lock(self, name: str, *, lease: float = LEASE_SECONDS) -> Lock:
        """A lock that one task of one process has at a time, and for `lease` seconds after it was heard of last."""
        return Lock(self.replica, name, self._name(), lease)

    def election(self, name: str, *, lease: float = LEASE_SECONDS) -> Election:
        """An election that one process wins at a time."""
        return Election(self.replica, name, self._name(), lease)

    @overload
    def queue(self, name: str, *, lease: float = ...) -> Queue[Any]: ...

    @overload
    def queue(self, name: str, type: type[Value], *, lease: float = ...) -> Queue[Value]: ...

    def queue(self, name: str, type: Any = Any, *, lease: float = WORK_SECONDS) -> Queue[Any]:  # noqa: A002
        """A queue of which each item goes to one member, and to another one when that is not done after `lease`
        seconds."""
        return Queue(self.replica, name, type, self._name(), lease)

    def counter(self, name: str) -> Counter:
        """A number to which everybody adds."""
        return Counter(self.replica, name)
