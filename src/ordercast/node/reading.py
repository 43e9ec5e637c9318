"""A group's deliveries as a running node still has them, for programs that read many of them.

`{"command": "read", "group": …, "from": N, "to": N | null}`: answered by one line `{"first": N, "end": N, "batches":
"…"}`: the oldest offset that the node still has, the offset of its next delivery, and of what was asked for as many
bundles as fit into a line. Whoever wants more asks again from where they end.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec

from ordercast.core import GroupId, MessageId
from ordercast.node.deliveries import Batch
from ordercast.node.history import History

ANSWER_BYTES = 4 << 20
"""Of bundles in one answer: some ten thousand messages, and a node that writes it is not away for long."""

Offset = Annotated[int, msgspec.Meta(ge=0)]


class ReadRequest(msgspec.Struct, tag_field="command", tag="read"):
    """Deliveries are wanted that there are already."""

    group: GroupId
    start: Offset = msgspec.field(name="from")
    stop: Offset | None = msgspec.field(default=None, name="to")


class HeldBatch(msgspec.Struct, frozen=True, array_like=True):
    """A bundle that was delivered."""

    bundle: MessageId
    groups: tuple[GroupId, ...]
    count: int
    offset: int
    packed: bytes
    whole: bool
    """Whether it is one large message."""
    view: str
    places: tuple[int, ...] | None
    """Which of its messages there are; None: all."""
    time: float
    """When the node delivered it, in seconds since 1970."""

    def messages(self) -> list[bytes]:
        """Those that there are; none where it cannot be decoded."""
        unpacked = [self.packed] if self.whole else None
        batch = Batch(self.bundle, self.groups, self.count, self.offset, self.packed, unpacked, 0, _nothing, Counter())
        batch.places = self.places
        return batch.payloads


class Stretch(msgspec.Struct, frozen=True):
    """What a node answers."""

    first: int
    end: int
    batches: bytes

    def held(self) -> list[HeldBatch]:
        """The bundles; the first and the last may have messages that were not asked for."""
        return msgspec.msgpack.decode(self.batches, type=list[HeldBatch])


def read_stretch(history: History, start: int, stop: int | None) -> Stretch:
    """Of what there is in the history of a group."""
    held: list[HeldBatch] = []
    size = 0
    for batch, time in history.since(start):
        if size > ANSWER_BYTES or (stop is not None and batch.offset >= stop):
            break
        size += len(batch.packed)
        packed = bytes(batch.packed)
        held.append(
            HeldBatch(
                batch.bundle,
                batch.groups,
                batch.count,
                batch.offset,
                packed,
                batch.is_whole,
                batch.view,
                batch.places,
                time,
            )
        )
    return Stretch(history.first_offset, history.next_offset, msgspec.msgpack.encode(held))


def _nothing() -> None:
    """Nobody waits for the room that it takes."""
