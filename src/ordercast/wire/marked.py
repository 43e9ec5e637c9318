"""Handshakes and announcements as datagrams: header, salt, name, what is sealed, and the mark for the door."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from cryptography.exceptions import InvalidTag

from ordercast.core import SiteId
from ordercast.wire.datagram import EPOCH_BITS, EPOCH_MAX, HANDSHAKE_BYTES, HEADER, NONCE, Dropped
from ordercast.wire.door import LENGTH_BYTES, Door, pad, unpad
from ordercast.wire.greeting import sender_of
from ordercast.wire.keys import ClusterKeys
from ordercast.wire.sealing import SALT_BYTES
from ordercast.wire.session import BootKeys, OwnSession

Content = TypeVar("Content")


class Marked:
    """Seals and opens what a process says to those who may not know its session yet."""

    def __init__(self, cluster: str, process: SiteId, keys: ClusterKeys | None, own: OwnSession, door: Door) -> None:
        name = process.encode()
        self._cluster = cluster
        self._keys = keys
        self._own = own
        self._door = door
        self._in_the_clear = own.keys.salt + bytes((len(name),)) + name
        self._room = HANDSHAKE_BYTES - HEADER.size - len(self._in_the_clear) - own.tag_bytes - door.mark_bytes
        self.room = self._room - LENGTH_BYTES
        """For how many bytes of content there is room."""

    def use(self, keys: ClusterKeys) -> None:
        """Open with these keys."""
        self._keys = keys

    def make(self, kind: int, to: SiteId, content: bytes) -> bytes:
        """The datagram."""
        own = self._own
        return self._door.mark(to, bytes(own.seal(own.what(kind), self._in_the_clear, pad(content, self._room))))

    def open(
        self, name: bytes, counter: int, datagram: memoryview, decoder: msgspec.msgpack.Decoder[Content]
    ) -> tuple[SiteId, BootKeys, Content]:
        """The sender, the keys of its boot, and what it says; `Dropped` when it is not genuine or not understood."""
        sender, header_bytes = sender_of(datagram)
        if datagram[header_bytes - len(sender.encode()) : header_bytes] != sender.encode():
            raise Dropped("unknown-process")  # a name that is no text
        salt = bytes(datagram[HEADER.size : HEADER.size + SALT_BYTES])
        sealed_until = len(datagram) - self._door.mark_bytes
        epoch = counter >> EPOCH_BITS
        accepted: tuple[bytes | None, ...] = (None,) if self._keys is None else self._keys.accepted
        for cluster_key in accepted:
            keys = BootKeys(cluster_key, self._cluster, sender, salt)
            if keys.name != name or epoch > EPOCH_MAX:
                raise Dropped("forged")
            try:
                plaintext = keys.cipher(epoch).decrypt(
                    NONCE.pack(epoch, counter), datagram[header_bytes:sealed_until], datagram[:header_bytes]
                )
                return sender, keys, decoder.decode(unpad(plaintext))
            except InvalidTag:
                continue
            except (msgspec.MsgspecError, UnicodeDecodeError):
                raise Dropped("garbage") from None
        raise Dropped("forged")
