"""What sites say to each other about the network itself: who is there, who listens where, and whether IP multicast
works."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ordercast.core import InstanceId, Packet, SiteId
from ordercast.wire.casts import CHANNELS_MAX, TAG_BYTES
from ordercast.wire.whereabouts import HOST_BYTES_MAX

NET_INSTANCE: InstanceId = "net"
"""Under this name sites talk about the network itself."""

KNOWN_MAX = 64
"""Processes of which one packet tells."""

Tag = Annotated[bytes, msgspec.Meta(min_length=TAG_BYTES, max_length=TAG_BYTES)]
"""What a channel is called on the network."""

_Host = Annotated[str, msgspec.Meta(max_length=HOST_BYTES_MAX)]
_Port = Annotated[int, msgspec.Meta(ge=1, lt=1 << 16)]


class Probe(Packet, frozen=True):
    """Sent by IP multicast: who hears this?"""

    background = True
    number: int


class Heard(Packet, frozen=True):
    """The answer, by unicast, from whoever heard a probe by IP multicast."""

    background = True
    number: int
    channel: Tag | None = None
    """On which it was heard; None when it was meant for all processes."""


class Known(Packet, frozen=True):
    """Some processes that the sender knows, and where they are."""

    background = True
    processes: Annotated[tuple[tuple[SiteId, _Host, _Port], ...], msgspec.Meta(max_length=KNOWN_MAX)]


class Listening(Packet, frozen=True):
    """The channels to which the sender listens, all of them."""

    background = True
    channels: Annotated[tuple[Tag, ...], msgspec.Meta(max_length=CHANNELS_MAX)]


class Goodbye(Packet, frozen=True):
    """The sender has ended, as it was meant to."""

    background = True


NET_PACKETS: tuple[type[Packet], ...] = (Probe, Heard, Known, Listening, Goodbye)
