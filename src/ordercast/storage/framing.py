"""How records lie in a log: length, checksum, bytes. A torn tail is recognised and cut off."""

from __future__ import annotations

import struct
from zlib import crc32

_HEADER = struct.Struct("<II")
RECORD_BYTES_MAX = 1 << 26
"""Longer than any record (a bundle is far below); a length above it is garbage and not an order to allocate it."""


def frame(record: bytes) -> bytes:
    """The bytes of one record in the log."""
    return _HEADER.pack(len(record), crc32(record)) + record


def scan(log: bytes) -> tuple[list[bytes], int]:
    """The records up to the first torn one, and how many bytes they take."""
    records: list[bytes] = []
    at = 0
    while at + _HEADER.size <= len(log):
        length, checksum = _HEADER.unpack_from(log, at)
        start = at + _HEADER.size
        record = log[start : start + length]
        if length > RECORD_BYTES_MAX or len(record) < length or crc32(record) != checksum:
            break
        records.append(record)
        at = start + length
    return records, at
