"""What protocol instances say to each other, and how many bytes it takes."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ordercast.core.identifiers import MessageId


class Packet(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Base of what travels between sites: each protocol has types of its own.

    `served` names the multicast messages that a packet works for; a type that works for none in particular (heartbeats,
    membership) says `background = True` and leaves `served` alone.
    """

    background: ClassVar[bool] = False

    def served(self) -> tuple[MessageId, ...]:
        """The multicast messages for which this packet is sent."""
        return ()


class Record(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Base of what protocols write to the stable log."""


_encoder = msgspec.msgpack.Encoder()
_scratch = bytearray(1 << 16)


def encode(value: object) -> bytes:
    """The bytes of a packet or record, as the wire and the log hold it."""
    return _encoder.encode(value)


def encoded_size(packet: Packet) -> int:
    """Bytes that the packet takes on the wire (headers of the datagram not counted)."""
    _encoder.encode_into(packet, _scratch)
    return len(_scratch)
