"""Keys of sessions and the ciphers made of them."""

from __future__ import annotations

import hashlib
from typing import Protocol

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ordercast.core import UsageError
from ordercast.wire.datagram import SESSION_BYTES, VERSION

SALT_BYTES = 16
"""Random, drawn at every boot: whatever the log has lost, no key is ever used for a second run of counters."""

_CIPHER_KEY_BYTES = 32


class Cipher(Protocol):
    """What seals and opens."""

    def encrypt(self, nonce: bytes, data: bytes | bytearray | memoryview, associated_data: bytes, /) -> bytes:
        """Seal; the tag is at the end."""

    def encrypt_into(
        self, nonce: bytes, data: bytes | bytearray | memoryview, associated_data: bytes, buffer: memoryview, /
    ) -> int:
        """Seal into a buffer that is exactly as long as the result."""

    def decrypt(self, nonce: bytes, data: memoryview, associated_data: memoryview, /) -> bytes:
        """Open, or raise `InvalidTag`."""


class Unsealed:
    """Where the configuration says `insecure = true`: everything stays as it is, without a tag."""

    def encrypt(self, _nonce: bytes, data: bytes | bytearray | memoryview, _associated_data: bytes, /) -> bytes:
        return bytes(data)

    def encrypt_into(
        self, _nonce: bytes, data: bytes | bytearray | memoryview, _associated_data: bytes, buffer: memoryview, /
    ) -> int:
        buffer[:] = data
        return len(buffer)

    def decrypt(self, _nonce: bytes, data: memoryview, _associated_data: memoryview, /) -> bytes:
        # A copy, as decryption makes one: the socket's buffer is used again for the next datagram.
        return bytes(data)


class Disowned:
    """In a fork of the process to which a session belongs: both would seal with the same nonces, and whoever sees two
    datagrams with one nonce can read both and forge more."""

    def encrypt(self, _nonce: bytes, _data: bytes | bytearray | memoryview, _associated_data: bytes, /) -> bytes:
        raise UsageError(
            "this process is a fork of the one that opened the node, and cannot speak in its name; open nodes after "
            "the fork, each under a name of its own"
        )

    def encrypt_into(
        self, nonce: bytes, data: bytes | bytearray | memoryview, associated_data: bytes, _buffer: memoryview, /
    ) -> int:
        return len(self.encrypt(nonce, data, associated_data))

    def decrypt(self, nonce: bytes, data: memoryview, associated_data: memoryview, /) -> bytes:
        return self.encrypt(nonce, data, bytes(associated_data))


def session_name(salt: bytes, cluster: bytes, sender: bytes) -> bytes:
    """What the datagrams of one boot of one sender are marked with."""
    return hashlib.sha256(b"session" + salt + pack_names(cluster, sender)).digest()[:SESSION_BYTES]


def make_cipher(cluster_key: bytes | None, salt: bytes, cluster: bytes, sender: bytes, epoch: int) -> Cipher:
    """The cipher of what one boot of one sender says in one epoch. Each direction has its own."""
    if cluster_key is None:
        return Unsealed()
    info = bytes((VERSION,)) + pack_names(cluster, sender) + epoch.to_bytes(4, "big")
    return AESGCM(HKDF(SHA256(), _CIPHER_KEY_BYTES, salt, info).derive(cluster_key))


def pack_names(cluster: bytes, sender: bytes) -> bytes:
    """With their lengths: cluster "ab" and sender "c" are not cluster "a" and sender "bc"."""
    return b"".join((bytes((len(cluster),)), cluster, bytes((len(sender),)), sender))
