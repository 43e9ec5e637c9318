"""A replicated state machine: an object whose method calls are ordered and applied at every member of a group.

    bank = await Replicated(Bank()).join(node, "accounts")
    balance = await bank.call(Bank.deposit, "42", 100)

Methods must be deterministic: same state, same arguments, same result, whatever the clock says. What they raise is part
of the result: it is raised to the caller, and the state must be as good after it as before, at every replica.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_type_hints

import msgspec

from ordercast.core import SiteId, UsageError
from ordercast.node.deliveries import Delivery
from ordercast.node.errors import NodeClosed
from ordercast.node.group import Group
from ordercast.node.node import Node
from ordercast.node.replica_messages import Ask, Call, Give, decode_message, encode_message, encode_value

logger = logging.getLogger("ordercast.node")

State = TypeVar("State")
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

BUFFERED_MAX = 100_000
"""Calls that a replica without a state keeps until it has got one. Beyond, something is wrong, and memory is short."""

ASK_AGAIN_SECONDS = 2.0
"""Until a replica without a state asks again: the one that should have answered may have crashed."""

STRANGERS_MAX = 1_000
"""Sources of messages that are no replica's which are named in the log; all are counted."""


class _Snapshot(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    """The next delivery to apply."""
    state: bytes


class Replicated(Generic[State]):
    """One replica. `state` may be read at any time; it is changed by `call` alone."""

    def __init__(self, state: State) -> None:
        self.state: State | None = state
        self.applied = 0
        """How many deliveries of the group the state contains."""
        self._initial = state
        self._methods: dict[str, _Method] = {
            name: _Method(function)
            for name, function in inspect.getmembers(type(state), inspect.isfunction)
            if not name.startswith("_")
        }
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._waiting: list[tuple[int, Call | Ask]] = []
        """What was delivered while there is no state, with its offset."""
        self._strangers: set[SiteId] = set()
        """Whose messages were no replica's; the log has named them."""
        self._has_state = asyncio.Event()
        self._has_state.set()

    async def join(self, node: Node, group: str) -> Replicated[State]:
        """Become a replica: from the snapshot in the log, what the log has since then, and what the group delivers."""
        self._node = node
        kept = node.keep_snapshot(self._take_snapshot)
        if kept is not None:
            snapshot = msgspec.msgpack.decode(kept, type=_Snapshot)
            self.state = self._decode_state(snapshot.state)
            self.applied = snapshot.offset
        self._group: Group = await node.join(group)
        self._group.on_end(self._close)
        self._group.on_delivery(self._on_delivery)
        if self.applied < self._group.offset and self.state is not None:
            self._on_gap(self._group.offset)
        return self

    # ------------------------------------------------------------------ calls
    async def call(
        self,
        method: Callable[Concatenate[State, Parameters], Result],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result:
        """Apply a method at every replica, in the order of the group; its result here, where the order has it."""
        name = method.__name__
        if self._methods.get(name) is None or self._methods[name].function is not method:
            raise UsageError(f"{name} is not a public method of {type(self._initial).__name__}")
        inspect.signature(method).bind(self._initial, *arguments, **named)  # the caller's mistake, told to the caller
        # (Sent before the state is here, a call may be applied by whoever gives it to us, and we never see its result.)
        await self._has_state.wait()
        self._number += 1
        number = self._number
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._calls[number] = future
        call = Call(
            self._node.process,
            self._node.incarnation,
            number,
            name,
            [msgspec.Raw(encode_value(argument)) for argument in arguments],
            {key: msgspec.Raw(encode_value(value)) for key, value in named.items()},
        )
        try:
            await self._group.multicast(encode_message(call))
            return await future
        finally:
            # Cancelled, it may be applied all the same: the message is on its way.
            self._calls.pop(number, None)

    def _on_delivery(self, delivery: Delivery) -> None:
        try:
            self._take(delivery)
        except Exception as error:
            # What is delivered while it is multicast, or while the group is joined, would raise to that caller alone;
            # the next message would be applied to a state that lacks this one.
            self._node.internals.failed(error)
            raise

    def _take(self, delivery: Delivery) -> None:
        message = decode_message(delivery.payload, delivery.source)
        state, offset = self.state, delivery.offset
        if state is not None and offset > self.applied:
            state = None
            self._on_gap(offset)
        if message is None:
            self._skip(delivery)
        elif isinstance(message, Give):
            self._on_give(offset, message)
        elif state is None:
            self._keep(offset, message)
        elif offset == self.applied:
            self._on_next(state, message)

    def _skip(self, delivery: Delivery) -> None:
        """Somebody has sent to the group what no replica sends. No replica applies it, and it has its place in the
        order all the same."""
        self._node.internals.receiver.counters["no-replica-messages"] += 1
        self.applied = max(self.applied, delivery.offset + 1)
        if delivery.source not in self._strangers and len(self._strangers) < STRANGERS_MAX:
            self._strangers.add(delivery.source)
            logger.warning(
                "skipped message %s to group %s: it is no call of a replica; send it to a group that has no replicas "
                "(more from process %s is counted, and not logged)",
                delivery.message,
                self._group.name,
                delivery.source,
            )

    def _on_next(self, state: State, message: Call | Ask) -> None:
        offset = self.applied
        self.applied += 1
        if isinstance(message, Call):
            self._apply(state, message)
        elif message.asker != self._node.process and (message.everyone or self._answers(message.asker)):
            self._send(Give(message.asker, message.incarnation, offset, encode_value(state)))

    def _keep(self, offset: int, message: Call | Ask) -> None:
        if len(self._waiting) >= BUFFERED_MAX:
            raise UsageError(f"no replica has given its state in {BUFFERED_MAX} calls: is there one that has it?")
        self._waiting.append((offset, message))

    def _apply(self, state: State, call: Call) -> None:
        mine = call.caller == self._node.process and call.incarnation == self._node.incarnation
        future = self._calls.get(call.number) if mine else None
        try:
            result = self._methods[call.method].apply(state, call)
        except Exception as error:
            if future is not None and not future.done():
                future.set_exception(error)
            return
        if future is not None and not future.done():
            future.set_result(result)

    # ------------------------------------------------------------------ state transfer
    def _on_gap(self, offset: int) -> None:
        """The log was cut short before a snapshot was kept with it: our state is not the group's."""
        logger.info("replica %s has nothing from %d to %d", self._node.process, self.applied, offset)
        self.state = None
        self._has_state.clear()
        self._ask(0)

    def _ask(self, attempt: int) -> None:
        if self.state is None:
            self._send(Ask(self._node.process, self._node.incarnation, everyone=attempt > 0))
            asyncio.get_running_loop().call_later(ASK_AGAIN_SECONDS, self._ask, attempt + 1)

    def _answers(self, asker: SiteId) -> bool:
        """One is enough: the first by name, unless it is the asker."""
        return self._node.process == next((site for site in self._group.members if site != asker), None)

    def _on_give(self, offset: int, give: Give) -> None:
        mine = give.asker == self._node.process and give.incarnation == self._node.incarnation
        if self.state is not None:
            self.applied = max(self.applied, offset + 1)
        elif mine:
            state = self.state = self._decode_state(give.state)
            self._has_state.set()
            self.applied = give.offset + 1
            waiting, self._waiting = self._waiting, []
            for waited, message in waiting:
                if waited >= self.applied:
                    self.applied = waited
                    self._on_next(state, message)
            self.applied = offset + 1

    def _send(self, message: Ask | Give) -> None:
        task = asyncio.get_running_loop().create_task(self._group.multicast(encode_message(message)))
        task.add_done_callback(_forget)

    def _take_snapshot(self) -> bytes | None:
        return None if self.state is None else encode_value(_Snapshot(self.applied, encode_value(self.state)))

    def _decode_state(self, content: bytes) -> State:
        return msgspec.msgpack.decode(content, type=type(self._initial))

    def _close(self, error: BaseException | None) -> None:
        for future in self._calls.values():
            if not future.done():
                future.set_exception(error or NodeClosed("the node is closed; the call may be applied all the same"))
        self._has_state.set()


def _forget(task: asyncio.Task[None]) -> None:
    """The node is over, or the group blocked: then nobody waits for the answer either."""
    if not task.cancelled() and task.exception() is not None:
        logger.warning("state transfer: %s", task.exception())


class _Method:
    """One method, with the types of its parameters: what comes from the network becomes exactly that."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        if inspect.iscoroutinefunction(function):
            raise UsageError(f"{function.__name__} is a coroutine: replicas apply calls at once, without waiting")
        hints = get_type_hints(function)
        names = list(inspect.signature(function).parameters)[1:]
        self._types = {name: hints.get(name, Any) for name in names}
        self._positions = [self._types[name] for name in names]

    def apply(self, state: Any, call: Call) -> Any:
        arguments = [
            msgspec.msgpack.decode(raw, type=wanted)
            for raw, wanted in zip(call.arguments, self._positions, strict=False)
        ]
        named = {key: msgspec.msgpack.decode(raw, type=self._types[key]) for key, raw in call.named.items()}
        return self.function(state, *arguments, **named)
