"""Building blocks whose methods block, for programs without an event loop. Threads may share them, but for locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar, overload

from ordercast.blocks.election import Election
from ordercast.blocks.lock import Lock
from ordercast.blocks.map import Change, Entry, Map
from ordercast.blocks.queue import Counter, Job, Queue
from ordercast.blocks.shared import LEASE_SECONDS, WORK_SECONDS, Shared
from ordercast.core import GroupId, SiteId, UsageError
from ordercast.node import SynchronousNode
from ordercast.node.asking import Wait
from ordercast.node.node_thread import NodeThread

Value = TypeVar("Value")


class SynchronousMap(Generic[Value]):
    """A map of a group, by its name."""

    def __init__(self, thread: NodeThread, asynchronous: Map[Value]) -> None:
        self.name = asynchronous.name
        self._thread = thread
        self._map = asynchronous

    def put(self, key: str, value: Value) -> int:
        """Set a key; its version. `TypeError` when the value is not of the type."""
        return self._thread.wait_for(self._map.put(key, value))

    def compare_and_set(self, key: str, value: Value, version: int) -> bool:
        """Set a key if it still has this version, or, with 0, if it is not there; whether it was set."""
        return self._thread.wait_for(self._map.compare_and_set(key, value, version))

    def remove(self, key: str, version: int | None = None) -> bool:
        """Remove a key, if it still has this version; whether it was removed."""
        return self._thread.wait_for(self._map.remove(key, version))

    def get(self, key: str, *, linearizable: bool = False) -> Value | None:
        """What a key is set to, as this process knows it; with `linearizable`, nobody was told of anything newer."""
        return self._thread.wait_for(self._map.get(key, linearizable=linearizable))

    def entry(self, key: str, *, linearizable: bool = False) -> Entry[Value] | None:
        """The same, with its version."""
        return self._thread.wait_for(self._map.entry(key, linearizable=linearizable))

    def items(self, *, linearizable: bool = False) -> dict[str, Value]:
        """All keys and what they are set to."""
        return self._thread.wait_for(self._map.items(linearizable=linearizable))

    def watch(
        self, prefix: str = "", since: int | None = None, timeout: float | None = None
    ) -> Iterator[Change[Value]]:
        """Every change, as `Map.watch` gives them. `TimeoutError` when none comes for so many seconds; a watch `since`
        the version of the last one goes on there."""
        changes = self._map.watch(prefix, since)
        while (change := self._thread.next_of(changes, timeout)) is not None:
            yield change


class SynchronousLock:
    """A lock of a group, as one holder sees it: make one for each thread."""

    def __init__(self, thread: NodeThread, asynchronous: Lock) -> None:
        self.name = asynchronous.name
        self._thread = thread
        self._lock = asynchronous

    @property
    def fence(self) -> int:
        """The number of the last time that it was had."""
        return self._lock.fence

    @property
    def is_held(self) -> bool:
        """Whether it is had here, as far as this process can tell by its own clock."""
        return self._lock.is_held

    @property
    def is_lost(self) -> bool:
        """Whether the lease has ended before it was given back."""
        return self._lock.lost.is_set()

    def acquire(self, timeout: float | None = None) -> int:
        """Wait for the lock; its fencing number. `TimeoutError` after so many seconds."""
        return self._thread.wait_for(self._lock.acquire(timeout))

    def try_acquire(self) -> int:
        """The same without waiting; 0 when another one has it."""
        return self._thread.wait_for(self._lock.try_acquire())

    def release(self) -> bool:
        """Give it back; whether this one still had it."""
        return self._thread.wait_for(self._lock.release())

    def __enter__(self) -> int:
        return self._thread.wait_for(self._lock.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._thread.wait_for(self._lock.__aexit__(kind, error, traceback))


class SynchronousElection:
    """An election of a group, as one candidate sees it."""

    def __init__(self, thread: NodeThread, asynchronous: Election) -> None:
        self.name = asynchronous.name
        self._thread = thread
        self._election = asynchronous

    @property
    def is_leader(self) -> bool:
        """Whether this one leads, as far as its own clock tells."""
        return self._election.is_leader

    @property
    def is_lost(self) -> bool:
        """Whether this one leads no more, although it has not resigned."""
        return self._election.lost.is_set()

    @property
    def leader(self) -> str | None:
        """The process that leads, as far as this one knows; None for nobody."""
        return self._election.leader

    def win(self, timeout: float | None = None) -> int:
        """Wait until this one leads; the number of its term."""
        return self._thread.wait_for(self._election.win(timeout))

    def resign(self) -> None:
        """Lead no more."""
        self._thread.wait_for(self._election.resign())


class SynchronousJob(Generic[Value]):
    """An item that somebody works on."""

    def __init__(self, thread: NodeThread, asynchronous: Job[Value]) -> None:
        self.item = asynchronous.item
        self.number = asynchronous.number
        self.attempt = asynchronous.attempt
        self._thread = thread
        self._job = asynchronous

    def __repr__(self) -> str:
        return f"Synchronous{self._job!r}"

    def done(self) -> bool:
        """The work is done; False when the lease had ended and another one was given the item."""
        return self._thread.wait_for(self._job.done())

    def give_back(self) -> bool:
        """Somebody else shall do it."""
        return self._thread.wait_for(self._job.give_back())


class SynchronousQueue(Generic[Value]):
    """A queue of a group, as one worker sees it."""

    def __init__(self, thread: NodeThread, asynchronous: Queue[Value]) -> None:
        self.name = asynchronous.name
        self._thread = thread
        self._queue = asynchronous

    def put(self, item: Value) -> int:
        """Put an item at the end; its number. `TypeError` when it is not of the type."""
        return self._thread.wait_for(self._queue.put(item))

    def get(self, timeout: float | None = None) -> SynchronousJob[Value]:
        """Wait for an item that nobody else works on. `TimeoutError` after so many seconds."""
        return SynchronousJob(self._thread, self._thread.wait_for(self._queue.get(timeout)))

    def __len__(self) -> int:
        return len(self._queue)


class SynchronousCounter:
    """A counter of a group."""

    def __init__(self, thread: NodeThread, asynchronous: Counter) -> None:
        self.name = asynchronous.name
        self._thread = thread
        self._counter = asynchronous

    def add(self, amount: int = 1) -> int:
        """Add to it; its new value, which nobody else was given in the same way."""
        return self._thread.wait_for(self._counter.add(amount))

    def value(self, *, linearizable: bool = False) -> int:
        """Its value, as this process knows it."""
        return self._thread.wait_for(self._counter.value(linearizable=linearizable))


class SynchronousShared:
    """The building blocks of one group.

    shared = ordercast.SynchronousShared().join(node, "everyone")
    settings = shared.map("settings", str)
    """

    def __init__(self, *, timeout: float | None = None, quorum: int | None = None) -> None:
        """As those of `Shared`."""
        self._shared = Shared(timeout=timeout, quorum=quorum)
        self._node_thread: NodeThread | None = None

    @property
    def _thread(self) -> NodeThread:
        if self._node_thread is None:
            raise UsageError("these blocks are in no group: join one first")
        return self._node_thread

    def join(self, node: SynchronousNode, group: GroupId, timeout: float | None = None) -> SynchronousShared:
        """Hold the blocks of a group, of which all members do this. Done when they are here."""
        thread = node.internals
        thread.wait_for(self._shared.join(thread.node, group, timeout))
        self._node_thread = thread
        return self

    def leave(self, timeout: float | None = None) -> None:
        """Hold them no more."""
        self._thread.wait_for(self._shared.leave(timeout))

    def ask(self, question: bytes, *, wait: Wait = "majority", timeout: float = 5.0) -> dict[SiteId, bytes]:
        """Ask the members of the group, as `Group.ask` does; member -> its answer."""
        return self._thread.wait_for(self._shared.ask(question, wait=wait, timeout=timeout))

    def on_question(self, answer: Callable[[bytes], bytes]) -> None:
        """Answer questions to the group with a function, which is called in the node's thread."""
        self._thread.call(lambda: self._shared.on_question(answer))

    @overload
    def map(self, name: str) -> SynchronousMap[Any]: ...

    @overload
    def map(self, name: str, type: type[Value]) -> SynchronousMap[Value]: ...

    def map(self, name: str, type: Any = Any) -> SynchronousMap[Any]:  # noqa: A002
        """A map from texts to values of a type, with watches."""
        return SynchronousMap(self._thread, self._shared.map(name, type))

    def lock(self, name: str, *, lease: float = LEASE_SECONDS) -> SynchronousLock:
        """A lock that one thread of one process has at a time, and for `lease` seconds after it was heard of last."""
        return SynchronousLock(self._thread, self._shared.lock(name, lease=lease))

    def election(self, name: str, *, lease: float = LEASE_SECONDS) -> SynchronousElection:
        """An election that one process wins at a time."""
        return SynchronousElection(self._thread, self._shared.election(name, lease=lease))

    @overload
    def queue(self, name: str, *, lease: float = ...) -> SynchronousQueue[Any]: ...

    @overload
    def queue(self, name: str, type: type[Value], *, lease: float = ...) -> SynchronousQueue[Value]: ...

    def queue(self, name: str, type: Any = Any, *, lease: float = WORK_SECONDS) -> SynchronousQueue[Any]:  # noqa: A002
        """A queue of which each item goes to one member."""
        return SynchronousQueue(self._thread, self._shared.queue(name, type, lease=lease))

    def counter(self, name: str) -> SynchronousCounter:
        """A number to which everybody adds."""
        return SynchronousCounter(self._thread, self._shared.counter(name))
