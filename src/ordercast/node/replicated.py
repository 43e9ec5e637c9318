"""A replicated state machine: an object whose method calls are ordered and applied at every member of a group.

    bank = await Replicated(Bank()).join(node, "accounts")
    balance = await bank.call(Bank.deposit, "42", 100)

Methods must be deterministic: same state, same arguments, same result, whatever the clock says. What they raise is part
of the result: it is raised to the caller, and the state must be as good after it as before, at every replica.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import msgspec

from ordercast.core import SiteId, UsageError
from ordercast.node.deliveries import Delivery
from ordercast.node.errors import GroupBlocked, NodeClosed, NodeFailed
from ordercast.node.group import Group
from ordercast.node.node import Node
from ordercast.node.obstacles import BLOCKED_SECONDS
from ordercast.node.replica_backlog import Backlog
from ordercast.node.replica_division import Division, Hooks
from ordercast.node.replica_messages import Announce, Call, Stand, Want, decode_message, encode_message, encode_value
from ordercast.node.replica_reads import Barriers
from ordercast.node.replica_schema import BARRIER, Arguments, Misfit, NoSuchMethod, Schema
from ordercast.node.replica_seeker import Seeker
from ordercast.node.replica_snapshot import Snapshot, find_snapshot
from ordercast.node.replica_versions import Versions
from ordercast.node.state_packets import Offer

logger = logging.getLogger("ordercast.node")

State = TypeVar("State")
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

SENDING_MAX = 100
"""Messages to the other replicas that wait for room at the same time. Whoever misses one asks again."""

CATCH_UP_CALLS = 200
"""That are applied in one turn when the state has come: the process has a part in the group meanwhile."""

LOOK_AGAIN_SECONDS = 0.5
"""Until a call that takes long looks again whether the group is blocked."""


class Replicated(Generic[State]):
    """One replica. `state` may be read at any time, as it is here; it is changed by `call` alone."""

    def __init__(
        self,
        state: State,
        *,
        timeout: float | None = None,
        version: str = "",
        quorum: int | None = None,
        merge: Callable[[list[State]], State] | None = None,
    ) -> None:
        """`timeout` is how many seconds a call may take; `version` is the application's name of what it runs, and
        replicas whose versions differ say so. `quorum` or `merge` is needed where sides of a group may go on apart:
        how many members a view must have for calls to be applied, or a function that makes one state of those of
        several sides (see `ordercast.node.replica_division`)."""
        if timeout is not None and not timeout > 0:
            raise UsageError(f"timeout={timeout}: a call needs some time; None is as long as it takes")
        if quorum is not None and (merge is not None or quorum < 1):
            raise UsageError(f"quorum={quorum}: a number of replicas, 1 or more, and not together with merge")
        self.state: State | None = state
        self.applied = 0
        """How many deliveries of the group the state contains."""
        self._initial = state
        self._schema = Schema(type(state), version)
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._seen = 0
        """The offset behind the last delivery."""
        self._backlog = Backlog()
        """What was delivered while there is no state."""
        self._is_live = False
        """Whether what is delivered happens now: what the log has is delivered again before."""
        self._coming: State | None = None
        """The state that has come, while what waited for it is applied."""
        self._timeout = timeout
        self._quorum = quorum
        self._merge = merge
        self._division: Division[State] | None = None
        """Is there where sides of the group may go on apart."""
        self._arrival: asyncio.Future[None] | None = None
        """Is there while the state is not, and done when it has come."""
        self._stalled_at = -1
        """The group's offset when a call was given up because the group was blocked."""
        self._barriers = Barriers(lambda: self._send_call(BARRIER, [], {}))
        self._sending: set[asyncio.Task[None]] = set()
        """What goes to the other replicas. (A task that nobody holds may vanish before it has run.)"""

    async def join(self, node: Node, group: str) -> Replicated[State]:
        """Become a replica: from the snapshot in the log, what the log has since then, and what the group delivers."""
        contract = node.internals.engine.contract
        if contract.partitionable and self._quorum is None and self._merge is None:
            raise UsageError(
                f"under {contract.name}, sides of a group that lose each other go on apart: say what becomes of the "
                f"state, Replicated(…, quorum=N) or Replicated(…, merge=function)"
            )
        self._node = node
        self._versions = Versions(node.process, node.incarnation, self._class_name, self._schema.name, self._send)
        self._kept_name = f"replicated {group}"
        snapshot = find_snapshot(node.keep_snapshot(self._take_snapshot, self._kept_name), node, self._kept_name)
        try:
            if snapshot is not None and await self._was_in(group):
                self.state = self._decode_state(
                    snapshot.state, f"the snapshot in the log of {node.process}", snapshot.schema
                )
                self.applied = snapshot.offset
            self._group: Group = await node.join(group)
        except BaseException:
            node.internals.take_no_snapshot(self._kept_name)
            raise
        self._seeker = Seeker(node, self._group, self._send, self._on_state, not contract.partitionable)
        if contract.partitionable:
            self._division = Division(
                node.internals, group, self._schema.name, self._hooks(), self._quorum, self._merge
            )
            self._group.on_view(self._division.on_view)
        self._group.on_end(self._close)
        self._group.on_gap(self._on_gap)
        self._group.on_delivery(self._on_delivery)
        await node.internals.wait_started()
        if self.applied != self._group.offset and self.state is not None:
            self._on_gap(self._group.offset)
        self._is_live = True
        self._versions.announce()
        return self

    async def _was_in(self, group: str) -> bool:
        """Whether this process is in the group since its log began. (If it has left one that no file names, and joins
        it again, or another of that name, what it has kept is not that group's.)"""
        internals = self._node.internals
        if internals.engine.is_configured(group):
            return True
        await internals.wait_started()
        return self._node.process in internals.engine.groups.get(group, ())

    async def leave(self) -> None:
        """Be a replica no more, and out of the group where no file puts this process into it."""
        await self._group.leave()
        internals = self._node.internals
        internals.take_no_snapshot(self._kept_name)
        if not internals.engine.is_configured(self._group.name):
            internals.engine.journal.forget_state(self._kept_name)

    # ------------------------------------------------------------------ calls
    async def call(
        self,
        method: Callable[Concatenate[State, Parameters], Result],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result:
        """Apply a method at every replica, in the order of the group; its result here, where the order has it.

        `GroupBlocked` when the group cannot go on, `TimeoutError` after the replica's `timeout`. Given up like this or
        cancelled, a call that has left may be applied all the same.
        """
        name = method.__name__
        known = self._schema.methods.get(name)
        if known is None or known.function is not method:
            raise UsageError(f"{name} is not a public method of {self._class_name}")
        packed = known.pack(arguments, named)  # the caller's mistake is told to the caller
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                result: Result = await self._send_call(name, *packed)
        except TimeoutError:
            if not limit.expired():
                # The method has raised it.
                raise
            why = (
                self._node.internals.told_obstacles(self._group.names)
                or "the group is slow, or this replica waits for its state"
            )
            raise TimeoutError(
                f"no result of {name} in {self._timeout} s: {why}; it may be applied all the same"
            ) from None
        return result

    async def read(self, function: Callable[[State], Result], *, linearizable: bool = False) -> Result:
        """What a function makes of the state of this replica, which it must not change. It may be a moment behind the
        others; with `linearizable` it contains every call, of whatever process, that had returned when this began.

        As in `call`: `GroupBlocked` when the group cannot go on, `TimeoutError` after the replica's `timeout`.
        """
        try:
            async with asyncio.timeout(self._timeout):
                if linearizable:
                    await self._barriers.wait()
                while self._arrival is not None:
                    await self._wait_for(self._arrival, "the state was not read")
        except TimeoutError:
            why = self._node.internals.told_obstacles(self._group.names) or "the group is slow"
            raise TimeoutError(f"the state was not read in {self._timeout} s: {why}") from None
        if self.state is None:
            raise NodeClosed("the node is closed")
        return function(self.state)

    async def _send_call(self, method: str, arguments: list[msgspec.Raw], named: dict[str, msgspec.Raw]) -> Any:
        blocked = self._node.internals.told_obstacles(self._group.names)
        if blocked and self._stalled_at == self._group.offset:
            # Else whoever is refused and calls again and again would find all of it applied when the group goes on.
            raise GroupBlocked(f"{blocked}; {method} was not sent, and can be called again later")
        while self._arrival is not None:
            # Sent before the state is here, a call may be applied by whoever gives it to us, and we never see its
            # result.
            await self._wait_for(self._arrival, f"{method} was not sent, and can be called again later")
        if self._lacking:
            raise GroupBlocked(f"{self._lacking}; {method} was not sent, and can be called again later")
        self._number += 1
        number = self._number
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls[number] = future
        call = Call(self._node.process, self._node.incarnation, number, method, arguments, named, self._schema.name)
        try:
            await self._group.multicast(encode_message(call))
            return await self._wait_for(future, f"{method} may be applied all the same")
        finally:
            del self._calls[number]
            if not future.cancel():
                # The node may have failed while this waited for room: then both know why, and one of them tells.
                future.exception()

    async def _wait_for(self, future: asyncio.Future[Result], hint: str) -> Result:
        """Wait for something that the group has to deliver; `GroupBlocked` when the group is blocked meanwhile.

        Only who has waited as long as a group that is blocked hears of it: the obstacle may be that of another group.
        """
        patience = BLOCKED_SECONDS
        while not future.done():
            done, _ = await asyncio.wait((future,), timeout=patience)
            patience = LOOK_AGAIN_SECONDS
            blocked = self._node.internals.told_obstacles(self._group.names)
            if blocked and not done:
                self._stalled_at = self._group.offset
                raise GroupBlocked(f"{blocked}; {hint}")
        return future.result()

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
        offset = delivery.offset
        self._seen = offset + 1
        if self.state is not None and offset > self.applied:
            self._on_gap(offset)
        if message is None:
            self._skip(delivery)
        elif isinstance(message, Call):
            if self._lacking:
                self._give_up_calls(f"{self._lacking}; the call was not applied", message)
            elif self.state is None:
                self._backlog.add(offset, message, len(delivery.payload))
            elif offset == self.applied:
                self._on_call(self.state, message)
        elif isinstance(message, Announce):
            self._versions.on_announce(message)
        elif isinstance(message, Want):
            self._on_want(offset, message)
        elif isinstance(message, Stand) and self._division is not None:
            self._division.on_stand(message)
        if self.state is not None:
            self.applied = max(self.applied, offset + 1)

    def _skip(self, delivery: Delivery) -> None:
        """Somebody has sent to the group what no replica sends. No replica applies it, and it has its place in the
        order all the same."""
        self._node.internals.receiver.counters["no-replica-messages"] += 1
        if self._versions.tell_once("stranger", delivery.source):
            logger.warning(
                "skipped message %s to group %s: it is no call of a replica; send it to a group that has no replicas "
                "(more from process %s is counted, and not logged)",
                delivery.message,
                self._group.name,
                delivery.source,
            )

    def _on_call(self, state: State, call: Call) -> None:
        # Unpacked first: a call that is not understood must not count as applied in a snapshot.
        arguments = self._unpack(call)
        self.applied += 1
        if arguments is not None:
            self._apply(state, call, arguments)

    def _unpack(self, call: Call) -> Arguments | None:
        """What a call wants; `NodeFailed` when this class does not understand it, for another replica's may have."""
        if self._is_mine(call):
            self._versions.on_own_message()
        elif call.schema:
            self._versions.on_other(call.caller, call.schema)
        try:
            return self._schema.unpack(call)
        except Misfit as error:
            if not call.schema:
                # Version 0.2.0 sent whatever a caller gave it, and no replica applied what did not fit.
                return None
            why = f"whose arguments do not fit here ({error})"
        except NoSuchMethod:
            why = "which does not exist here"
        raise NodeFailed(
            f"process {call.caller} called {self._class_name}.{call.method}, {why}; its schema is "
            f"{call.schema or 'of ordercast 0.2.0'}, that of {self._node.process} is {self._schema.name}: "
            f"install here the version that {call.caller} runs, and start again"
        )

    def _apply(self, state: State, call: Call, arguments: Arguments) -> None:
        future = self._calls.get(call.number) if self._is_mine(call) else None
        try:
            result = self._schema.methods[call.method].function(state, *arguments.positional, **arguments.named)
        except Exception as error:
            if future is not None and not future.done():
                # A future takes no StopIteration, and its refusal would stop this replica alone.
                wrong = isinstance(error, StopIteration)
                future.set_exception(RuntimeError(f"{call.method} raised {error!r}") if wrong else error)
            return
        if future is not None and not future.done():
            future.set_result(result)

    def _is_mine(self, call: Call) -> bool:
        return call.caller == self._node.process and call.incarnation == self._node.incarnation

    @property
    def _class_name(self) -> str:
        return type(self._initial).__name__

    # ------------------------------------------------------------------ state transfer
    def _on_gap(self, offset: int) -> None:
        """The log was cut short before a snapshot was kept with it, or the others have gone on without this process:
        our state is not the group's."""
        if self.state is not None and self._seen <= offset < self.applied:
            return  # the log is read again, and the state is from behind the gap
        logger.info("replica %s goes on at %d without what lies before", self._node.process, offset)
        self._seen = offset
        # Whoever comes to others who have the group, too, may be at an offset that it has had in another history.
        self._node.internals.engine.journal.forget_state(self._kept_name)
        self._give_up_calls("the group has gone on without this process; the call may be applied all the same")
        self._backlog.begin(offset)
        self._coming = None
        if self.state is not None:
            self.state = None
            self._arrival = asyncio.get_running_loop().create_future()
        self._seeker.begin(offset)

    def _give_up_calls(self, why: str, call: Call | None = None) -> None:
        """Tell the callers of this process, or the one of this call."""
        if call is not None and not self._is_mine(call):
            return
        for number, future in self._calls.items():
            if not future.done() and (call is None or number == call.number):
                future.set_exception(GroupBlocked(why))

    @property
    def _lacking(self) -> str:
        """Why calls are not applied although there is a state; empty as a rule."""
        return "" if self._division is None else self._division.lacking

    def _hooks(self) -> Hooks[State]:
        return Hooks(self._hold, self._show, self._resume, self._seek, self._decode_state, self._send)

    def _hold(self) -> State | None:
        if self._coming is not None:
            # Those who come along have applied it, or will.
            self._apply_backlog(self._coming, len(self._backlog) + 1)
        held = self.state
        if held is None:
            self._give_up_calls("the group was divided before this replica had a state; the call may be applied")
        self._seeker.stop()
        self._backlog.begin(self._seen)
        self.state = self._coming = None
        if self._arrival is None:
            self._arrival = asyncio.get_running_loop().create_future()
        return held

    def _show(self, state: State | None) -> None:
        self.state = state
        self._arrive()

    def _resume(self, state: State) -> None:
        self._coming = state
        self.applied = self._backlog.needed_from
        self._catch_up()

    def _seek(self, givers: Collection[SiteId]) -> None:
        self._seeker.begin(self._backlog.needed_from, givers)

    def _on_want(self, offset: int, want: Want) -> None:
        node, state = self._node, self.state
        if want.asker == node.process:
            self._seeker.on_delivered(want, offset)
        elif want.giver != node.process or not self._is_live:
            pass  # another one gives it; or the question stands in the log, and nobody waits for an answer
        elif state is None or offset < self.applied or self._lacking:
            node.internals.transfer.refuse(want.asker, want.transfer, "it has no state itself")
        else:
            node.internals.transfer.give(
                want.asker,
                want.transfer,
                self._group.name,
                want.since,
                offset + 1,
                self._schema.name,
                lambda: encode_value(state),
            )

    def _on_state(self, giver: SiteId, offer: Offer, content: bytearray, offset: int) -> None:
        """The state of another replica has come: what was delivered from this offset on is applied to it."""
        self._coming = self._decode_state(content, f"the state that {giver} gave", offer.schema)
        self.applied = offset
        if self._node.internals.engine.journal.stable:
            # The log has only what was delivered since: when the others are gone, this is the one that there is.
            asyncio.get_running_loop().run_in_executor(None, self._keep_state, offer, content)
        self._catch_up()

    def _keep_state(self, offer: Offer, content: bytearray) -> None:
        snapshot = Snapshot(offer.offset, bytes(content), offer.schema)
        self._node.internals.engine.journal.keep_state(self._kept_name, encode_value(snapshot))

    def _catch_up(self) -> None:
        try:
            if self._coming is not None and not self._node.internals.over.is_set():
                self._apply_backlog(self._coming)
        except Exception as error:
            self._node.internals.failed(error)

    def _apply_backlog(self, state: State, most: int = CATCH_UP_CALLS) -> None:
        for _ in range(most):
            waited = self._backlog.pop()
            if waited is None:
                self.state, self._coming = state, None
                self.applied = max(self.applied, self._seen)
                if self._division is not None:
                    self._division.on_resumed()
                self._arrive()
                return
            offset, call = waited
            if offset >= self.applied:
                self.applied = offset
                self._on_call(state, call)
        asyncio.get_running_loop().call_soon(self._catch_up)

    def _arrive(self) -> None:
        """Whoever waits for the state need not wait any more."""
        if self._arrival is not None:
            self._arrival.set_result(None)
            self._arrival = None

    def _send(self, message: Want | Announce | Stand) -> asyncio.Task[None] | None:
        if len(self._sending) >= SENDING_MAX:
            return None
        task = asyncio.get_running_loop().create_task(self._group.multicast(encode_message(message)))
        self._sending.add(task)
        task.add_done_callback(self._sent)
        return task

    def _sent(self, task: asyncio.Task[None]) -> None:
        """Nobody waits for it. When the node is over, nobody wants to hear of it either."""
        self._sending.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, NodeClosed):
            logger.warning("a message to the other replicas: %s", error)

    def _take_snapshot(self) -> bytes | None:
        return (
            None
            if self.state is None
            else encode_value(Snapshot(self.applied, encode_value(self.state), self._schema.name))
        )

    def _decode_state(self, content: bytes | bytearray, what: str, schema: str) -> State:
        try:
            return msgspec.msgpack.decode(content, type=type(self._initial))
        except (msgspec.DecodeError, ValueError) as error:
            raise NodeFailed(
                f"{what} does not fit {self._class_name}: {error}; its schema is {schema or 'of ordercast 0.2.0'}, "
                f"that of {self._node.process} is {self._schema.name}: install here the version that wrote it"
            ) from None

    def _close(self, error: BaseException | None) -> None:
        for future in self._calls.values():
            if not future.done():
                future.set_exception(error or NodeClosed("the node is closed; the call may be applied all the same"))
        self._seeker.stop()
        # Who waits for the state goes on, and hears from the group that it is over.
        self._arrive()
