"""Runs of a program on this machine that sends again what it has heard nothing of, after a restart of its own too.

`{"command": "runs", "group": …, "client": …, "timeout": seconds}`, then `{"number": N, "count": N, "packed_base64":
"…"}` for each run (see `ordercast.node.runs`); each is answered by `{"number": N, "ordered": …, "why": …}`. A run that
is too long for a line comes in several, with `"more": true` in all but its last. `{"command": "last-run", "group": …,
"client": …}`: answered by `{"last": N}`, the highest number of the client's that is known to have been ordered, 0 where
there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from ordercast.core import GroupId, OrdercastError, UsageError, WireError
from ordercast.node.receiver import Receiver
from ordercast.node.runs import CLIENT_CHARACTERS_MAX, RUN_NUMBER_MAX, Run, decode_messages
from ordercast.node.serving.packets import RUN_BYTES_MAX

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


class PackedRun(NamedTuple):
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
    """The runs of one command, one after the other.

    Each leaves when the one before has its place. (Else, under a protocol in which messages of a source may overtake
    each other: 1. runs 7 and 8 are under way. 2. What carries 7 is lost, 8 is ordered, and then 7. 3. To the group 7
    looks like one that is sent again.)
    """

    def __init__(self, node: Node, request: RunsRequest) -> None:
        self._node = node
        self._request = request
        self._begun = bytearray()

    async def take(self, piece: RunPiece) -> dict[str, Any] | None:
        """One more; what there is to say of the run when it is whole."""
        limit = max(self._node.configuration.payload_max, RUN_BYTES_MAX) + RUN_BYTES_MAX
        self._begun += piece.packed
        if len(self._begun) > limit:
            raise UsageError(f"run {piece.number} is larger than a message may be: raise payload_max at every process")
        if piece.more:
            return None
        packed, self._begun = bytes(self._begun), bytearray()
        if piece.count > 1 and len(packed) > RUN_BYTES_MAX:
            raise UsageError(f"a run of several messages has {RUN_BYTES_MAX} bytes at the most")
        answer = {"number": piece.number, "ordered": True, "why": None}
        try:
            decode_messages(packed, piece.count)
            await self._post(Run(self._request.client, piece.number, piece.count, memoryview(packed)))
        except WireError as error:
            raise UsageError(f"run {piece.number} is malformed: {error}") from None
        except (UsageError, asyncio.CancelledError):
            raise
        except TimeoutError:
            return answer | {"ordered": False, "why": self._why_not()}
        except OrdercastError as error:
            return answer | {"ordered": False, "why": str(error)}
        return answer

    async def _post(self, run: Run) -> None:
        internals, groups = self._node.internals, (self._request.group,)
        async with asyncio.timeout(self._request.timeout):
            address = internals.address(groups)
            sender = internals.sender
            receipt = internals.receipts.post_run(internals.receiver, sender, address, run)
            while receipt is None:
                await sender.wait_for_room()
                receipt = internals.receipts.post_run(internals.receiver, sender, address, run)
            await internals.receipts.wait(receipt, groups, "")

    def _why_not(self) -> str:
        why = self._node.internals.told_obstacles((self._request.group,))
        return why or f"the group has not ordered it in {self._request.timeout:g} s"


def find_last_run(receiver: Receiver, request: LastRunRequest) -> int:
    """The highest number of a client's, as far as this process knows."""
    return receiver.letters.last_number(request.group, request.client)
