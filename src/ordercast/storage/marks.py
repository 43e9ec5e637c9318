"""What the log writes for itself between the records.

A mark is a frame like any other. It begins with the one byte that no MessagePack value begins with, so that no record
can be taken for one.
"""

from __future__ import annotations

import struct

import msgspec

_PREFIX = b"\xc1ordercast"
_COMMIT = struct.Struct("<10sBQQ")
_TRUNCATION = struct.Struct("<10sBQ")
_COMMIT_KIND = 1
_TRUNCATION_KIND = 2
_MEMORY_KIND = 3

COMMIT_PREFIX = _PREFIX + bytes([_COMMIT_KIND])
"""How every commit mark begins: what to look for in bytes that are no frames any more."""
COMMIT_BYTES = _COMMIT.size

_MEMORY_PREFIX = _PREFIX + bytes([_MEMORY_KIND])


class CommitMark(msgspec.Struct, frozen=True):
    """Stands first in each commit, and so first in each segment.

    A commit begins when the one before is stable: everything before the mark was stable when it was written. Damage
    before a mark is therefore no torn tail but a broken disk.
    """

    offset: int
    """Of this mark in its file: a copy of a log inside a record is not taken for the log."""
    position: int
    """Of the record that follows."""

    def encode(self) -> bytes:
        """As it stands in the log, not yet framed."""
        return _COMMIT.pack(_PREFIX, _COMMIT_KIND, self.offset, self.position)


class TruncationMark(msgspec.Struct, frozen=True):
    """The records before a position are forgotten. Nothing writes it any more; a log that has it is read."""

    before: int

    def encode(self) -> bytes:
        """As it stands in the log, not yet framed."""
        return _TRUNCATION.pack(_PREFIX, _TRUNCATION_KIND, self.before)


class MemoryMark(msgspec.Struct, frozen=True):
    """What was heard of other processes before the records that follow (see `ordercast.core.memory`)."""

    content: bytes

    def encode(self) -> bytes:
        """As it stands in the log, not yet framed."""
        return _MEMORY_PREFIX + self.content


def read_mark(body: bytes) -> CommitMark | TruncationMark | MemoryMark | None:
    """The mark that a frame holds; None for a record, `ValueError` for a mark of a later version."""
    if body[:1] != _PREFIX[:1]:
        return None
    if body.startswith(COMMIT_PREFIX) and len(body) == _COMMIT.size:
        _, _, offset, position = _COMMIT.unpack(body)
        return CommitMark(offset, position)
    if len(body) == _TRUNCATION.size and body.startswith(_PREFIX + bytes([_TRUNCATION_KIND])):
        return TruncationMark(_TRUNCATION.unpack(body)[2])
    if body.startswith(_MEMORY_PREFIX):
        return MemoryMark(body[len(_MEMORY_PREFIX) :])
    raise ValueError("a mark that this version does not know")
