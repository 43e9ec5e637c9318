"""Runs of a program on this machine that sends again what it has heard nothing of, after a restart of its own too.

`{"command": "runs", "group": …, "client": …, "timeout": seconds}`, then for each run (see `ordercast.node.runs`) a line
`{"number": N, "count": N, "size": bytes}`, and behind it the run itself, packed; each is answered by `{"number": N,
"ordered": …, "why": …}`. `{"command": "last-run", "group": …, "client": …}`: answered by `{"last": N}`, the highest
number of the client's that is known to have been ordered, 0 where there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ordercast.core import GroupId, OrdercastError, UsageError, WireError
from ordercast.node.receipts import Receipt
from ordercast.node.receiver import Receiver
from ordercast.node.runs import CLIENT_CHARACTERS_MAX, RUN_NUMBER_MAX, Run, decode_messages
from ordercast.node.serving.packets import RUN_BYTES_MAX, UNDER_WAY_MAX
from ordercast.node.waiting import within

if TYPE_CHECKING:
    from ordercast.node.node import Node

_encode = msgspec.json.Encoder().encode_lines
_Client = Annotated[str, msgspec.Meta(min_length=1, max_length=CLIENT_CHARACTERS_MAX)]


class RunsRequest(msgspec.Struct, tag_field="command", tag="runs"):
    """Runs follow."""

    group: GroupId
    client: _Client
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 5.0
    """Until the answer says of a run that it is not ordered yet."""


class LastRunRequest(msgspec.Struct, tag_field="command", tag="last-run"):
    """How far a client has come is wanted."""

    group: GroupId
    client: _Client


class RunHead(msgspec.Struct):
    """A run follows."""

    number: Annotated[int, msgspec.Meta(ge=1, le=RUN_NUMBER_MAX)]
    count: Annotated[int, msgspec.Meta(ge=1)]
    size: Annotated[int, msgspec.Meta(ge=1)]


class PackedRun(msgspec.Struct, frozen=True):
    """A run on its way to a node."""

    number: int
    count: int
    packed: bytes

    def encode(self) -> bytes:
        """What is sent of it."""
        return _encode([RunHead(self.number, self.count, len(self.packed))]) + self.packed


class RunPosting:
    """The runs of one command, in their order."""

    def __init__(self, node: Node, request: RunsRequest, answer: Callable[[dict[str, Any]], None]) -> None:
        """`answer` is called for each run when there is something to say of it."""
        self._node = node
        self._request = request
        self._answer = answer
        self._last = 0
        """The number of the run before. Whoever sends the first one has heard of all before it."""
        self._under_way: set[asyncio.Task[None]] = set()

    def check(self, head: RunHead) -> None:
        """`UsageError` for a run that is larger than it may be."""
        if head.count > 1 and head.size > RUN_BYTES_MAX:
            raise UsageError(f"a run of several messages has {RUN_BYTES_MAX} bytes at the most")
        if head.size > self._node.configuration.payload_max + RUN_BYTES_MAX:
            raise UsageError(
                f"a message of {head.size} bytes is larger than payload_max ({self._node.configuration.payload_max}): "
                f"send it in parts, or raise payload_max at every process"
            )

    async def take(self, head: RunHead, packed: bytes) -> None:
        """One more."""
        try:
            decode_messages(packed, head.count)
        except WireError as error:
            raise UsageError(f"run {head.number} is malformed: {error}") from None
        if len(self._under_way) >= UNDER_WAY_MAX:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
        receipt = await self._post(
            Run(self._request.client, head.number, head.count, memoryview(packed), after=self._last)
        )
        self._last = head.number
        waiting = asyncio.create_task(self._wait(head.number, receipt))
        self._under_way.add(waiting)
        waiting.add_done_callback(self._under_way.discard)

    async def _post(self, run: Run) -> asyncio.Future[Receipt]:
        internals = self._node.internals
        async with within(self._request.timeout, self._why_not):
            while True:
                address = internals.address((self._request.group,))
                receipt = internals.receipts.post_run(internals.receiver, internals.sender, address, run)
                if receipt is not None:
                    return receipt
                await internals.sender.wait_for_room()

    async def _wait(self, number: int, receipt: asyncio.Future[Receipt]) -> None:
        why = None
        try:
            async with within(self._request.timeout, self._why_not):
                await self._node.internals.receipts.wait(receipt, (self._request.group,), "")
        except (UsageError, OrdercastError, TimeoutError) as error:
            why = str(error)
        self._answer({"number": number, "ordered": why is None, "why": why})

    def _why_not(self) -> str:
        return self._node.internals.told_obstacles((self._request.group,)) or "the group has not ordered it"

    def stop(self) -> None:
        """Nobody hears of the others any more."""
        for waiting in tuple(self._under_way):
            waiting.cancel()


def find_last_run(receiver: Receiver, request: LastRunRequest) -> int:
    """The highest number of a client's, as far as this process knows."""
    return receiver.letters.last_number(request.group, request.client)
