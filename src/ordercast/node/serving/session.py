"""One connection of a client, at the member. What it may make the member hold has a bound: what is under way, what is
on its way to it, and one record that is not whole."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ordercast.core import GroupId, OrdercastError, UsageError, WireError
from ordercast.node.keys import CLIENTS
from ordercast.node.obstacles import BLOCKED_SECONDS
from ordercast.node.receipts import Receipt
from ordercast.node.runs import Run, check_count
from ordercast.node.serving.packets import (
    ANSWERS_MAX,
    RUN_BYTES_MAX,
    SILENCE_SECONDS,
    SUBSCRIPTIONS_MAX,
    UNDER_WAY_MAX,
    Answer,
    Blocked,
    CallMethod,
    Cut,
    Hello,
    Ordered,
    Ping,
    Pong,
    Refused,
    Request,
    Result,
    Send,
    SendKeyed,
    Several,
    Subscribe,
    Taken,
    Unsubscribe,
    Welcome,
    decode_request,
    encode,
)
from ordercast.node.serving.subscription import Subscription
from ordercast.wire.stream import Stream, WrongKey

if TYPE_CHECKING:
    from ordercast.node.serving.server import ClientServer

WRITE_BYTES_MAX = 1 << 16
"""That wait for the network; with more, nothing is sent to the client that can wait. Beside them there is one batch of
deliveries, and an answer to everything that is under way."""

SLOW_SECONDS = 10.0
"""For which a client may read nothing of what waits for it."""

LOOK_SECONDS = 0.5
"""Between two looks whether a client is there, and whether its groups go on."""

FULL_RATE_BYTES = RUN_BYTES_MAX // 2
"""Of a run: who sends larger ones sends at full rate."""

ANSWERS_SECONDS = 0.005
"""For which an answer waits for others at the most."""

LARGE_BYTES = 1 << 18
"""Of a record that is not whole: with more, the client needs one of the few slots that a member has for such."""


class _RunTurn(msgspec.Struct, eq=False):
    """A run that waits for room (`Turn`)."""

    session: Session
    request: Send

    def attempt(self) -> bool:
        return self.session.take_turn(self.request)

    def fail(self, error: OrdercastError) -> None:
        self.session.fail(self.request, error)


class Session(asyncio.BufferedProtocol):
    """What a member does for one client."""

    def __init__(self, server: ClientServer) -> None:
        self._server = server
        self._internals = server.internals
        self._loop = server.loop
        self._stream = Stream(server.keys, is_member=True, record_bytes_max=server.record_bytes_max)
        self._transport: asyncio.Transport | None = None
        self.client = ""
        """Its name; empty before it has proved that it holds the key."""
        self.came_at = self.heard_at = self._loop.time()
        self._requests: deque[Request] = deque()
        """What has come and waits until the one before has its place in the queue of its group."""
        self._waits_for: Request | None = None
        self._has_turn: GroupId | None = None
        """The group in which nobody is served before this client now."""
        self._under_way: dict[tuple[GroupId, int], float] = {}
        """What is not answered yet -> when it came."""
        self._posted: dict[GroupId, int] = {}
        """The number of the last run that was sent to a group for this client. It sends all that it has heard nothing
        of, so whatever was before the first one has its place."""
        self._answers: list[Ordered] = []
        """Those that wait for others."""
        self._answers_due: asyncio.TimerHandle | None = None
        self._subscriptions: dict[int, Subscription] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.may_write = asyncio.Event()
        self.may_write.set()
        self._has_slot = False
        self._slow_since = 0.0
        self._told_blocked: dict[GroupId, float] = {}
        """Groups of which the client knows that they do not go on -> since when."""

    # ------------------------------------------------------------------ the connection
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES_MAX)
        self._transport.write(self._stream.greeting())
        self._server.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Somebody is gone. What was taken goes on its way."""
        self._transport = None
        self._server.closed(self)
        self._release_slot()
        self._requests.clear()
        self._answers.clear()
        if self._answers_due is not None:
            self._answers_due.cancel()
        self._stop_tasks()
        for subscription in self._subscriptions.values():
            subscription.stop()
        self.may_write.set()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is sent to."""
        self.may_write.clear()
        self._slow_since = self._loop.time()

    def resume_writing(self) -> None:
        """It does."""
        self.may_write.set()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where bytes of the client go: all clients have one buffer, which is in the processor's cache as a rule."""
        return self._server.read_buffer

    def buffer_updated(self, size: int) -> None:
        """They are there."""
        self.data_received(self._server.read_buffer[:size])

    def data_received(self, data: bytes | memoryview) -> None:
        """Bytes of the client, which are somebody else's as soon as this is done."""
        self.heard_at = self._loop.time()
        try:
            records = self._stream.receive(data)
            self._requests.extend(map(decode_request, records))
        except WrongKey as error:
            self._server.counters["clients-with-another-key"] += 1
            if self._transport is not None:
                self._transport.write(self._stream.refusal())
            self._drop(str(error))
            return
        except (WireError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._cut_malformed(error)
            return
        self._mind_size()
        self._go_on()

    def _mind_size(self) -> None:
        """Of all clients together only a few may make this process hold a large record that is not whole."""
        if self._stream.held_bytes <= LARGE_BYTES:
            self._release_slot()
        elif not self._has_slot:
            self._has_slot = self._server.take_slot(self)
            if not self._has_slot and self._transport is not None:
                self._transport.pause_reading()

    def give_slot(self) -> None:
        """It may send the rest of its large record."""
        self._has_slot = True
        self._read_on()

    def _release_slot(self) -> None:
        if self._has_slot:
            self._has_slot = False
            self._server.give_slot_back()
        else:
            self._server.wait_for_slot_no_more(self)

    def _read_on(self) -> None:
        is_held = not self._has_slot and self._stream.held_bytes > LARGE_BYTES
        if self._open is not None and self._waits_for is None and not is_held:
            self._open.resume_reading()

    @property
    def _open(self) -> asyncio.Transport | None:
        """The connection, until the client is gone or cut. (One that was cut stays for as long as it does not read.)"""
        return None if self._transport is None or self._transport.is_closing() else self._transport

    # ------------------------------------------------------------------ out
    def say(self, answer: Answer) -> None:
        """Send a record, behind the answers that wait."""
        if self._answers:
            self._say_answers()
        if self._open is not None:
            self._open.write(self._stream.seal(encode(answer)))

    def _say_answers(self) -> None:
        """Send what waits, in one record."""
        answers, self._answers = self._answers, []
        if self._answers_due is not None:
            self._answers_due.cancel()
            self._answers_due = None
        if self._open is not None:
            self._open.write(self._stream.seal(encode(answers[0] if len(answers) == 1 else Several(answers))))

    def cut(self, why: str) -> None:
        """Close the connection; the client is told why, as soon as it reads."""
        if self._stream.is_open:
            self.say(Cut(why))
        self._drop(why)

    def _cut_malformed(self, error: Exception) -> None:
        self._server.counters["clients-malformed"] += 1
        self.cut(f"malformed: {error}")

    def abort(self) -> None:
        """Close the connection, whatever is on its way."""
        if self._transport is not None:
            self._transport.abort()

    def _drop(self, why: str) -> None:
        transport = self._open
        if transport is None:
            return
        self._server.note_cut(self, why)
        self._stop_tasks()
        transport.close()
        # Whoever does not read does not learn that it is cut, and is not waited for.
        self._loop.call_later(SILENCE_SECONDS, transport.abort)

    def _stop_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()

    # ------------------------------------------------------------------ in
    def _go_on(self) -> None:
        """Do what is asked, in its order; nothing of a client that was cut.

        (Else: 1. run 7 cannot be sent here, and the client is cut. 2. Run 8 waits behind it, and is ordered. 3. The
        client sends 7 to another member, where 8 is known: 7 counts as one that is there already, and is lost.)
        """
        while self._requests and self._waits_for is None and self._open is not None:
            request = self._requests.popleft()
            if isinstance(request, Hello) == bool(self.client):
                self.cut("the first record is a hello, and no other")
                return
            self._do(request)

    def _do(self, request: Request) -> None:
        match request:
            case Send() | SendKeyed() | CallMethod():
                self._take(request)
            case Taken(number, size):
                if number in self._subscriptions:
                    self._subscriptions[number].taken(size)
            case Subscribe():
                self._subscribe(request)
            case Unsubscribe(number):
                if number in self._subscriptions:
                    self._subscriptions.pop(number).stop()
            case Ping():
                if self.may_write.is_set():
                    self.say(Pong())
            case Hello(client):
                self.client = client
                self._server.greeted(self)
                configuration = self._server.configuration
                self.say(Welcome(configuration.cluster, self._internals.process, configuration.payload_max))

    def _subscribe(self, request: Subscribe) -> None:
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            self.cut(f"more than {SUBSCRIPTIONS_MAX} subscriptions")
            return
        number = request.subscription

        def ended() -> None:
            self._subscriptions.pop(number, None)

        self._subscriptions[number] = Subscription(self, self._internals, request, ended)

    def _take(self, request: Send | SendKeyed | CallMethod) -> None:
        if len(self._under_way) >= UNDER_WAY_MAX:
            self.cut(f"more than {UNDER_WAY_MAX} messages under way")
            return
        self._under_way[request.group, request.number] = self._loop.time()
        if isinstance(request, Send):
            self._take_run(request)
        elif isinstance(request, SendKeyed):
            self._begin(request, self._post_keyed(request))
        else:
            self._begin(request, self._call(request))

    # ------------------------------------------------------------------ runs
    def _take_run(self, request: Send) -> None:
        # Is it what it says? (Else: 1. a client sends a run that holds no messages. 2. It is ordered in one bundle with
        # runs of others. 3. Every member sets the bundle aside.)
        try:
            check_count(request.packed, request.count)
        except WireError as error:
            self._cut_malformed(error)
            return
        if request.count > 1 and len(request.packed) > RUN_BYTES_MAX:
            self._refuse(request, f"a run of several messages has {RUN_BYTES_MAX} bytes at the most")
            return
        is_behind = self._has_turn != request.group and self._server.is_waited_for(request.group)
        if is_behind or not self._post(request):
            self._hold(request)
            self._server.wait_for_room(request.group, _RunTurn(self, request))

    def take_turn(self, request: Send) -> bool:
        """Send a run that has waited, and as many of those behind it as there is room for, unless the client is gone;
        whether there was room. (One run a turn: 1. four have come together. 2. Each holds the connection up, waits
        behind those of all others, and wakes it again.)"""
        if self._open is None:
            return True
        if not self._post(request):
            return False
        if self._waits_for is request:
            self._waits_for = None
            self._has_turn = request.group
            self._go_on()
            self._has_turn = None
            self._read_on()
        return True

    def fail(self, request: Send, error: OrdercastError) -> None:
        """A run is not sent, for a mistake of the client; or by this member, and another one may do better."""
        if isinstance(error, UsageError):
            self._refuse(request, str(error))
        else:
            self.cut(str(error))
        self._end_wait(request)

    def _post(self, request: Send) -> bool:
        """Whether there was room for it, or it is done with otherwise."""
        internals = self._internals
        try:
            address = internals.address((request.group,))
            after = self._posted.get(request.group, 0)
            run = Run(self.client, request.number, request.count, request.packed, after=after)
            receipt = internals.receipts.post_run(internals.receiver, internals.sender, address, run)
        except OrdercastError as error:
            self.fail(request, error)
            return True
        if receipt is not None:
            self._posted[request.group] = request.number
            # Not the run itself, whose 60 kB the next one that comes has again as soon as this one is in its bundle.
            is_full = len(request.packed) > FULL_RATE_BYTES
            receipt.add_done_callback(partial(self._on_receipt, request.group, request.number, is_full))
        return receipt is not None

    async def _post_keyed(self, request: SendKeyed) -> None:
        internals = self._internals
        address = internals.address((request.group,))
        receipt = await internals.receipts.post(
            internals.receiver, internals.sender, address, request.payload, request.key, CLIENTS
        )
        receipt.add_done_callback(partial(self._on_receipt, request.group, request.number, False))

    async def _call(self, request: CallMethod) -> None:
        served = self._internals.served.get(request.group)
        if served is None:
            raise UsageError(f"process {self._internals.process} holds no replicated object in group {request.group!r}")
        outcome = await served.call(
            self.client, request, self._posted.get(request.group, 0), partial(self._on_posted, request)
        )
        self._answer(request, Result(request.group, request.number, outcome.value, outcome.error, outcome.why))

    # ------------------------------------------------------------------ what takes longer
    def _begin(self, request: Send | SendKeyed | CallMethod, work: Coroutine[Any, Any, None]) -> None:
        """Do something before anything else that the client wants."""
        self._hold(request)
        task = self._loop.create_task(self._finish(request, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _hold(self, request: Request) -> None:
        self._waits_for = request
        if self._transport is not None:
            self._transport.pause_reading()

    async def _finish(self, request: Send | SendKeyed | CallMethod, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except UsageError as error:
            self._refuse(request, str(error))
        except OrdercastError as error:
            if isinstance(request, CallMethod):
                why = Result(request.group, request.number, error=type(error).__name__, why=str(error))
                self._answer(request, why)
            else:
                self.cut(str(error))
        finally:
            self._end_wait(request)

    def _on_posted(self, request: CallMethod) -> None:
        self._posted[request.group] = request.number
        self._end_wait(request)

    def _end_wait(self, request: Request) -> None:
        """What the client has sent behind this may follow."""
        if self._waits_for is request:
            self._waits_for = None
            self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._go_on()
        self._read_on()

    # ------------------------------------------------------------------ answers
    def _on_receipt(self, group: GroupId, number: int, is_full: bool, future: asyncio.Future[Receipt]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            # Another member may do better: the client goes there, and sends again what it has heard nothing of.
            self.cut(str(error))
            return
        receipt = future.result()
        if self._under_way.pop((group, number), None) is None:
            return
        self._told_blocked.pop(group, None)
        self._answers.append(Ordered(group, number, receipt.offset, receipt.message, receipt.repeated))
        if not (is_full and self._under_way) or len(self._answers) >= ANSWERS_MAX:
            self._say_answers()
        elif self._answers_due is None:
            self._answers_due = self._loop.call_later(ANSWERS_SECONDS, self._say_answers)

    def _refuse(self, request: Send | SendKeyed | CallMethod, why: str) -> None:
        self._answer(request, Refused(request.group, request.number, why))

    def _answer(self, request: Send | SendKeyed | CallMethod, answer: Answer) -> None:
        if self._under_way.pop((request.group, request.number), None) is not None:
            self._told_blocked.pop(request.group, None)
            self.say(answer)

    def look(self, now: float) -> None:
        """Now and then: is the client there, does it read, and does what it has sent go on?"""
        if now - self.heard_at > SILENCE_SECONDS:
            self._drop("it is silent")
        elif not self.may_write.is_set() and now - self._slow_since > SLOW_SECONDS:
            self.cut(f"it has not read for {SLOW_SECONDS:.0f} s")
        for (group, _), came_at in self._under_way.items():
            # Told again and again: there are always some who wait for what they have sent since.
            if now - max(came_at, self._told_blocked.get(group, 0.0)) > BLOCKED_SECONDS:
                why = self._internals.told_obstacles((group,))
                if why:
                    self._told_blocked[group] = now
                    self.say(Blocked(group, why))
