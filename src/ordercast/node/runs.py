"""What a client sends: runs of messages, numbered by the client, so that sending one again to any member is harmless.

A run is ordered as a whole. The members of a group remember the last number of each client, and not every message, so
what they have to remember does not grow with the rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from ordercast.core import Payload, WireError
from ordercast.node.letters import LETTER_OVERHEAD, LETTERS_MARK, Letter, decode_letters

RUNS_MARK = b"\xc3"
"""How a bundle of runs begins: the msgpack true, with which no list of messages does."""

CLIENT_CHARACTERS_MAX = 64
RUN_NUMBER_MAX = (1 << 62) - 1


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Messages of one client, consecutive in the order."""

    client: Annotated[str, msgspec.Meta(min_length=1, max_length=CLIENT_CHARACTERS_MAX)]
    number: Annotated[int, msgspec.Meta(ge=1, le=RUN_NUMBER_MAX)]
    """Of the runs of a client to a group, those are delivered whose number is higher than all before."""
    count: Annotated[int, msgspec.Meta(ge=1)]
    """How many messages it holds."""
    packed: memoryview
    """The messages as the client has encoded them: nobody on their way looks at each."""
    ticket: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Under this number somebody in the sending process waits for its place; 0: nobody."""
    after: Annotated[int, msgspec.Meta(ge=0, le=RUN_NUMBER_MAX)] = 0
    """The number of the run that has to stand before it; 0: of those that matter none is under way any more.

    (Else, under a protocol in which messages of a source may overtake each other: 1. a member sends the runs 7 and 8 of
    a client. 2. What carries 7 is lost, 8 is ordered, and then 7. 3. To the group 7 looks like one that was sent again,
    and nobody delivers it.)"""

    @property
    def size(self) -> int:
        """Bytes that it takes in a bundle, at most."""
        return len(self.packed) + 4 * len(self.client) + LETTER_OVERHEAD

    @property
    def is_keyed(self) -> bool:
        """Whether it may be one that was sent before."""
        return True

    @property
    def payloads(self) -> list[bytes]:
        """Its messages; `WireError` when it does not hold so many values. Where one of them is no message, because the
        client does not speak as it should, an empty message has its place."""
        try:
            return decode_messages(self.packed, self.count)
        except WireError:
            check_count(self.packed, self.count)
            return _decode_loosely(self.packed)

    @property
    def largest(self) -> int:
        """The bytes of its largest message."""
        return max(map(len, self.payloads))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Run]).decode
_decode_messages = msgspec.msgpack.Decoder(list[bytes]).decode
_decode_message = msgspec.msgpack.Decoder(bytes).decode
_decode_raw = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_skip = msgspec.msgpack.Decoder(msgspec.Raw).decode


def decode_messages(packed: Payload, count: int) -> list[bytes]:
    """So many messages; `WireError` when that is not what it holds."""
    try:
        messages = _decode_messages(packed)
    except msgspec.DecodeError as error:
        raise WireError(f"not a bundle: {error}") from None
    if len(messages) != count:
        raise WireError(f"a bundle of {len(messages)} messages says that it holds {count}")
    return messages


def check_count(packed: Payload, count: int) -> None:
    """`WireError` when it does not hold so many values, and nothing else. They are skipped and not made, which costs a
    fifth: what each of them is, only those ask who look at the messages."""
    try:
        _skip(packed)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise WireError(f"not a run: {error}") from None
    if _count_values(bytes(packed[:5])) != count:
        raise WireError(f"a run does not hold the {count} messages of which it speaks")


def _count_values(head: bytes) -> int:
    """How many values a msgpack array has; -1 for everything else."""
    if head[0] & 0xF0 == 0x90:
        return head[0] & 0x0F
    width = {0xDC: 2, 0xDD: 4}.get(head[0])
    return -1 if width is None else int.from_bytes(head[1 : 1 + width], "big")


def _decode_loosely(packed: Payload) -> list[bytes]:
    messages = []
    for value in _decode_raw(packed):
        try:
            messages.append(_decode_message(value))
        except msgspec.DecodeError:
            messages.append(b"")
    return messages


def encode_marked(those: Sequence[Letter | Run]) -> bytes:
    """Letters, or runs, and not both -> the payload of one multicast."""
    return (RUNS_MARK if isinstance(those[0], Run) else LETTERS_MARK) + _encode(those)


def decode_runs(payload: Payload, count: int) -> list[Run]:
    """The runs of a bundle; `WireError` when it is none."""
    try:
        runs = _decode(memoryview(payload)[len(RUNS_MARK) :])
    except msgspec.DecodeError as error:
        raise WireError(f"not a bundle of runs: {error}") from None
    held = sum(run.count for run in runs)
    if held != count:
        raise WireError(f"a bundle of runs holds {held} messages and says that it holds {count}")
    return runs


def decode_marked(payload: Payload, count: int) -> list[Letter] | list[Run]:
    """The letters or the runs of a bundle that begins as one; `WireError` when it is neither."""
    return decode_runs(payload, count) if payload[:1] == RUNS_MARK else decode_letters(payload, count)
