"""A stream between a client and a member, sealed with the cluster's key; no sockets.

Both sides greet with random bytes in the clear. What follows is records, each with its length before it, sealed under a
key that is made of the cluster's key and of both greetings: nothing that was recorded can be played again, and whoever
does not hold the key cannot say a word. docs/wire.md has it byte by byte.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress

from cryptography.exceptions import InvalidTag

from ordercast.core import WireError
from ordercast.wire.keys import ClusterKeys
from ordercast.wire.sealing import SALT_BYTES, Cipher, make_cipher

STREAM_VERSION = 1
MAGIC = b"ordercast"

_SEALED, _PLAIN = 1, 0
GREETING_BYTES = len(MAGIC) + 2 + SALT_BYTES

_LENGTH = struct.Struct(">I")
_NONCE_BYTES = 12
TAG_BYTES = 16

FIRST_RECORD_BYTES_MAX = 1024
"""Of the first record of a client, which is all that somebody without the key can make a member hold."""

_CLIENT, _MEMBER = b"client", b"member"


class WrongKey(WireError):
    """The other side has another key."""


class Stream:
    """One side of a stream: bytes from the socket in, records out, and the other way round."""

    def __init__(self, keys: ClusterKeys | None, is_member: bool, record_bytes_max: int) -> None:
        """Without keys nothing is sealed. A member takes every key that it accepts, and goes on with the client's."""
        self._keys = keys
        self._is_member = is_member
        self._record_bytes_max = record_bytes_max
        self._salt = os.urandom(SALT_BYTES)
        self._buffer = bytearray()
        self._out: Cipher | None = None
        self._in: Cipher | None = None
        self._both = b""
        self._sent = 0
        self._received = 0

    @property
    def is_greeted(self) -> bool:
        """Whether the other side has greeted."""
        return bool(self._both)

    @property
    def is_open(self) -> bool:
        """Whether the other side has proved that it holds the key; a client hears from the member first."""
        return self._received > 0

    @property
    def held_bytes(self) -> int:
        """What has come of a record that is not whole."""
        return len(self._buffer)

    def greeting(self) -> bytes:
        """What is sent first."""
        return MAGIC + bytes((STREAM_VERSION, _PLAIN if self._keys is None else _SEALED)) + self._salt

    # ------------------------------------------------------------------ out
    def seal(self, record: bytes) -> bytes:
        """A record as it is sent. A client speaks first, when it has the other's greeting."""
        length = _LENGTH.pack(len(record) + (0 if self._keys is None else TAG_BYTES))
        sealed = _known(self._out).encrypt(self._sent.to_bytes(_NONCE_BYTES, "big"), record, length)
        self._sent += 1
        return length + sealed

    @staticmethod
    def refusal() -> bytes:
        """What a member says to a client whose key is another one: an empty record, which nothing else is."""
        return _LENGTH.pack(0)

    # ------------------------------------------------------------------ in
    def receive(self, data: bytes | memoryview) -> list[bytes]:
        """The records that are whole now, none of which needs the data any more. `WireError` when the other side does
        not speak like this, and `WrongKey` when its key is another one; nothing may be received after that."""
        buffer = self._buffer
        if not self._both:
            buffer += data
            if not self._greet():
                return []
            data = bytes(buffer)
            buffer.clear()
        if not buffer:
            # As a rule: whole records are opened where they lie.
            records, at = self._open_all(memoryview(data))
            buffer += memoryview(data)[at:]
            return records
        buffer += data
        with memoryview(buffer) as view:  # a buffer of which there are views cannot be cut short
            records, at = self._open_all(view)
        del buffer[:at]
        return records

    def _open_all(self, view: memoryview) -> tuple[list[bytes], int]:
        """The records that are whole, and where the rest begins."""
        records, at = [], 0
        while len(view) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(view, at)
            self._check_length(length)
            begin = at + _LENGTH.size
            end = begin + length
            if len(view) < end:
                break
            with view[begin:end] as sealed, view[at:begin] as head:
                records.append(self._open(sealed, head))
            at = end
        return records, at

    def _greet(self) -> bool:
        buffer = self._buffer
        if not buffer.startswith(MAGIC[: len(buffer)]):
            raise WireError("it does not speak this protocol")
        if len(buffer) < GREETING_BYTES:
            return False
        version, sealing = buffer[len(MAGIC)], buffer[len(MAGIC) + 1]
        if version != STREAM_VERSION:
            raise WireError(f"it speaks version {version}, and this is version {STREAM_VERSION}")
        if sealing != (_PLAIN if self._keys is None else _SEALED):
            raise WrongKey("it seals nothing" if sealing == _PLAIN else "it seals everything")
        other = bytes(buffer[GREETING_BYTES - SALT_BYTES : GREETING_BYTES])
        del buffer[:GREETING_BYTES]
        self._both = other + self._salt if self._is_member else self._salt + other
        if not self._is_member:
            self._use(None if self._keys is None else self._keys.used)
        return True

    def _use(self, key: bytes | None) -> None:
        ciphers = [make_cipher(key, self._both, b"", name, STREAM_VERSION) for name in (_CLIENT, _MEMBER)]
        self._in, self._out = ciphers if self._is_member else reversed(ciphers)

    def _check_length(self, length: int) -> None:
        if length == 0:
            raise WrongKey("it has another key")
        most = FIRST_RECORD_BYTES_MAX if self._is_member and not self._received else self._record_bytes_max
        if length > most:
            raise WireError(f"a record of {length} bytes; the most is {most}")

    def _open(self, sealed: memoryview, length: memoryview) -> bytes:
        if self._is_member and self._in is None:
            return self._open_first(sealed, length)
        nonce = self._received.to_bytes(_NONCE_BYTES, "big")
        try:
            opened = _known(self._in).decrypt(nonce, sealed, length)
        except InvalidTag:
            raise WireError("a record that does not open") from None
        self._received += 1
        return opened

    def _open_first(self, sealed: memoryview, length: memoryview) -> bytes:
        """By its first record a member learns which of its keys the client has."""
        for key in (None,) if self._keys is None else self._keys.accepted:
            self._use(key)
            with suppress(InvalidTag):
                opened = _known(self._in).decrypt(bytes(_NONCE_BYTES), sealed, length)
                self._received = 1
                return opened
        raise WrongKey("it has another key")


def _known(cipher: Cipher | None) -> Cipher:
    if cipher is None:
        raise WireError("nothing can be said before the other side has greeted")
    return cipher
