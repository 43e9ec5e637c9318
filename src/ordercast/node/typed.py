"""A group whose messages have a type: values go in and come out, and processes that disagree about the type are told.

Every message carries a digest of the type, so none is read as what it is not. Whoever joins says which type it has;
those who have said so before, and have another one, refuse it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic, Literal, TypeVar, overload

import msgspec

from ordercast.core import OrdercastError, SiteId, UsageError
from ordercast.node.consumer import Consumer
from ordercast.node.deliveries import Delivery, TypedDelivery, View
from ordercast.node.errors import TypeRefused
from ordercast.node.group import Group
from ordercast.node.inbox import Inbox
from ordercast.node.internals import Internals
from ordercast.node.receipts import Confirm, Receipt
from ordercast.node.typed_schema import HEADER_BYTES, HELLO, MARK, REFUSAL, VALUE, TypeSchema

logger = logging.getLogger("ordercast.node")

Value = TypeVar("Value")

TOLD_MAX = 1_000
"""Sources of other messages that the log names."""


class _Notice(msgspec.Struct, frozen=True, array_like=True):
    """What a process says of its type: to everybody when it joins, or to one that is refused."""

    process: SiteId
    incarnation: int
    type_name: str
    to: SiteId = ""
    to_incarnation: int = 0


class TypedGroup(Generic[Value]):
    """A group, as an application sees it that joined it with a type."""

    def __init__(self, internals: Internals, group: Group, inbox: Inbox, schema: TypeSchema[Value]) -> None:
        self.group = group
        """The same group without a type: its messages are bytes with a header."""
        self._internals = internals
        self._inbox = inbox
        self._schema = schema
        self._is_heard = False
        """Whether what this start has said of its type has its place: whoever comes later is refused by it."""
        self._end: TypeRefused | None = None
        self._told: set[SiteId] = set()
        self._sending: set[asyncio.Task[None]] = set()
        """(A task that nobody holds may vanish before it has run.)"""
        self._say(HELLO)

    @property
    def name(self) -> str:
        """The group's name."""
        return self.group.name

    @property
    def members(self) -> tuple[SiteId, ...]:
        """Who is in it now, as far as this process knows."""
        return self.group.members

    @property
    def offset(self) -> int:
        """The offset that the next message gets that is delivered here."""
        return self.group.offset

    # ------------------------------------------------------------------ out
    @overload
    async def multicast(self, value: Value, *, key: str | None = None) -> None: ...

    @overload
    async def multicast(
        self, value: Value, *, confirm: Literal[True, "majority"], key: str | None = None
    ) -> Receipt: ...

    @overload
    async def multicast(self, value: Value, *, confirm: Confirm, key: str | None = None) -> Receipt | None: ...

    async def multicast(self, value: Value, *, confirm: Confirm = False, key: str | None = None) -> Receipt | None:
        """Send a value to the group, as `Group.multicast` does; `TypeError` when it is not of the type."""
        return await self.group.multicast(self._pack(value), confirm=confirm, key=key)

    def try_multicast(self, value: Value) -> None:
        """The same, but `WouldBlock` instead of waiting."""
        self.group.try_multicast(self._pack(value))

    async def multicast_many(self, values: Sequence[Value]) -> None:
        """Send values, in this order."""
        await self.group.multicast_many([self._pack(value) for value in values])

    async def flush(self) -> None:
        """Wait until everything that this process has sent is accepted."""
        await self.group.flush()

    def _pack(self, value: Value) -> bytes:
        if self._end is not None:
            raise self._end
        return self._schema.encode(value)

    # ------------------------------------------------------------------ in
    async def __aiter__(self) -> AsyncIterator[TypedDelivery[Value]]:
        async for delivery in self.group:
            read = self._read(delivery)
            if read is not None:
                yield TypedDelivery(delivery, read[0])

    def consume(self, name: str) -> Consumer[Value]:
        """Deliveries from a named position on, as `Group.consume` gives them."""
        return Consumer(self._internals, self._inbox, self.group.names, name, self._read)

    def on_delivery(self, callback: Callable[[TypedDelivery[Value]], None]) -> None:
        """Call a function for every message instead, at once and in order."""

        def each(delivery: Delivery) -> None:
            read = self._read(delivery)
            if read is not None:
                callback(TypedDelivery(delivery, read[0]))

        self.group.on_delivery(each)

    def views(self) -> AsyncIterator[View]:
        """Who is in the group: now, and whenever that changes."""
        return self.group.views()

    async def leave(self, timeout: float | None = None) -> None:
        """Take no more deliveries, as `Group.leave` says."""
        await self.group.leave(timeout)

    # ------------------------------------------------------------------ what is in a message
    def _read(self, delivery: Delivery) -> tuple[Value] | None:
        """What a message says; None for one that no application is to see. `TypeRefused` when this process is to read
        no more."""
        payload = delivery.payload
        if self._schema.fits(payload):
            try:
                return (self._schema.decode(payload),)
            except ValueError as error:
                self._pass_over(delivery, f"it is no {self._schema.type_name} ({error})")
                return None
        kind = payload[len(MARK) : len(MARK) + 1] if payload.startswith(MARK) else b""
        if kind in (HELLO, REFUSAL):
            self._on_notice(kind, delivery)
        elif kind == VALUE:
            self._pass_over(delivery, f"its type is another one than {self._schema.name}")
        else:
            self._pass_over(delivery, "it was sent to the group without a type")
        if self._end is not None:
            raise self._end
        return None

    def _pass_over(self, delivery: Delivery, why: str) -> None:
        self._internals.receiver.counters["other-types"] += 1
        if delivery.source not in self._told and len(self._told) < TOLD_MAX:
            self._told.add(delivery.source)
            logger.warning(
                "message %s of process %s to group %s is passed over: %s (more of %s is counted, and not logged)",
                delivery.message,
                delivery.source,
                self.name,
                why,
                delivery.source,
            )

    # ------------------------------------------------------------------ who has which type
    def _on_notice(self, kind: bytes, delivery: Delivery) -> None:
        payload = delivery.payload
        try:
            notice = msgspec.msgpack.decode(memoryview(payload)[HEADER_BYTES:], type=_Notice)
        except msgspec.DecodeError as error:
            self._pass_over(delivery, str(error))
            return
        own = (self._internals.process, self._internals.engine.journal.incarnation)
        if notice.process != delivery.source:
            self._pass_over(delivery, f"it speaks for {notice.process}")
        elif kind == REFUSAL:
            if (notice.to, notice.to_incarnation) == own:
                self._end = TypeRefused(
                    f"group {self.name} has messages of type {notice.type_name} at process {notice.process}, which was "
                    f"there before, and process {own[0]} has {self._schema.name}: install the same version at both"
                )
        elif (notice.process, notice.incarnation) == own:
            self._is_heard = True
        elif self._is_heard and payload[len(MARK) + 1 : HEADER_BYTES] != self._schema.digest:
            logger.warning(
                "process %s comes to group %s with messages of type %s, and is refused: those here are %s",
                notice.process,
                self.name,
                notice.type_name,
                self._schema.name,
            )
            self._say(REFUSAL, notice.process, notice.incarnation)

    def _say(self, kind: bytes, to: SiteId = "", to_incarnation: int = 0) -> None:
        engine = self._internals.engine
        notice = _Notice(engine.process, engine.journal.incarnation, self._schema.name, to, to_incarnation)
        payload = MARK + kind + self._schema.digest + msgspec.msgpack.encode(notice)
        task = asyncio.get_running_loop().create_task(self._send(payload))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, payload: bytes) -> None:
        try:
            await self.group.multicast(payload)
        except UsageError:
            pass  # only others may send to this group, and say which type they have
        except OrdercastError as error:
            logger.info("process %s has not told its type: %s", self._internals.process, error)
