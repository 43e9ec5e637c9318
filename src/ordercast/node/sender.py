"""The way out: messages become bundles, and bundles leave as fast as the protocol takes them.

Adaptive like Nagle's algorithm: when nothing is under way a message leaves at once; while bundles are under way,
messages collect, and a full bundle leaves as soon as there is credit for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import get_ident
from time import monotonic

from ordercast.core import Address, GroupId, OrdercastError, SiteId, UsageError
from ordercast.node.bundles import (
    BUNDLE_BYTES_MAX,
    LETTER_PIECE_MARK,
    MESSAGE_OVERHEAD,
    MESSAGE_ROOM_MIN,
    PIECE_MARK,
    as_bytes,
    check_size,
    encode_any,
    encode_bundle,
    encode_pieces,
    room_for,
    take_fitting,
)
from ordercast.node.callbacks import Callbacks
from ordercast.node.errors import GroupBlocked, WouldBlock, check_thread
from ordercast.node.letters import Letter
from ordercast.node.runs import Run, encode_marked

logger = logging.getLogger("ordercast.node")

WAITING_BYTES_MAX = 4 * BUNDLE_BYTES_MAX
"""Messages that wait for credit; with more, `multicast` waits. Enough to have a bundle ready when credit comes."""

UNDER_WAY_FEW = 2
"""With fewer bundles under way than this a bundle that is not full leaves too. Two: while one is on its way the next
can follow, and a third waits and grows."""

_LETTERS: Address = (("",), None)
"""No message has this address: whatever is added behind letters ends their bundle, as another address would."""
_RUNS: Address = (("", ""), None)
"""Nor this one, which stands for runs."""


class Sender:
    """Bundles of one instance."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        request: Callable[[bytes, tuple[GroupId, ...], tuple[SiteId, ...] | None, int], object],
        payload_max: int,
        callbacks: Callbacks | None = None,
        refusals_are_final: bool = True,
        on_dropped: Callable[[tuple[GroupId, ...], UsageError], None] = lambda *_: None,
    ) -> None:
        """Where groups do not come and go, what the protocol refuses once it always refuses. Elsewhere `on_dropped`
        hears of messages to some groups that go nowhere."""
        self._loop = loop
        self._refusals_are_final = refusals_are_final
        self._on_dropped = on_dropped
        self._request = request
        self._payload_max = payload_max
        self._callbacks = callbacks or Callbacks()
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._open_to: Address = ((), None)
        self._letters: list[Letter | Run] = []
        """Like `_open`; one of them is empty, and in this one all are letters, or all are runs."""
        self._letters_to: Address = ((), None)
        self._closed: deque[tuple[bytes, Address, int]] = deque()
        self._closed_bytes = 0
        self._large = 0
        self._credit: int | None = 0
        """None: the protocol sets no limit. It takes nothing before it has started."""
        self._is_limited = False
        self._window = 0
        """The most credit there ever was: so much less one is not accepted."""
        self._told_under_way: int | None = None
        """Bundles that have not had their turn; None where the protocol does not tell: those that are not accepted."""
        self._flush_due = False
        self._flushing = False
        self._left_at: deque[float] = deque()
        """When the bundles left that are under way, the first one first."""
        self.round_trip_seconds: float | None = None
        """Until a bundle is accepted, on average of the last ones; None before the first, and where the protocol sets
        no limit."""
        self._waiters: list[asyncio.Future[None]] = []
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._blocked = ""
        self._failure: BaseException | None = None
        self._thread = get_ident()

    def start(self) -> None:
        """The protocol takes bundles from now on: as many as there are, unless it has set a limit."""
        if not self._is_limited:
            self._credit = None
        if (self._closed or self._open_bytes) and not self._flush_due:
            self._flush_soon()

    # ------------------------------------------------------------------ messages in
    @property
    def has_room(self) -> bool:
        """Whether a message can be taken now."""
        return self._closed_bytes + self._open_bytes < WAITING_BYTES_MAX and self._failure is None

    async def wait_for_room(self) -> None:
        """Wait until a message can be taken; `GroupBlocked` when that will not be."""
        check_thread(self._thread)
        while not self.has_room:
            self._refuse()
            await self._wait(self._waiters)
        self._refuse_failed()

    def refuse(self) -> None:
        """A message was not taken: why."""
        self._refuse()
        raise WouldBlock("the window is full: wait, or use multicast, which does")

    def _refuse(self) -> None:
        self._refuse_failed()
        if self._blocked:
            raise GroupBlocked(self._blocked)

    def _refuse_failed(self) -> None:
        if self._failure is not None:
            raise self._failure

    def add(self, to: Address, payload: bytes) -> bool:
        """Take a message if there is room; whether there was."""
        if type(payload) is not bytes:
            payload = as_bytes(payload)
        size = len(payload) + MESSAGE_OVERHEAD
        if size < MESSAGE_ROOM_MIN:
            size = MESSAGE_ROOM_MIN
        credit = self._credit
        if (
            credit
            and (credit == self._window or self._told_under_way == 0)
            and size <= BUNDLE_BYTES_MAX
            and not (self._flush_due or self._open_bytes or self._closed or self._failure or self._callbacks.running)
        ):
            # Nothing is under way: not even a turn of the event loop is lost, and no queue is needed.
            if get_ident() != self._thread:
                check_thread(self._thread)
            self._credit = credit - 1
            self._count_under_way(1)
            self._left_at.append(monotonic())
            try:
                self._request(encode_bundle((payload,)), to[0], to[1], 1)
            except UsageError:
                # The protocol has not taken it.
                self._credit = credit
                self._count_under_way(-1)
                self._left_at.pop()
                raise
            if self._failure is not None:
                raise self._failure
            return True
        if not self.has_room:
            return False
        self._add(to, payload, size)
        return True

    def _add(self, to: Address, payload: bytes, size: int) -> None:
        if size + self._open_bytes > BUNDLE_BYTES_MAX or to != self._open_to:
            # One address to a bundle, and a change of address ends it. (Else: m1 to g, m2 to h, m3 to g: m3 would be
            # delivered with m1, before m2.)
            self._close()
            self._open_to = to
            if size > BUNDLE_BYTES_MAX:
                self._add_large(to, payload)
                return
        if not self._flush_due:
            self._flush_soon()
        self._open.append(payload)
        self._open_bytes += size

    def add_letter(self, to: Address, letter: Letter | Run) -> bool:
        """Take a letter or a run if there is room; whether there was. It keeps its place among the messages."""
        check_thread(self._thread)
        if self._closed and not self.has_room and not self._callbacks.running:
            # Runs of clients come many at a time: what there is credit for leaves now, and nobody has to wait.
            self._flush()
        if not self.has_room:
            return False
        size = letter.size
        kind = _RUNS if isinstance(letter, Run) else _LETTERS
        if self._open_to is not kind or to != self._letters_to or size + self._open_bytes > BUNDLE_BYTES_MAX:
            self._close()
            self._open_to, self._letters_to = kind, to
            if size > BUNDLE_BYTES_MAX:
                check_size(letter.largest, self._payload_max)
                self._add_pieces(to, encode_marked((letter,)), LETTER_PIECE_MARK)
                return True
        if not self._flush_due:
            self._flush_soon()
        self._letters.append(letter)
        self._open_bytes += size
        return True

    def add_uncounted(self, to: Address, bundle: bytes) -> bool:
        """Take a bundle that holds no messages if there is room; whether there was. It keeps its place among them."""
        check_thread(self._thread)
        if not self.has_room:
            return False
        self._close()
        self._open_to = to
        self._closed.append((bundle, to, 0))
        self._closed_bytes += len(bundle)
        if not self._flush_due:
            self._flush_soon()
        return True

    def add_many(self, to: Address, payloads: Sequence[bytes], start: int) -> int:
        """Take messages from `start` on while there is room; the index of the first that was not taken."""
        count = len(payloads)
        try:
            while start < count and self.has_room:
                if to != self._open_to:
                    self._close()
                    self._open_to = to
                room = BUNDLE_BYTES_MAX - self._open_bytes
                fitting, size = take_fitting(payloads, start, room)
                if size <= room:
                    self._open.extend(fitting)
                    self._open_bytes += size
                    start += len(fitting)
                    if start < count:
                        self._close()
                else:
                    payload = as_bytes(payloads[start])
                    self._add(to, payload, room_for(payload))
                    start += 1
        finally:
            # What was taken before a message that is none leaves too.
            if not self._flush_due:
                self._flush_soon()
        return start

    async def add_all(self, to: Address, payloads: Sequence[bytes]) -> None:
        """Take all of them, in this order; wait where there is no room."""
        check_thread(self._thread)
        taken = 0
        while taken < len(payloads):
            if not self.has_room:
                await self.wait_for_room()
            taken = self.add_many(to, payloads, taken)

    def _add_large(self, to: Address, payload: bytes) -> None:
        check_thread(self._thread)
        check_size(len(payload), self._payload_max)
        self._add_pieces(to, payload, PIECE_MARK)

    def _add_pieces(self, to: Address, payload: bytes, mark: bytes) -> None:
        self._large = (self._large + 1) % (1 << 32)
        pieces = encode_pieces(self._large, payload, mark)
        for index, piece in enumerate(pieces):
            # Only the last counts as a message: that is where it is delivered.
            self._closed.append((piece, to, int(index == len(pieces) - 1)))
            self._closed_bytes += len(piece)
        self._flush_soon()

    # ------------------------------------------------------------------ bundles out
    def _close(self) -> None:
        if self._open:
            bundle = encode_any(self._open)
            self._closed.append((bundle, self._open_to, len(self._open)))
            self._closed_bytes += len(bundle)
            self._open.clear()
            self._open_bytes = 0
        elif self._letters:
            bundle = encode_marked(self._letters)
            self._closed.append((bundle, self._letters_to, sum(letter.count for letter in self._letters)))
            self._closed_bytes += len(bundle)
            self._letters.clear()
            self._open_bytes = 0

    def _flush_soon(self) -> None:
        check_thread(self._thread)
        self._flush_due = True
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self._failure is not None:
            return
        self._flushing = True
        while self._closed and self._credit != 0 and self._failure is None:
            self._send(*self._closed.popleft())
        self._flushing = False
        if self._open_bytes and not self._closed and self._credit != 0 and self._under_way() < UNDER_WAY_FEW:
            if self._waiters:
                # Whoever waits for room has more, and fills this one first. (Where each message has its turn at once,
                # few are always under way: behind every four full bundles a small one would leave.)
                self._wake(self._waiters)
                self._flush_soon()
                return
            self._close()
            self._send(*self._closed.popleft())
        if self._waiters and self.has_room:
            self._wake(self._waiters)
        if self._idle_waiters and self.is_idle:
            self._wake(self._idle_waiters)

    def _send(self, payload: bytes, to: Address, count: int) -> None:
        self._closed_bytes -= len(payload)
        if self._credit is not None:
            # The instance says how much there is left when it has taken this, but perhaps only when its log is stable.
            self._credit -= 1
            self._count_under_way(1)
            self._left_at.append(monotonic())
        try:
            self._request(payload, to[0], to[1], count)
        except UsageError as error:
            if not self._refusals_are_final:
                # The group was left, or has ended, while this waited.
                logger.error("%d messages to %s are dropped: %s", count, ", ".join(to[0] or to[1] or ()), error)
                if self._credit is not None:
                    self._credit += 1
                    self._count_under_way(-1)
                self._on_dropped(to[0], error)
                return
            # The protocol takes nothing from this process, and whoever has sent this is gone: whoever waits, and
            # whoever comes next, hears it.
            logger.error("messages are refused: %s", error)
            self._closed.clear()
            self._open.clear()
            self._letters.clear()
            self._closed_bytes = self._open_bytes = 0
            self._credit = None
            self.fail(error)

    def _not_accepted(self) -> int:
        return 0 if self._credit is None else self._window - self._credit

    def _under_way(self) -> int:
        return self._not_accepted() if self._told_under_way is None else self._told_under_way

    def _count_under_way(self, change: int) -> None:
        if self._told_under_way is not None:
            self._told_under_way += change

    def on_credit(self, available: int, under_way: int | None = None) -> None:
        """The protocol takes so many more bundles, and so many that it has taken have not had their turn."""
        self._credit = available
        self._told_under_way = under_way
        self._is_limited = True
        self._window = max(self._window, available)
        self._note_accepted()
        if (self._closed or self._open_bytes or self._idle_waiters) and not (self._flush_due or self._flushing):
            # (A protocol may say so at once, for each bundle of a flush, which goes on with what it has been told.)
            self._flush_soon()

    def _note_accepted(self) -> None:
        left_at, not_accepted = self._left_at, self._not_accepted()
        while len(left_at) > not_accepted:
            took = monotonic() - left_at.popleft()
            before = self.round_trip_seconds
            self.round_trip_seconds = took if before is None else before + (took - before) / 8

    @property
    def credit(self) -> int | None:
        """Bundles that the protocol takes now; None: it sets no limit."""
        return self._credit

    @property
    def waiting_bytes(self) -> int:
        """Messages that have not left."""
        return self._closed_bytes + self._open_bytes

    def forget(self, group: GroupId) -> None:
        """What waits for a group goes nowhere."""
        self._close()
        self._closed = deque(bundle for bundle in self._closed if group not in bundle[1][0])
        self._closed_bytes = sum(len(payload) for payload, _, _ in self._closed)
        if not self._flush_due:
            self._flush_soon()

    # ------------------------------------------------------------------ waiting
    async def _wait(self, waiters: list[asyncio.Future[None]]) -> None:
        """Until somebody wakes the waiters. Whoever is cancelled meanwhile leaves nothing behind."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in waiters:
                waiters.remove(waiter)
            raise

    @staticmethod
    def _wake(waiters: list[asyncio.Future[None]]) -> None:
        """All of them: who finds no room any more waits again, in the same order."""
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        waiters.clear()

    def _wake_all(self, error: BaseException) -> None:
        for waiter in (*self._waiters, *self._idle_waiters):
            if not waiter.done():
                waiter.set_exception(error)
        self._waiters.clear()
        self._idle_waiters.clear()

    def on_blocked(self, reason: str) -> None:
        """The group cannot go on, or can again. Who waits for room gets an exception and not a hang."""
        self._blocked = reason
        if reason:
            self._wake_all(GroupBlocked(reason))

    def fail(self, error: BaseException) -> None:
        """Nothing will ever leave again."""
        self._failure = error
        self._wake_all(error)

    @property
    def holds_messages(self) -> bool:
        """Whether some have not even left."""
        return bool(self._open_bytes or self._closed)

    @property
    def is_idle(self) -> bool:
        """Whether everything has left and is accepted."""
        return not self._open_bytes and not self._closed and self._not_accepted() == 0

    async def drain(self) -> None:
        """Wait until everything has left and is accepted."""
        check_thread(self._thread)
        self._refuse_failed()
        while not self.is_idle:
            self._refuse()
            await self._wait(self._idle_waiters)

    async def drain_while_moving(self, seconds_max: float, still_seconds: float) -> bool:
        """The same, but only as long as there is progress; whether everything was accepted."""
        deadline = self._loop.time() + seconds_max
        try:
            while not self.is_idle and self._loop.time() < deadline:
                before = (self._credit, len(self._closed), self._open_bytes)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.drain(), still_seconds)
                if before == (self._credit, len(self._closed), self._open_bytes):
                    break
        except OrdercastError:
            return False
        return self.is_idle


class NoWayOut:
    """Stands in a sender's place where the protocol cannot send, so that whoever can pays for no question."""

    def __init__(self, why: str) -> None:
        self._why = why

    def add(self, to: Address, payload: bytes) -> bool:
        """Take nothing, and say why."""
        raise UsageError(self._why)
