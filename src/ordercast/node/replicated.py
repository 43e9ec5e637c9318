"""A replicated state machine: an object whose method calls are ordered and applied at every member of a group.

    bank = await Replicated(Bank()).join(node, "accounts")
    balance = await bank.call(Bank.deposit, "42", 100)

Methods must be deterministic: same state, same arguments, same result, whatever the clock says. One that needs the
time, a random number, its caller or its place in the order takes a `Context` as its first parameter. What they raise is
part of the result: it is raised to the caller, and the state must be as good after it as before, at every replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ordercast.core import GroupId, SiteId, UsageError
from ordercast.node.asking import Wait
from ordercast.node.engine import Engine
from ordercast.node.errors import GroupBlocked, NodeClosed
from ordercast.node.group import Group
from ordercast.node.node import Node
from ordercast.node.replica_caller import Caller
from ordercast.node.replica_calls import NOT_SENT
from ordercast.node.replica_joining import Joining
from ordercast.node.replica_machine import Machine
from ordercast.node.replica_reads import Barriers
from ordercast.node.replica_schema import BARRIER
from ordercast.node.replica_serving import ServedReplica

State = TypeVar("State")
Result = TypeVar("Result")


class Replicated(Caller[State]):
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
        replicas whose versions differ say so.

        `quorum` or `merge` is needed where sides of a group may go on apart: how many members a view must have for
        calls to be applied, or a function that makes one state of those of several sides (see
        `ordercast.node.replica_division`). Where no file names the processes, `quorum` is also how many replicas have
        to be there before the state begins, without it two (see `ordercast.node.replica_lineage`)."""
        if timeout is not None and not timeout > 0:
            raise UsageError(f"timeout={timeout}: a call needs some time; None is as long as it takes")
        if quorum is not None and (merge is not None or quorum < 1):
            raise UsageError(f"quorum={quorum}: a number of replicas, 1 or more, and not together with merge")
        super().__init__(type(state), version)
        self._initial = state
        self._timeout = timeout
        self._quorum = quorum
        self._merge = merge
        self._joined: Machine[State] | None = None
        self._joining: Joining[State]
        self._barriers = Barriers(lambda: self._send_call(BARRIER, [], {}))
        self._is_waiting = False
        """Whether a join was given up in a group of the configuration, in which the replica goes on."""

    @property
    def state(self) -> State | None:
        """The object; None while its state is on the way. Only calls may change it."""
        return self._initial if self._joined is None else self._joined.state

    @property
    def applied(self) -> int:
        """How many deliveries of the group the state contains."""
        return 0 if self._joined is None else self._joined.applied

    @property
    def _machine(self) -> Machine[State]:
        if self._joined is None:
            raise UsageError("this replica is in no group: await its join first")
        return self._joined

    @property
    def _group(self) -> Group:
        group = self._machine.group
        if group is None:
            raise UsageError("this replica is not in its group yet: await its join first")
        return group

    # ------------------------------------------------------------------ in and out
    async def join(self, node: Node, group: GroupId, timeout: float | None = None) -> Replicated[State]:
        """Become a replica: from the snapshot in the log, what the log has since then, and what the group delivers.

        Done when the state is there, and calls can be made. `TimeoutError` after so many seconds. Whoever does not wait
        to the end has not joined; in a group of the configuration the replica goes on, and `join` may be called again.
        """
        self._check_rule(node.internals.engine)
        if self._joined is not None and not self._is_waiting:
            raise UsageError("this replica has joined a group already: make another one")
        if self._joined is None:
            self._joined = Machine(node, group, self._initial, self._schema, self._quorum, self._merge)
            self._joining = Joining(self._joined)
        machine, joining = self._joined, self._joining
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                await joining.wait_ready()
        except BaseException as error:
            ran_out = isinstance(error, TimeoutError) and limit.expired()
            why = joining.why_not_ready() if ran_out else ""
            self._is_waiting = not await joining.undo()
            self._joined = machine if self._is_waiting else None
            if ran_out:
                raise TimeoutError(
                    f"process {node.process} has no state of group {group} after {timeout} s: {why}"
                ) from None
            raise
        self._is_waiting = False
        node.internals.served[group] = ServedReplica(machine, self._schema)
        return self

    def _check_rule(self, engine: Engine) -> None:
        contract = engine.contract
        if contract.partitionable and self._quorum is None and self._merge is None:
            raise UsageError(
                f"under {contract.name}, sides of a group that lose each other go on apart: say what becomes of the "
                f"state, Replicated(…, quorum=N) or Replicated(…, merge=function)"
            )
        if engine.is_open and not contract.partitionable and self._merge is not None:
            raise UsageError(
                f"under {contract.name}, one history of a group goes on, and others are given up: there is nothing to "
                f"merge; say Replicated(…, quorum=N), with how many replicas the state begins"
            )

    async def leave(self, timeout: float | None = None) -> None:
        """Be a replica no more, and out of the group where no file puts this process into it. Such a group is not left
        before enough of those who stay have the state, also when that is after some have come back; the log says what
        it waits for. `TimeoutError` after so many seconds, and then it is left all the same."""
        await self._machine.leave(timeout)

    # ------------------------------------------------------------------ calls
    async def _apply(
        self, method: Callable[..., Any], arguments: list[msgspec.Raw], named: dict[str, msgspec.Raw]
    ) -> Any:
        name = method.__name__
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return await self._send_call(name, arguments, named)
        except TimeoutError:
            if not limit.expired():
                # The method has raised it.
                raise
            why = self._machine.obstacles or "the group is slow, or this replica waits for its state"
            raise TimeoutError(
                f"no result of {name} in {self._timeout} s: {why}; it may be applied all the same"
            ) from None

    async def read(self, function: Callable[[State], Result], *, linearizable: bool = False) -> Result:
        """What a function makes of the state of this replica, which it must not change. It may be a moment behind the
        others; with `linearizable` it contains every call, of whatever process, that had returned when this began.

        As in `call`: `GroupBlocked` when the group cannot go on, `TimeoutError` after the replica's `timeout`.
        """
        machine = self._machine
        try:
            async with asyncio.timeout(self._timeout):
                if linearizable:
                    await self._barriers.wait()
                while machine.arrival is not None:
                    await machine.calls.wait_for(machine.arrival, "the state was not read")
        except TimeoutError:
            why = machine.obstacles or "the group is slow, or this replica waits for its state"
            raise TimeoutError(f"the state was not read in {self._timeout} s: {why}") from None
        if machine.state is None:
            raise NodeClosed("the node is closed, or the group was left")
        return function(machine.state)

    async def changed(self) -> None:
        """Wait until the state has changed, or may have: another call was applied, or the state was replaced. Look at
        the state before, without waiting in between, and no change is missed. `NodeClosed` when there will be none."""
        await self._machine.wait_changed()

    # ------------------------------------------------------------------ questions
    async def ask(self, question: bytes, *, wait: Wait = "majority", timeout: float = 5.0) -> dict[SiteId, bytes]:
        """Ask the replicas, as `Group.ask` does; member -> its answer."""
        return await self._group.ask(question, wait=wait, timeout=timeout)

    def on_question(self, answer: Callable[[bytes], bytes]) -> None:
        """Answer questions to the group with a function, as `Group.on_question` does."""
        self._group.on_question(answer)

    # ------------------------------------------------------------------ inside
    async def _send_call(self, method: str, arguments: list[msgspec.Raw], named: dict[str, msgspec.Raw]) -> Any:
        machine = self._machine
        machine.calls.refuse_stalled(method)
        while machine.arrival is not None:
            # Sent before the state is here, a call may be applied by whoever gives it to us, and we never see its
            # result.
            await machine.calls.wait_for(machine.arrival, f"{method} {NOT_SENT}")
        if machine.refuses:
            raise GroupBlocked(f"{machine.refuses}; {method} {NOT_SENT}")
        return await machine.calls.send(method, arguments, named, self._schema.name)
