"""A consumer: it says when it is done with a delivery, and a restart goes on where it was.

How far it has come is a named position, kept beside the log of the process. What it was given and is not done with
counts as not taken, so the log keeps that, too, and it comes again after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from ordercast.core import GroupId, UsageError
from ordercast.node.deliveries import Delivery, TypedDelivery
from ordercast.node.inbox import Inbox
from ordercast.node.internals import Internals

logger = logging.getLogger("ordercast.node")

Value = TypeVar("Value")

NAME_CHARACTERS_MAX = 200


class Position:
    """How far a consumer has come. What is committed while it is being written waits for the next time, so that any
    number of commits costs two syncs."""

    def __init__(self, internals: Internals, group: GroupId, name: str) -> None:
        self._journal = internals.engine.journal
        self._name = f"consumer {len(group)} {group} {name}"
        kept = self._journal.kept_state(self._name)
        self.kept = 0 if kept is None else msgspec.msgpack.decode(kept, type=int)
        """The offset of the next delivery that the consumer wants, as it is on the disk."""
        self._wanted = self.kept
        self._writing: asyncio.Task[None] | None = None

    async def commit(self, offset: int) -> None:
        """Done when the disk has it. `OSError` when it does not take it."""
        self._wanted = max(self._wanted, offset)
        while self.kept < offset:
            if self._writing is None:
                self._writing = asyncio.create_task(self._write(self._wanted))
            # One who gives up does not take the others along.
            await asyncio.shield(self._writing)

    async def _write(self, offset: int) -> None:
        try:
            content = msgspec.msgpack.encode(offset)
            await asyncio.get_running_loop().run_in_executor(None, self._journal.write_state, self._name, content)
            self.kept = offset
        finally:
            self._writing = None


class Pending(TypedDelivery[Value]):
    """A delivery that somebody works on, until it says that it is done. In a group without a type, `value` is the
    payload."""

    __slots__ = ("_consumer",)

    def __init__(self, consumer: Consumer[Value], delivery: Delivery, value: Value) -> None:
        super().__init__(delivery, value)
        self._consumer = consumer

    async def done(self) -> None:
        """The work on this delivery, and on all before it, is done. When this returns, a restart begins behind it."""
        await self._consumer.commit(self.delivery.offset + 1)


class Consumer(Generic[Value]):
    """Iterates over the deliveries of a group from a named position on."""

    def __init__(
        self,
        internals: Internals,
        inbox: Inbox,
        names: tuple[GroupId, ...],
        name: str,
        read: Callable[[Delivery], tuple[Value] | None],
    ) -> None:
        """`read` gives what a delivery means, in brackets; None for one that is passed over."""
        if len(names) != 1:
            raise UsageError("a consumer reads one group: join each group on its own")
        if not 0 < len(name) <= NAME_CHARACTERS_MAX:
            raise UsageError(f"a consumer's name has 1 to {NAME_CHARACTERS_MAX} characters, not {len(name)}")
        guarantees = internals.engine.contract.guarantees
        if any(guarantee.startswith("R3") for guarantee in guarantees):
            raise UsageError(
                f"{internals.engine.contract.name} takes deliveries back, and a consumer is done with them for good: "
                f"read events() instead"
            )
        self.name = name
        self._inbox = inbox
        self._read = read
        self._position = Position(internals, names[0], name)
        self._begun = self._position.kept
        self._given = 0
        self._is_checked = False
        self._retained = inbox.retain()
        if not internals.engine.journal.stable:
            logger.warning("consumer %s: without a log_directory its position is gone with the process", name)

    @property
    def position(self) -> int:
        """The offset at which a restart would begin."""
        return self._position.kept

    def __aiter__(self) -> Consumer[Value]:
        return self

    async def __anext__(self) -> Pending[Value]:
        inbox = self._inbox
        while True:
            if not inbox.is_retained_by(self._retained):
                raise UsageError(
                    f"something else takes the deliveries of group {inbox.groups[0]} since, instead of consumer "
                    f"{self.name}: one way at a time"
                )
            for delivery in inbox.rest:
                self._check_gap(delivery.offset)
                if delivery.offset < self._begun:
                    continue  # done before a restart
                read = self._read(delivery)
                if read is not None:
                    self._given = delivery.offset + 1
                    return Pending(self, delivery, read[0])
            if not await inbox.begin_next():
                raise StopAsyncIteration
            inbox.take_until(self._position.kept)

    def _check_gap(self, offset: int) -> None:
        if not self._is_checked and offset > self._begun > 0:
            logger.warning(
                "consumer %s was done up to offset %d, and the deliveries here begin at %d: what lies between is lost "
                "to it",
                self.name,
                self._begun,
                offset,
            )
        self._is_checked = True

    async def commit(self, offset: int) -> None:
        """The work on everything before this offset is done."""
        if offset > self._given:
            raise UsageError(f"consumer {self.name} was given nothing at offset {offset - 1} yet")
        await self._position.commit(offset)
        if self._inbox.is_retained_by(self._retained):
            self._inbox.take_until(self._position.kept)
