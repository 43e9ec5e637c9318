"""Application messages <-> the payloads that protocols order.

Protocols order *bundles*: many small messages to the same groups in one. A message that is larger than a bundle is cut
into consecutive pieces, which are ordered like anything else, and delivered where its last piece stands. (Cut below the
protocol, a message would die with any one of its pieces under loss.)
"""

from __future__ import annotations

import struct

import msgspec

from ordercast.core import MessageId, WireError

BUNDLE_BYTES_MAX = 64_000
"""What fits, with the protocol's own fields and the seal, into the largest datagram."""

MESSAGE_OVERHEAD = 5
"""Bytes that a message takes in a bundle besides its own, at most."""

PIECE_MARK = b"\xc1"
"""How a part of a large message begins: the one byte with which no msgpack value does."""
_PIECE = struct.Struct("!III")
PIECE_BYTES_MAX = BUNDLE_BYTES_MAX - len(PIECE_MARK) - _PIECE.size

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode

encode_bundle = _encode
"""A list of messages -> the payload of one multicast."""


def encode_pieces(number: int, payload: bytes) -> list[bytes]:
    """A large message -> the payloads of several multicasts. The number tells one large message of a source from
    another."""
    total = -(-len(payload) // PIECE_BYTES_MAX)
    return [
        PIECE_MARK
        + _PIECE.pack(number, index, total)
        + payload[index * PIECE_BYTES_MAX : (index + 1) * PIECE_BYTES_MAX]
        for index in range(total)
    ]


def decode_bundle(payload: bytes, count: int) -> list[bytes]:
    """The messages of a bundle; `WireError` when it is none."""
    try:
        messages = _decode(payload)
    except msgspec.DecodeError as error:
        raise WireError(f"not a bundle: {error}") from None
    if len(messages) != count:
        raise WireError(f"a bundle of {len(messages)} messages says that it holds {count}")
    return messages


class _Large:
    __slots__ = ("bytes", "number", "pieces", "total")

    def __init__(self, number: int, total: int) -> None:
        self.number = number
        self.total = total
        self.pieces: dict[int, bytes] = {}
        self.bytes = 0


class Assembly:
    """Puts large messages together again. Pieces of one source come in order, or not at all; one message of each source
    and incarnation is in the making at a time, and none becomes larger than `payload_max`."""

    def __init__(self, payload_max: int) -> None:
        self._payload_max = payload_max
        self._making: dict[tuple[str, tuple[str, ...]], _Large] = {}

    def add(self, message: MessageId, groups: tuple[str, ...], payload: bytes) -> bytes | None:
        """The whole message when this was its last piece; `WireError` for what is no piece."""
        if len(payload) < len(PIECE_MARK) + _PIECE.size:
            raise WireError("a piece without its head")
        number, index, total = _PIECE.unpack_from(payload, len(PIECE_MARK))
        if not 0 <= index < total or (total - 1) * PIECE_BYTES_MAX >= self._payload_max:
            raise WireError(f"piece {index} of {total}: more than payload_max ({self._payload_max} bytes), or none")
        key = (message.source, groups)
        large = self._making.get(key)
        if large is None or large.number != number or large.total != total:
            # A source that crashed in the middle never sends the rest: what there is of the old one goes.
            large = self._making[key] = _Large(number, total)
        piece = payload[len(PIECE_MARK) + _PIECE.size :]
        large.pieces[index] = piece
        if len(large.pieces) < total:
            return None
        del self._making[key]
        return b"".join(large.pieces[at] for at in range(total))
