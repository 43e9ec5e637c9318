"""How a datagram begins, what kinds there are, and why one is dropped. docs/wire.md has it byte by byte."""

from __future__ import annotations

import struct

VERSION = 4

HELLO = 1
CHALLENGE = 2
RESPONSE = 3
REFUSAL = 4
DATA = 5
FRAGMENT = 6
REPAIR = 7
CAST = 8
"""Names a channel instead of destinations: for whoever listens."""
CAST_FRAGMENT = 9
ANNOUNCEMENT = 10
KIND_MAX = ANNOUNCEMENT

PLAINTEXT = 0x80
"""Set in the kind when nothing is sealed. A process that seals drops these, and the other way round."""

SESSION_BYTES = 8

HEADER = struct.Struct(">H8sQ")
"""Version and kind (one byte each), the sender's session, its counter. Destinations follow where a session exists."""

FRAGMENT_FIELDS = struct.Struct(">QHH")
"""The frame's number, which fragment this is, how many there are."""

CHANNEL = struct.Struct(">8sB")
"""What a channel is called here, and the TTL with which the datagram left: in the place of destinations."""

POSITION = struct.Struct(">Q")
"""The sender's log is stable up to there: stands before the frames of a datagram, and before one that is cut up."""

NONCE = struct.Struct(">IQ")
"""The epoch of the key, the counter."""

TAG_BYTES = 16

EPOCH_BITS = 24
"""A key seals 2**24 datagrams. Of 64 KiB each these are 2**36 blocks of AES, where the birthday bound of a 128-bit
block leaves an attacker an advantage of 2**-56; and the next key costs four microseconds."""

EPOCH_MAX = (1 << 32) - 1
"""What the nonce has room for: 30,000 years at 70,000 datagrams a second."""

DATAGRAM_BYTES_MIN = 1200
"""Every handshake datagram fits, with names as long as they may be; and every network carries it (IPv6 has 1280)."""

HANDSHAKE_BYTES = DATAGRAM_BYTES_MIN
"""All of them: who sends one in somebody else's name makes us send that one no more than was sent to us."""

DATAGRAM_BYTES_MAX = 65507
"""The largest that UDP over IPv4 carries."""


class Dropped(Exception):  # it is the datagram's fate, not an error of ours
    """A datagram is not what it should be. It is counted under the reason, and that is all."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
