"""Runs of a program on this machine that sends again what it has heard nothing of, after a restart of its own too.

`{"command": "runs", "group": …, "client": …, "timeout": seconds}`, then `{"number": N, "count": N, "packed_base64":
"…"}` for each run (see `ordercast.node.runs`); each is answered by `{"number": N, "ordered": …, "why": …}`. A run that
is too long for a line comes in several, with `"more": true` in all but its last. `{"command": "last-run", "group": …,
"client": …}`: answered by `{"last": N}`, the highest number of the client's that is known to have been ordered, 0 where
there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
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

PIECE_BYTES_MAX = 1 << 19
"""Of a run in one line: it fits in base64, with its brackets."""

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


class RunPiece(msgspec.Struct):
    """A run or a part of one."""

    number: Annotated[int, msgspec.Meta(ge=1, le=RUN_NUMBER_MAX)]
    count: Annotated[int, msgspec.Meta(ge=1)]
    packed: bytes = msgspec.field(name="packed_base64")
    more: bool = False


class PackedRun(msgspec.Struct, frozen=True):
    """A run on its way to a node."""

    number: int
    count: int
    packed: bytes

    def lines(self) -> Iterator[bytes]:
        """What is sent of it."""
        for start in range(0, len(self.packed), PIECE_BYTES_MAX):
            end = start + PIECE_BYTES_MAX
            yield _encode([RunPiece(self.number, self.count, self.packed[start:end], end < len(self.packed))])


class RunPosting:
    """The runs of one command, in their order."""

    def __init__(self, node: Node, request: RunsRequest, answer: Callable[[dict[str, Any]], None]) -> None:
        """`answer` is called for each run when there is something to say of it."""
        self._node = node
        self._request = request
        self._answer = answer
        self._begun = bytearray()
        self._last = 0
        """The number of the run before. Whoever sends the first one has heard of all before it."""
        self._under_way: set[asyncio.Task[None]] = set()

    async def take(self, piece: RunPiece) -> None:
        """One more, or a part of it."""
        limit = max(self._node.configuration.payload_max, RUN_BYTES_MAX) + RUN_BYTES_MAX
        self._begun += piece.packed
        if len(self._begun) > limit:
            raise UsageError(f"run {piece.number} is larger than a message may be: raise payload_max at every process")
        if piece.more:
            return
        packed, self._begun = bytes(self._begun), bytearray()
        if piece.count > 1 and len(packed) > RUN_BYTES_MAX:
            raise UsageError(f"a run of several messages has {RUN_BYTES_MAX} bytes at the most")
        try:
            decode_messages(packed, piece.count)
        except WireError as error:
            raise UsageError(f"run {piece.number} is malformed: {error}") from None
        if len(self._under_way) >= UNDER_WAY_MAX:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
        receipt = await self._post(
            Run(self._request.client, piece.number, piece.count, memoryview(packed), after=self._last)
        )
        self._last = piece.number
        waiting = asyncio.create_task(self._wait(piece.number, receipt))
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
