"""What a client has sent and has not heard of: it is sent again to the next member when one is lost.

Messages of a group are collected in runs, each with a number. The members of the group take each number once, so it
does not matter which of them gets it, nor how often.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from ordercast.core import GroupId, OrdercastError, UsageError
from ordercast.node.bundles import LIST_OVERHEAD, MESSAGE_OVERHEAD, as_bytes, check_size, encode_any, take_fitting
from ordercast.node.errors import GroupBlocked, WouldBlock
from ordercast.node.receipts import AGAIN, MAY_BE_ORDERED, Receipt
from ordercast.node.serving.packets import (
    ANSWERS_MAX,
    RUN_BYTES_MAX,
    UNDER_WAY_MAX,
    CallMethod,
    Ordered,
    Refused,
    Result,
    Send,
    SendKeyed,
)

logger = logging.getLogger("ordercast.client")

WAITING_BYTES_MAX = 4 * RUN_BYTES_MAX
"""Messages that have not left; with more, `multicast` waits."""

UNDER_WAY_FEW = 2
"""With fewer runs under way than this a run that is not full leaves, too (as in `ordercast.node.sender`)."""

UNDER_WAY_BYTES_MIN = 2 * ANSWERS_MAX * RUN_BYTES_MAX
"""That may be under way at any rate: while the answers to one half wait for each other, the other one is on its way."""

BYTES_A_SECOND = 50_000_000
"""At which a client may send: as much may be under way as goes in the time in which something was ordered at best.
(Else: 1. eight clients have 32 MB under way through one member. 2. The member has no room for them, and stops reading
and begins again with each run. 3. Nothing of it is in a processor's cache when its turn comes.)"""


class Parcel(msgspec.Struct, eq=False):
    """Something with a number, and who waits for it."""

    request: Send | SendKeyed | CallMethod
    size: int
    receipts: list[tuple[int, asyncio.Future[Receipt]]] = []
    """Which message of it -> who waits for its receipt."""
    result: asyncio.Future[Result] | None = None
    left_at: float = 0.0

    def fail(self, why: Exception) -> None:
        """Whoever waits, waits no more; it is sent all the same."""
        for _, receipt in self.receipts:
            if not receipt.done():
                receipt.set_exception(why)
        self.receipts = []
        if self.result is not None and not self.result.done():
            self.result.set_exception(why)


class Outgoing:
    """Everything that one client sends, in its order."""

    def __init__(self, say: Callable[[Send | SendKeyed | CallMethod], bool]) -> None:
        """`say` sends something if there is a member; whether there is."""
        self._loop = asyncio.get_running_loop()
        self._say = say
        self._numbers: dict[GroupId, int] = {}
        self._group: GroupId = ""
        self._open: list[bytes] = []
        """Messages to that group, not yet a run."""
        self._open_bytes = 0
        self._open_receipts: list[tuple[int, asyncio.Future[Receipt]]] = []
        self._closed: deque[Parcel] = deque()
        self._closed_bytes = 0
        self._under_way: dict[tuple[GroupId, int], Parcel] = {}
        self._under_way_bytes = 0
        self._shortest: float | None = None
        """Seconds in which something was ordered through this member, at best; None before the first answer."""
        self._flush_due = False
        self._room: list[asyncio.Future[None]] = []
        self._idle: list[asyncio.Future[None]] = []
        self._end: Exception | None = None
        self._payload_max = 0
        """Of the member. (Else: 1. a message is larger than what a member reads. 2. The member cuts the client. 3. The
        client sends it again, to every member in turn, and nothing that is behind it is ever ordered.)"""
        self._refusal: UsageError | None = None
        """Why a message was refused for which nobody waits: whoever waits for all of them next is told."""

    # ------------------------------------------------------------------ in
    @property
    def has_room(self) -> bool:
        """Whether a message can be taken without waiting."""
        return self._closed_bytes + self._open_bytes < WAITING_BYTES_MAX

    @property
    def is_idle(self) -> bool:
        """Whether everything is ordered."""
        return not (self._open or self._closed or self._under_way)

    async def wait_for_room(self) -> None:
        """Until a message can be taken; `GroupBlocked` or `NoMember` when that takes long."""
        while self._end is None and not self.has_room:
            await self._wait(self._room)
        if self._end is not None:
            raise self._end

    async def wait_idle(self) -> None:
        """Until everything is ordered; `UsageError` when some of it never will be, and nobody was told."""
        while self._end is None and not self.is_idle:
            await self._wait(self._idle)
        if self._end is not None:
            raise self._end
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    async def _wait(self, waiters: list[asyncio.Future[None]]) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in waiters:
                waiters.remove(waiter)

    def refuse(self) -> None:
        """A message was not taken: why."""
        raise self._end or WouldBlock("the window is full: wait, or use multicast, which does")

    def add(self, group: GroupId, payload: bytes, receipt: asyncio.Future[Receipt] | None = None) -> None:
        """Take a message."""
        self.check(len(payload))
        size = len(payload) + MESSAGE_OVERHEAD
        if group != self._group or self._open_bytes + size > RUN_BYTES_MAX - LIST_OVERHEAD:
            self._close()
            self._group = group
        if receipt is not None:
            self._open_receipts.append((len(self._open), receipt))
        self._open.append(payload)
        self._open_bytes += size
        self._flush_soon()

    def add_many(self, group: GroupId, payloads: Sequence[bytes], start: int) -> int:
        """Take messages from `start` on while there is room; the index of the first that was not taken."""
        self.check()
        count = len(payloads)
        while start < count and self.has_room:
            if group != self._group:
                self._close()
                self._group = group
            room = RUN_BYTES_MAX - LIST_OVERHEAD - self._open_bytes
            fitting, size = take_fitting(payloads, start, room)
            if size > room:
                self.add(group, as_bytes(payloads[start]))
                start += 1
                continue
            self._open.extend(fitting)
            self._open_bytes += size
            start += len(fitting)
            if start < count:
                self._close()
        self._flush_soon()
        return start

    def add_keyed(self, group: GroupId, key: str, payload: bytes, receipt: asyncio.Future[Receipt] | None) -> None:
        """Take a message with a key of the application's."""
        self.check(len(payload))
        self._close()
        request = SendKeyed(group, self._next(group), key, payload)
        self._add_parcel(Parcel(request, len(payload), [] if receipt is None else [(0, receipt)]))

    def add_call(
        self,
        group: GroupId,
        method: str,
        arguments: list[msgspec.Raw],
        named: dict[str, msgspec.Raw],
        schema: str,
    ) -> asyncio.Future[Result]:
        """Take a call; what is given back becomes what the member answers."""
        size = sum(len(bytes(value)) for value in (*arguments, *named.values()))
        self.check(size)
        self._close()
        future: asyncio.Future[Result] = self._loop.create_future()
        request = CallMethod(group, self._next(group), method, arguments, named, schema)
        self._add_parcel(Parcel(request, size, result=future))
        return future

    def check(self, size: int = 0) -> None:
        """Whether something of this size may be taken: the client is not closed, and its member allows it."""
        if self._end is not None:
            raise self._end
        if size > RUN_BYTES_MAX:
            check_size(size, self._payload_max)

    def _next(self, group: GroupId) -> int:
        number = self._numbers[group] = self._numbers.get(group, 0) + 1
        return number

    # ------------------------------------------------------------------ out
    def _close(self) -> None:
        if self._open:
            packed = memoryview(encode_any(self._open))
            request = Send(self._group, self._next(self._group), len(self._open), packed)
            self._add_parcel(Parcel(request, self._open_bytes, self._open_receipts))
            self._open, self._open_bytes, self._open_receipts = [], 0, []

    def _add_parcel(self, parcel: Parcel) -> None:
        self._closed.append(parcel)
        self._closed_bytes += parcel.size
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what may be sent."""
        self._flush_due = False
        if self._open and not self._closed and len(self._under_way) < UNDER_WAY_FEW:
            self._close()
            self._flush_due = False
        while self._closed and self._may_leave:
            parcel = self._closed[0]
            if not self._say(parcel.request):
                return
            self._closed.popleft()
            self._closed_bytes -= parcel.size
            parcel.left_at = self._loop.time()
            self._under_way[parcel.request.group, parcel.request.number] = parcel
            self._under_way_bytes += parcel.size
        self._wake()

    @property
    def _may_leave(self) -> bool:
        enough = max(UNDER_WAY_BYTES_MIN, BYTES_A_SECOND * (self._shortest or 0.0))
        return self._under_way_bytes < enough and len(self._under_way) < UNDER_WAY_MAX

    def _arrived(self, answer: Ordered | Refused | Result) -> Parcel | None:
        """What was under way until this answer came; None when nothing was."""
        parcel = self._under_way.pop((answer.group, answer.number), None)
        if parcel is not None:
            self._under_way_bytes -= parcel.size
            self._flush_soon()  # answers come several at a time
        return parcel

    def _wake(self) -> None:
        for waiters in (self._room if self.has_room else [], self._idle if self.is_idle else []):
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def send_again(self, payload_max: int) -> None:
        """There is another member: it gets everything that was not heard of, in its order, but for what is larger than
        it allows."""
        self._payload_max = payload_max
        self._shortest = None
        self._close()
        for parcel in (*self._under_way.values(), *self._closed):
            if parcel.size - MESSAGE_OVERHEAD > max(payload_max, RUN_BYTES_MAX):
                self._drop(parcel)
        for parcel in self._under_way.values():
            parcel.left_at = self._loop.time()
            self._say(parcel.request)
        self._flush_soon()

    def _drop(self, parcel: Parcel) -> None:
        """The last member allowed it."""
        if self._under_way.pop((parcel.request.group, parcel.request.number), None) is None:
            self._closed.remove(parcel)
            self._closed_bytes -= parcel.size
        else:
            self._under_way_bytes -= parcel.size
        why = f"a message of {parcel.size} bytes is larger than payload_max ({self._payload_max}) of this member"
        self._refuse(parcel, UsageError(f"{why}: let it be the same at every process; {MAY_BE_ORDERED}"))

    # ------------------------------------------------------------------ answers
    def on_ordered(self, answer: Ordered) -> None:
        """A run or a keyed message has its place."""
        parcel = self._arrived(answer)
        if parcel is None:
            return
        took = self._loop.time() - parcel.left_at
        self._shortest = took if self._shortest is None else min(took, self._shortest)
        bundle, _, first = answer.message.rpartition("/")
        for index, future in parcel.receipts:
            if not future.done():
                offset = -1 if answer.offset < 0 else answer.offset + index
                message = f"{bundle}/{int(first) + index}" if bundle else ""
                future.set_result(Receipt(message, {answer.group: offset}, answer.repeated))

    def on_refused(self, answer: Refused) -> None:
        """It never will have."""
        parcel = self._arrived(answer)
        if parcel is not None:
            self._refuse(parcel, UsageError(answer.why))

    def _refuse(self, parcel: Parcel, why: UsageError) -> None:
        if not parcel.receipts and parcel.result is None:
            logger.warning("what was sent to group %r is refused: %s", parcel.request.group, why)
            self._refusal = why
        parcel.fail(why)

    def on_result(self, answer: Result) -> None:
        """What has come of a call."""
        parcel = self._arrived(answer)
        if parcel is not None and parcel.result is not None and not parcel.result.done():
            parcel.result.set_result(answer)

    # ------------------------------------------------------------------ when nothing goes on
    def fail_waiting(self, why: OrdercastError, group: GroupId | None = None) -> None:
        """Whoever waits hears why; what they have sent is sent on as soon as that is possible."""
        kind = type(why)
        for parcel in (*self._under_way.values(), *self._closed):
            if group is None or parcel.request.group == group:
                hint = AGAIN if isinstance(parcel.request, SendKeyed) else MAY_BE_ORDERED
                parcel.fail(kind(f"{why}; {hint}"))
        if group is None or group == self._group:
            for _, receipt in self._open_receipts:
                if not receipt.done():
                    receipt.set_exception(kind(f"{why}; {MAY_BE_ORDERED}"))
            self._open_receipts = []
        for waiter in (*self._room, *self._idle):
            if not waiter.done():
                waiter.set_exception(kind(str(why)))

    def end(self, why: Exception) -> None:
        """Nothing will leave any more."""
        self._end = why
        self.fail_waiting(GroupBlocked(str(why)))
