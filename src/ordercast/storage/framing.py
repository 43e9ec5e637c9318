"""How records lie in a log: length, checksum, bytes. A torn tail is recognised and cut off."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BytesIO
from typing import BinaryIO
from zlib import crc32

_HEADER = struct.Struct("<II")
HEADER_BYTES = _HEADER.size
_SEED = 0x6F726463
"""Where checksums begin. From 0, eight zeros, of which a crash can leave a tail, would be a whole record."""
RECORD_BYTES_MAX = 1 << 26
"""Longer than any record (a bundle is far below); a length above it is garbage and not an order to allocate it."""


def frame(record: bytes) -> bytes:
    """The bytes of one record in the log."""
    return _HEADER.pack(len(record), crc32(record, _SEED)) + record


def frame_into(buffer: bytearray, at: int, record: bytearray) -> None:
    """Put the bytes of one record into a buffer that has room for them."""
    _HEADER.pack_into(buffer, at, len(record), crc32(record, _SEED))
    start = at + HEADER_BYTES
    buffer[start : start + len(record)] = record


def read_frames(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The records up to the first torn one, one at a time, each with the offset in the file at which its frame ends."""
    at = file.tell()
    while len(header := file.read(HEADER_BYTES)) == HEADER_BYTES:
        length, checksum = _HEADER.unpack(header)
        if length > RECORD_BYTES_MAX:
            return
        record = file.read(length)
        if len(record) < length or crc32(record, _SEED) != checksum:
            return
        at += HEADER_BYTES + length
        yield at, record


def scan(log: bytes) -> tuple[list[bytes], int]:
    """The records up to the first torn one, and how many bytes they take."""
    records: list[bytes] = []
    end = 0
    for after, record in read_frames(BytesIO(log)):
        records.append(record)
        end = after
    return records, end
