"""Deliveries that wait for the application."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from threading import get_ident

import msgspec

from ordercast.core import GroupId, Multicast, Payload, UsageError
from ordercast.node.bundles import encode_bundle
from ordercast.node.deliveries import Batch, Delivery
from ordercast.node.errors import check_thread
from ordercast.node.history import History


class Inbox:
    """What was delivered to some groups and not taken yet, in order.

    How much that can become the protocol decides: it hears what was taken, and lets nobody send when too much waits.
    """

    def __init__(self, groups: tuple[GroupId, ...], offset: int = 0, counters: Counter[str] | None = None) -> None:
        self.groups = groups
        self._counters = counters
        self.offset = offset
        """The offset of the next delivery."""
        self.bytes = 0
        self._waiting: deque[Batch] = deque()
        self._current: Batch | None = None
        self._rest: Iterator[Delivery] = iter(())
        self._callback: Callable[[Batch], object] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._end: BaseException | None = None
        self._thread = get_ident()
        self.closed = False
        self.history: History | None = None
        self.on_end: Callable[[BaseException | None], None] | None = None
        self.on_gap: Callable[[int], None] | None = None

    # ------------------------------------------------------------------ in
    def deliver(
        self,
        multicast: Multicast,
        packed: Payload,
        unpacked: list[bytes] | None,
        ordinal: int,
        taken: Callable[[], None],
    ) -> None:
        """A bundle for the application, at the next place."""
        offset, count = self.offset, multicast.count
        batch = Batch(multicast.id, multicast.groups, count, offset, packed, unpacked, ordinal, taken, self._counters)
        self.offset = offset + count
        if self.history is not None:
            # A copy of its own: the application's is unpacked when it looks.
            self.history.add(msgspec.structs.replace(batch, counters=None))
        callback = self._callback
        if callback is None:
            self.put(batch)
        else:
            # What is delivered while it runs, because it multicasts, waits until it is done. (Called at once, it would
            # see the next batch before the rest of this one.)
            self._callback = None
            callback(batch)
            taken()
            self._callback = callback
            if self._waiting:
                self.call(callback)

    def skip(self, offset: int) -> None:
        """The next delivery has this offset; what lies between was lost to this process."""
        self.offset = offset
        if self.history is not None:
            self.history.skip(offset)
        if self.on_gap is not None:
            self.on_gap(offset)

    def put(self, batch: Batch) -> None:
        """A batch waits for the application."""
        self._waiting.append(batch)
        self.bytes += len(batch.packed)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def close(self, error: BaseException | None = None) -> None:
        """Nothing more will come; without an error whoever iterates simply comes to the end."""
        self.closed = True
        self._end = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if self.on_end is not None:
            self.on_end(error)

    # ------------------------------------------------------------------ out
    def call(self, callback: Callable[[Batch], object]) -> None:
        """From now on every batch goes to a function at once, what waits first."""
        self._finish()
        self._callback = None
        while self._waiting:
            batch = self._waiting.popleft()
            self.bytes -= len(batch.packed)
            callback(batch)
            batch.taken()
        self._callback = callback

    def _finish(self) -> None:
        """The application has asked for more, so it is done with what it had."""
        if self._current is not None:
            self._current.taken()
            self._current = None

    def __aiter__(self) -> Inbox:
        return self

    async def __anext__(self) -> Batch:
        """The next batch. What was returned before counts as taken."""
        self._finish()
        while not self._waiting:
            if self.closed:
                raise StopAsyncIteration if self._end is None else self._end
            check_thread(self._thread)
            if self._callback is not None:
                raise UsageError(
                    f"a callback takes the deliveries of {', '.join(self.groups)}: iterate, or give one, not both"
                )
            if self._waiter is not None and not self._waiter.done():
                raise RuntimeError("two tasks take deliveries of one group: let one of them do it")
            self._waiter = asyncio.get_running_loop().create_future()
            # A task that is cancelled here has taken nothing, and nothing is lost.
            await self._waiter
        batch = self._current = self._waiting.popleft()
        self.bytes -= len(batch.packed)
        return batch

    def put_back(self) -> None:
        """What is left of a batch that somebody began to iterate over is the next batch."""
        left, batch = list(self._rest), self._current
        if batch is not None and left:
            packed = encode_bundle([delivery.payload for delivery in left])
            self._current = None
            self._waiting.appendleft(
                Batch(batch.bundle, batch.groups, len(left), left[0].offset, packed, None, batch.ordinal, batch.taken)
            )
            self.bytes += len(packed)

    @property
    def rest(self) -> Iterator[Delivery]:
        """What is left of the batch that was begun; kept here so that who stops in the middle can go on there."""
        return self._rest

    async def begin_next(self) -> bool:
        """Unpack the next batch; False at the end."""
        try:
            batch = await anext(self)
        except StopAsyncIteration:
            return False
        self._rest = batch.deliveries()
        return True

    def untaken(self) -> list[Batch]:
        """What the application has not finished with, the batch in its hands included."""
        return [*([] if self._current is None else [self._current]), *self._waiting]

    def take_over(self, others: list[Inbox]) -> None:
        """Everything that waits in other inboxes comes here, in the order in which it was delivered."""
        batches = [batch for inbox in others for batch in inbox.untaken()]
        seen: set[int] = set()
        for batch in sorted(batches, key=lambda each: each.ordinal):
            if batch.ordinal in seen:
                # It was addressed to two of the groups: here it is one delivery.
                batch.taken()
                continue
            seen.add(batch.ordinal)
            batch.offset = self.offset
            self.offset += batch.count
            self.put(batch)

    def discard(self) -> None:
        """The application will not take it."""
        self._finish()
        while self._waiting:
            self._waiting.popleft().taken()
        self.bytes = 0
        self._rest = iter(())
