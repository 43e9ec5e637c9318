"""What hosts say to each other, and what they write to the log."""

from __future__ import annotations

import msgspec

from ordercast.core import GroupId, MessageId, Multicast, Packet, Record, SiteId
from ordercast.protocols.broadcast_tree.info import Numbers


class StreamId(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False, cache_hash=True):
    """One broadcast: what one source sends to one address. Each has a host parent graph of its own."""

    source: SiteId
    epoch: int
    """0; for a source without a stable log its incarnation, because it begins to count anew after a crash."""
    groups: tuple[GroupId, ...]
    """The address, sorted."""


class Data(Packet, frozen=True):
    """Broadcast message number `number` of its stream: to children as it comes, to whoever has a gap there later."""

    epoch: int
    number: int
    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Item(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """One control message. Those that leave for one host at about the same time share a packet (section 5)."""


class Info(Item, frozen=True):
    """My INFO set, and my parent."""

    stream: StreamId
    numbers: Numbers
    taken: int
    """All messages up to this one are stable here, and the application has taken them."""
    floor: int
    """All messages up to this one every host has taken: nobody keeps them any longer."""
    parent: SiteId | None


class Pointer(Item, frozen=True):
    """My parent."""

    stream: StreamId
    parent: SiteId | None


class Declare(Item, frozen=True):
    """Be my parent; this is my INFO set. Asks for `Adopt`."""

    stream: StreamId
    numbers: Numbers


class Adopt(Item, frozen=True):
    """You are my child."""

    stream: StreamId


class Detach(Item, frozen=True):
    """You are not, or no longer, my parent."""

    stream: StreamId


class Hello(Item, frozen=True):
    """I have just started: tell me at once what you have."""


class Control(Packet, frozen=True):
    """Control messages, piggybacked."""

    background = True
    stamp: int
    """Grows with each control packet of the sender, across its crashes: what was overtaken is recognised by it."""
    items: tuple[Info | Pointer | Declare | Adopt | Detach | Hello, ...]
    sent_at: float = 0.0
    """The sender's clock; 0 where nobody measures transit times."""
    echo_at: float = 0.0
    """`sent_at` of the last packet that came from the receiver; 0: none."""
    held_seconds: float = 0.0
    """How long ago that came. A round trip is measured by one clock: now - echo_at - held_seconds."""


class Stored(Record, frozen=True):
    """A message that this host has; it is delivered here, too, if this is a destination."""

    stream: StreamId
    number: int
    multicast: Multicast


class StreamState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stream in a checkpoint."""

    stream: StreamId
    numbers: Numbers
    floor: int
    delivered: int
    """With order = "source": the last number delivered."""
    kept: tuple[tuple[int, Multicast], ...]


class State(Record, frozen=True):
    """A checkpoint."""

    streams: tuple[StreamState, ...]
