"""A group's deliveries as a running node still has them, for programs that read many of them.

`{"command": "read", "group": …, "from": N, "to": N | null}`: answered by one line `{"first": N, "end": N, "batches":
"…"}`: the oldest offset that the node still has, the offset of its next delivery, and of what was asked for as many
bundles as fit into a line. Whoever wants more asks again from where they end. `{"command": "used", "group": …,
"owner": …, "keys": […]}`: answered by `{"used": […]}`, for each key whether a message with it is known to have been
delivered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import msgspec

from ordercast.core import GroupId, MessageId
from ordercast.node.deliveries import Batch, Delivery
from ordercast.node.history import History
from ordercast.node.receiver import Receiver

ANSWER_BYTES = 4 << 20
"""Of bundles in one answer: some ten thousand messages, and a node that writes it is not away for long."""

Offset = Annotated[int, msgspec.Meta(ge=0)]


class ReadRequest(msgspec.Struct, tag_field="command", tag="read"):
    """Deliveries are wanted that there are already."""

    group: GroupId
    start: Offset = msgspec.field(name="from")
    stop: Offset | None = msgspec.field(default=None, name="to")


class UsedRequest(msgspec.Struct, tag_field="command", tag="used"):
    """Which keys were used is wanted."""

    group: GroupId
    owner: str
    keys: Annotated[list[str], msgspec.Meta(max_length=1024)]


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

    def deliveries(self) -> Iterator[Delivery]:
        """Its messages."""
        unpacked = [self.packed] if self.whole else None
        batch = Batch(self.bundle, self.groups, self.count, self.offset, self.packed, unpacked, 0, _nothing, Counter())
        batch.view, batch.places = self.view, self.places
        return batch.deliveries()


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


def find_used(receiver: Receiver, request: UsedRequest) -> list[bool]:
    """Of each key whether it was used, as far as this process knows."""
    return [receiver.letters.find(request.group, request.owner, key) is not None for key in request.keys]


def _nothing() -> None:
    """Nobody waits for the room that it takes."""
