"""A queue of which each item goes to one member, and a counter."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any, Generic, TypeVar

from ordercast.blocks.state import State
from ordercast.core import UsageError
from ordercast.node import Replicated
from ordercast.node.value_codec import ValueCodec
from ordercast.node.waiting import within

Value = TypeVar("Value")


class Job(Generic[Value]):
    """An item that somebody works on."""

    def __init__(self, queue: Queue[Value], number: int, item: Value, attempt: int) -> None:
        self.item = item
        self.number = number
        """Its place in the queue, counted from 1."""
        self.attempt = attempt
        """1 for the first who works on it. An item whose worker was not done in time is given to another one."""
        self._queue = queue

    def __repr__(self) -> str:
        return f"Job(number={self.number}, item={self.item!r}, attempt={self.attempt})"

    async def done(self) -> bool:
        """The work is done; False when the lease had ended and another one was given the item."""
        return await self._queue.finish(self, again=False)

    async def give_back(self) -> bool:
        """Somebody else shall do it."""
        return await self._queue.finish(self, again=True)


class Queue(Generic[Value]):
    """One queue of a group, as one worker sees it."""

    def __init__(self, replica: Replicated[State], name: str, wanted: Any, worker: str, lease: float) -> None:
        if not lease > 0:
            raise UsageError(f"lease={lease}: the work on an item needs some seconds")
        self.name = name
        self._replica = replica
        self._worker = worker
        self._lease = lease
        self._codec: ValueCodec[Value] = ValueCodec(wanted)

    async def put(self, item: Value) -> int:
        """Put an item at the end; its number. `TypeError` when it is not of the type."""
        return await self._replica.call(State.enqueue, self.name, self._codec.encode(item))

    async def get(self, timeout: float | None = None) -> Job[Value]:
        """Wait for an item that nobody else works on. `TimeoutError` after so many seconds."""
        async with within(timeout, lambda: f"queue {self.name} has nothing for this worker"):
            while True:
                taken = None
                if self._due() <= 0:
                    taken = await self._replica.call(State.dequeue, self.name, self._worker, self._lease)
                if taken is not None:
                    number, item, attempt = taken
                    return Job(self, number, self._decode(number, item), attempt)
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.01, self._due())):
                        await self._replica.changed()

    def _decode(self, number: int, item: bytes) -> Value:
        try:
            return self._codec.decode(item)
        except ValueError as error:
            raise ValueError(
                f"queue {self.name}, item {number}: not of type {self._codec.type_name}: {error}"
            ) from None

    def _due(self) -> float:
        """In how many seconds there may be an item."""
        state = self._replica.state
        line = None if state is None else state.queues.get(self.name)
        if line is None:
            return 3600.0
        if line.waiting:
            return 0.0
        return min((given.until for given in line.given.values()), default=float("inf")) - time.time()

    async def finish(self, job: Job[Value], again: bool) -> bool:
        """What has become of a job."""
        return await self._replica.call(State.finish, self.name, job.number, self._worker, job.attempt, again)

    def __len__(self) -> int:
        state = self._replica.state
        line = None if state is None else state.queues.get(self.name)
        return 0 if line is None else len(line.waiting)


class Counter:
    """One counter of a group."""

    def __init__(self, replica: Replicated[State], name: str) -> None:
        self.name = name
        self._replica = replica

    async def add(self, amount: int = 1) -> int:
        """Add to it; its new value, which nobody else was given in the same way."""
        return await self._replica.call(State.add, self.name, amount)

    async def value(self, *, linearizable: bool = False) -> int:
        """Its value, as this process knows it."""
        return await self._replica.read(lambda state: state.counters.get(self.name, 0), linearizable=linearizable)
