"""Application messages <-> the payloads that protocols order.

Protocols order *bundles*: many small messages to the same groups in one. A message that is larger than a bundle is cut
into consecutive pieces, which are ordered like anything else, and delivered where its last piece stands. (Cut below the
protocol, a message would die with any one of its pieces under loss.)
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from ordercast.core import GroupId, MessageId, Payload, SiteId, UsageError, WireError
from ordercast.node.letters import LETTER_BYTES_MAX, LETTERS_MARK, decode_letters
from ordercast.node.runs import RUNS_MARK, decode_messages, decode_runs

BUNDLE_BYTES_MAX = 64_000
"""What fits, with the protocol's own fields and the seal, into the largest datagram."""

MESSAGE_OVERHEAD = 3
"""Bytes that a message takes in a bundle besides its own, at most: one with a longer head is too large for a bundle."""

MESSAGE_ROOM_MIN = 16
"""What a message counts for at the least, however short it is: applications take each for itself, and four thousand at
a time are enough. (With sixteen thousand of one byte in each bundle, what eight processes on two processors may have
under way keeps their applications busy for longer than anybody waits for room.)"""

LIST_OVERHEAD = 3
"""And what all of them together take besides."""

PIECE_MARK = b"\xc1"
"""How a part of a large message begins: the one byte with which no msgpack value does."""
LETTER_PIECE_MARK = b"\xc2"
"""The same, of a large message that is a letter or a run. (It begins as no list of messages does, either.)"""
ASKING_MARK = b"\xca"
"""How a question to a group begins, or an answer (`ordercast.node.asking`); neither counts as a message."""
MARKS = ASKING_MARK + LETTERS_MARK + RUNS_MARK + PIECE_MARK + LETTER_PIECE_MARK
"""How a payload begins that is not a list of messages."""
_KEYED_MARKS = LETTERS_MARK + RUNS_MARK
_PIECE = struct.Struct("!III")
PIECE_BYTES_MAX = BUNDLE_BYTES_MAX - len(PIECE_MARK) - _PIECE.size

MAKING_MAX = 16
"""Large messages of a source that are in the making at a time: a source has fewer bundles than that under way."""

PIECES_MAX = (1 << 32) // PIECE_BYTES_MAX + 1
"""Of the largest message that any configuration allows."""

encode_bundle = msgspec.msgpack.Encoder().encode
"""A list of messages -> the payload of one multicast."""


def encode_any(messages: Sequence[bytes]) -> bytes:
    """The same where some may hold their bytes in a way that the encoder does not know."""
    try:
        return encode_bundle(messages)
    except TypeError:
        return encode_bundle([as_bytes(payload) for payload in messages])


def as_bytes(payload: object) -> bytes:
    """A message, copied where it is handed over as something else than bytes; `TypeError` for what holds none. (A text
    would be ordered and logged like anything else, and no receiver could read it.)"""
    if type(payload) is bytes:
        return payload
    try:
        return bytes(memoryview(payload))  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"a message is bytes, not {type(payload).__name__}: encode it first") from None


def check_size(size: int, payload_max: int) -> None:
    """`UsageError` for a message that is larger than the configuration allows."""
    if size > payload_max:
        raise UsageError(
            f"a message of {size} bytes is larger than payload_max ({payload_max}): send it in parts, or raise "
            f"payload_max at every process"
        )


def room_for(payload: bytes) -> int:
    """What a message counts for in a bundle."""
    return max(len(payload) + MESSAGE_OVERHEAD, MESSAGE_ROOM_MIN)


def take_fitting(payloads: Sequence[bytes], start: int, room: int) -> tuple[Sequence[bytes], int]:
    """As many messages as would fit if all were like the next one, and the room that they take in truth."""
    try:
        fitting = payloads[start : start + max(1, room // room_for(payloads[start]))]
        # Quicker than to add the lengths up, and it refuses what is no bytes.
        size = len(b"".join(fitting)) + MESSAGE_OVERHEAD * len(fitting)
        return fitting, max(size, MESSAGE_ROOM_MIN * len(fitting))
    except TypeError:
        for payload in payloads[start:]:
            as_bytes(payload)
        raise


def encode_pieces(number: int, payload: bytes, mark: bytes = PIECE_MARK) -> list[bytes]:
    """A large message -> the payloads of several multicasts. The number tells one large message of a source from
    another."""
    total = -(-len(payload) // PIECE_BYTES_MAX)
    return [
        _join(number, index, total, payload[index * PIECE_BYTES_MAX : (index + 1) * PIECE_BYTES_MAX], mark)
        for index in range(total)
    ]


def _join(number: int, index: int, total: int, piece: Payload, mark: bytes = PIECE_MARK) -> bytes:
    return b"".join((mark, _PIECE.pack(number, index, total), piece))


def is_first_piece(payload: Payload) -> bool:
    """Whether a piece is the one with which a large message begins."""
    return len(payload) >= len(PIECE_MARK) + _PIECE.size and _PIECE.unpack_from(payload, len(PIECE_MARK))[1] == 0


def decode_bundle(payload: Payload, count: int) -> list[bytes]:
    """The messages of a bundle; `WireError` when it is none."""
    if payload and payload[0] in _KEYED_MARKS:
        if payload[:1] == LETTERS_MARK:
            return [letter.payload for letter in decode_letters(payload, count)]
        return [message for run in decode_runs(payload, count) for message in run.payloads]
    return decode_messages(payload, count)


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A piece of a large message of which others are missing, as a checkpoint keeps it."""

    source: SiteId
    incarnation: int
    groups: tuple[GroupId, ...]
    payload: bytes


class TooLarge(WireError):
    """A message is larger than this process takes; others may be configured otherwise."""


class _Making:
    """The large messages of one incarnation of one source to the same groups of which pieces are missing."""

    __slots__ = ("held_bytes", "incarnation", "pieces")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.held_bytes = 0
        self.pieces: dict[int, list[Payload | None]] = {}
        """The message's number -> its pieces, in order."""

    def forget(self, number: int) -> list[Payload]:
        """Of one message no more is kept; the pieces that there are, in order."""
        pieces = [piece for piece in self.pieces.pop(number) if piece is not None]
        self.held_bytes -= sum(map(len, pieces))
        return pieces


class Assembly:
    """Puts large messages together again, of which none becomes larger than `payload_max`.

    Under a protocol that keeps the order of a source one of its messages is in the making at a time. Others may deliver
    pieces of the next ones first: as many as `MAKING_MAX` are kept, and of a source no more bytes than two of the
    largest messages have.
    """

    def __init__(self, payload_max: int, counters: Counter[str]) -> None:
        self._payload_max = payload_max
        self._counters = counters
        self._making: dict[tuple[SiteId, tuple[GroupId, ...]], _Making] = {}

    def add(self, message: MessageId, groups: tuple[GroupId, ...], payload: Payload) -> bytes | None:
        """The whole message when this was its last piece; `WireError` for what is no piece, and then everybody finds
        that; `TooLarge` for a piece of a message that is too large here."""
        if len(payload) < len(PIECE_MARK) + _PIECE.size:
            raise WireError("a piece without its head")
        number, index, total = _PIECE.unpack_from(payload, len(PIECE_MARK))
        if not 0 <= index < total <= PIECES_MAX:
            raise WireError(f"piece {index} of {total}")
        if (total - 1) * PIECE_BYTES_MAX >= self._payload_max + LETTER_BYTES_MAX:
            raise TooLarge(f"piece {index} of {total}: more than payload_max ({self._payload_max} bytes)")
        making = self._making.get((message.source, groups))
        if making is None or making.incarnation < message.incarnation:
            # A source that crashed in the middle never sends the rest: what there is of the old one goes.
            making = self._making[message.source, groups] = _Making(message.incarnation)
        pieces = making.pieces.get(number)
        if pieces is None:
            if len(making.pieces) == MAKING_MAX:
                self._give_up_oldest(making)
            pieces = making.pieces[number] = [None] * total
        if len(pieces) != total:
            raise WireError(f"piece {index} of {total} of a message that has {len(pieces)}")
        if pieces[index] is None:
            making.held_bytes += len(payload) - len(PIECE_MARK) - _PIECE.size
            pieces[index] = payload[len(PIECE_MARK) + _PIECE.size :]
        if None not in pieces:
            return b"".join(making.forget(number))
        while making.held_bytes > 2 * self._payload_max and len(making.pieces) > 1:
            self._give_up_oldest(making)
        return None

    def give_up(self, message: MessageId, groups: tuple[GroupId, ...], payload: Payload) -> None:
        """The message of which this is a piece will not become whole any more."""
        making = self._making.get((message.source, groups))
        number = _PIECE.unpack_from(payload, len(PIECE_MARK))[0]
        if making is not None and number in making.pieces:
            self._give_up(making, number)

    def _give_up_oldest(self, making: _Making) -> None:
        self._give_up(making, next(iter(making.pieces)))

    def _give_up(self, making: _Making, number: int) -> None:
        making.forget(number)
        self._counters["large-incomplete"] += 1

    # ------------------------------------------------------------------ what a checkpoint keeps
    def pieces(self) -> list[Piece]:
        """All that there are."""
        return [
            Piece(source, making.incarnation, groups, _join(number, index, len(pieces), piece))
            for (source, groups), making in self._making.items()
            for number, pieces in making.pieces.items()
            for index, piece in enumerate(pieces)
            if piece is not None
        ]

    def restore(self, pieces: Iterable[Piece]) -> None:
        """Take those that an earlier start had."""
        for piece in pieces:
            self.add(MessageId(piece.source, piece.incarnation, 0), piece.groups, piece.payload)
