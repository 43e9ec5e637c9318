"""Frames: one packet with the name of its instance, as bytes and back."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Union

import msgspec

from ordercast.core import MAIN_INSTANCE, InstanceId, OrdercastError, Packet, SiteId, UsageError, WireError

_LENGTH = struct.Struct(">I")
_FRAME = struct.Struct(">IB")
"""How many bytes follow this number; how many of them are the instance's name."""

_LENGTH_BYTES, _FRAME_BYTES = _LENGTH.size, _FRAME.size
_pack_length, _unpack_frame = _LENGTH.pack_into, _FRAME.unpack_from

NAME_BYTES_MAX = 255
"""Names are counted with one byte."""

Decode = Callable[[memoryview], Packet]


class Codec:
    """Bytes <-> packets of the instances that run here."""

    def __init__(self, instances: Mapping[InstanceId, tuple[type[Packet], ...]]) -> None:
        self._encode_into = msgspec.msgpack.Encoder().encode_into
        self._prefixes: dict[InstanceId, bytes] = {}
        self._decoders: dict[bytes, tuple[InstanceId, Decode]] = {}
        for instance, types in instances.items():
            if not types:
                raise UsageError(f"the instance {instance!r} has no packets")
            name = b"" if instance == MAIN_INSTANCE else instance.encode()
            if len(name) > NAME_BYTES_MAX or (not name and instance != MAIN_INSTANCE):
                raise UsageError(f"an instance has a name of 1 to {NAME_BYTES_MAX} bytes, not {instance!r}")
            decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Union[types])  # noqa: UP007
            self._prefixes[instance] = _FRAME.pack(0, len(name)) + name
            self._decoders[name] = (instance, decoder.decode)

    def encode_into(self, instance: InstanceId, packet: Packet, buffer: bytearray, offset: int) -> int:
        """Write one frame at `offset`, where the buffer's contents end or earlier; it ends where the frame ends."""
        prefix = self._prefixes[instance]
        start = offset + len(prefix)
        buffer[offset:start] = prefix
        self._encode_into(packet, buffer, start)
        end = len(buffer)
        _pack_length(buffer, offset, end - offset - _LENGTH_BYTES)
        return end

    def decode(self, plaintext: bytes | memoryview) -> list[tuple[InstanceId, Packet]]:
        """All frames of a datagram; `WireError` for anything else."""
        return [(instance, packet) for _, instance, packet in self.decode_from("", plaintext)]

    def decode_from(
        self, sender: SiteId, plaintext: bytes | memoryview, at: int = 0
    ) -> list[tuple[SiteId, InstanceId, Packet]]:
        """All frames of a datagram from a place on, each with its sender; `WireError` for anything else."""
        view = memoryview(plaintext)
        size = len(view)
        frames = []
        try:
            while at < size:
                length, name_bytes = _unpack_frame(view, at)
                start = at + _FRAME_BYTES + name_bytes
                at += _LENGTH_BYTES + length
                if at > size:
                    raise WireError("a frame is longer than its datagram")
                instance, decode = self._decoders[bytes(view[start - name_bytes : start]) if name_bytes else b""]
                frames.append((sender, instance, decode(view[start:at])))
        except KeyError:
            raise WireError("a frame is for an instance that is not here") from None
        # Besides its own errors, msgspec raises UnicodeDecodeError (a ValueError) and RecursionError; a packet may
        # check its fields and raise ours.
        except (struct.error, msgspec.MsgspecError, ValueError, RecursionError, OrdercastError) as error:
            raise WireError(f"a frame is garbage: {error}") from None
        if not frames:
            raise WireError("a datagram without frames")
        return frames
