"""The calls that one process has made and whose results it waits for."""

from __future__ import annotations

import asyncio
from time import time
from typing import Any, TypeVar

import msgspec

from ordercast.node.errors import GroupBlocked, NodeClosed
from ordercast.node.group import Group
from ordercast.node.node import Node
from ordercast.node.replica_messages import Call, encode_message
from ordercast.node.replica_outcomes import Outcomes
from ordercast.node.waiting import wait_unless_blocked

Result = TypeVar("Result")

NOT_SENT = "was not sent, and can be called again later"


class Calls:
    """Sends calls to a group, and gives their callers what comes of them."""

    def __init__(self, node: Node, group: Group) -> None:
        self._node = node
        self._group = group
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self.outcomes = Outcomes()
        """What has come of the calls of clients."""
        self._stalled_at = -1
        """The group's offset when a call was given up because the group was blocked."""

    def __len__(self) -> int:
        return len(self._waiting)

    def refuse_stalled(self, method: str) -> None:
        """`GroupBlocked` while the group still is as it was when a call was given up. (Else whoever is refused and
        calls again and again would find all of it applied when the group goes on.)"""
        blocked = self._node.internals.told_obstacles(self._group.names)
        if blocked and self._stalled_at == self._group.offset:
            raise GroupBlocked(f"{blocked}; {method} {NOT_SENT}")

    async def send(self, method: str, arguments: list[msgspec.Raw], named: dict[str, msgspec.Raw], schema: str) -> Any:
        """Multicast a call; what it gives when it has its place in the order and is applied."""
        call = self.make(method, arguments, named, schema)
        number = call.number
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            await self._group.multicast(encode_message(call))
            return await self.wait_for(future, f"{method} may be applied all the same")
        finally:
            del self._waiting[number]
            if not future.cancel():
                # The node may have failed while this waited for room: then both know why, and one of them tells.
                future.exception()

    def make(
        self,
        method: str,
        arguments: list[msgspec.Raw],
        named: dict[str, msgspec.Raw],
        schema: str,
        client: str = "",
        client_number: int = 0,
    ) -> Call:
        """A call of this process, on its own behalf or a client's."""
        self._number += 1
        process, incarnation = self._node.process, self._node.incarnation
        return Call(process, incarnation, self._number, method, arguments, named, schema, time(), client, client_number)

    async def wait_for(self, future: asyncio.Future[Result], hint: str) -> Result:
        """Wait for something that the group has to deliver; `GroupBlocked` when the group is blocked meanwhile."""

        def note_stall() -> None:
            self._stalled_at = self._group.offset

        told = self._node.internals.told_obstacles
        return await wait_unless_blocked(future, lambda: told(self._group.names), hint, note_stall)

    def is_own(self, call: Call) -> bool:
        """Whether this very start of the process has made it."""
        return call.caller == self._node.process and call.incarnation == self._node.incarnation

    def find(self, call: Call) -> asyncio.Future[Any] | None:
        """Who waits for the result, if anybody here still does."""
        future = self._waiting.get(call.number) if self.is_own(call) else None
        return None if future is None or future.done() else future

    def give_up(self, why: str, call: Call | None = None) -> None:
        """Tell the callers of this process, or the one of this call."""
        if call is not None and not self.is_own(call):
            return
        for number, future in self._waiting.items():
            if not future.done() and (call is None or number == call.number):
                future.set_exception(GroupBlocked(why))

    def close(self, error: BaseException | None) -> None:
        """No result will come any more."""
        self.outcomes.close(error or NodeClosed("the node is closed; the call may be applied all the same"))
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error or NodeClosed("the node is closed; the call may be applied all the same"))
