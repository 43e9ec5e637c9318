"""The last deliveries of each group, for whoever wants to look at a running node."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from itertools import islice, takewhile
from time import time

from ordercast.core import GroupId, UsageError
from ordercast.node.deliveries import Batch, Delivery


class NotHeld(UsageError):
    """This process does not have deliveries that others may have."""


class History:
    """One group's last batches."""

    def __init__(self, group: GroupId, offset: int, kept_bytes_max: int) -> None:
        self.group = group
        self.next_offset = offset
        self._kept_bytes_max = kept_bytes_max
        self._kept: deque[Batch] = deque()
        self._times: deque[float] = deque()
        """Of each of them, when it was delivered."""
        self._bytes = 0
        self._grown = asyncio.Event()
        self._ended = False

    def add(self, batch: Batch) -> None:
        """A delivery. Kept packed: a copy that nobody has looked into yet."""
        self._kept.append(batch)
        self._times.append(time())
        self.next_offset = batch.offset + batch.count
        self._bytes += len(batch.packed)
        while self._bytes > self._kept_bytes_max and len(self._kept) > 1:
            self._bytes -= len(self._kept.popleft().packed)
            self._times.popleft()
        self._grown.set()

    def skip(self, offset: int) -> None:
        """What lies before this offset and did not come is missing for good."""
        self.next_offset = offset
        self._grown.set()

    def take_back(self, offset: int) -> None:
        """What was delivered from this offset on is taken back. Whoever looks on and was shown it is not shown what
        comes in its place."""
        while self._kept and self._kept[-1].offset >= offset:
            self._bytes -= len(self._kept.pop().packed)
            self._times.pop()
        self.next_offset = offset

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._grown.set()

    @property
    def first_offset(self) -> int:
        """The oldest delivery that is still here."""
        return self._kept[0].offset if self._kept else self.next_offset

    def since(self, offset: int) -> Iterator[tuple[Batch, float]]:
        """The batches that are here with anything from an offset on, each with the time at which it was delivered."""
        wanted = sum(1 for _ in takewhile(lambda batch: batch.offset + batch.count > offset, reversed(self._kept)))
        before = len(self._kept) - wanted
        return zip(islice(self._kept, before, None), islice(self._times, before, None), strict=True)

    async def follow(self, offset: int | None) -> AsyncIterator[Delivery]:
        """Deliveries from an offset on (None: from now on), and those that come; `UsageError` when it is too old. What
        is missing here is left out."""
        at = self.next_offset if offset is None else offset
        async for batch in self.follow_batches(at, with_gaps=True):
            for delivery in batch.deliveries():
                if delivery.offset >= at:
                    yield delivery

    async def follow_batches(self, at: int, with_gaps: bool = False) -> AsyncIterator[Batch]:
        """The same, a bundle at a time: the first one may begin before the offset. `NotHeld` at a gap, unless it may be
        left out."""
        if at < self.first_offset:
            raise NotHeld(
                f"offset {at} of group {self.group!r} is no longer held; the oldest that is: {self.first_offset}"
            )
        while True:
            if at < self.first_offset and self._kept:
                raise UsageError(f"group {self.group!r} delivers faster than this reads: offset {at} is gone")
            # From the end back to the place: what comes next is at the end as a rule, however much is held.
            for batch, _ in tuple(self.since(at)):
                if batch.offset > at and not with_gaps:
                    raise self._missing(at, batch.offset)
                yield batch
                at = batch.offset + batch.count
            if self._ended:
                return
            if self._kept and self._kept[-1].offset + self._kept[-1].count > at:
                continue  # it has grown while somebody looked at a batch
            if at < self.next_offset:
                if not with_gaps:
                    raise self._missing(at, self.next_offset)
                at = self.next_offset
            self._grown.clear()
            await self._grown.wait()

    def _missing(self, start: int, end: int) -> NotHeld:
        return NotHeld(f"offsets {start} to {end - 1} of group {self.group!r} are missing here")
