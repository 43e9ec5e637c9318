"""What processes tell each other when they greet, and the nonces that prove that they are there now."""

from __future__ import annotations

import hashlib
import hmac
from typing import Annotated

import msgspec

from ordercast.core import SiteId
from ordercast.core.agreement import DIGESTS_BYTES
from ordercast.wire.datagram import HEADER, Dropped
from ordercast.wire.sealing import SALT_BYTES
from ordercast.wire.whereabouts import HOST_BYTES_MAX, Address

NONCE_BYTES = 16

NONCE_SECONDS = 5.0
"""A nonce is taken for as long as this, and at most twice as long: longer than any round trip."""

INCARNATION_MAX = 1 << 32
"""Nobody starts a process so often."""

POSITION_MAX = (1 << 63) - 1
"""Nobody logs so many records."""

NO_NONCE = bytes(NONCE_BYTES)
NOWHERE: Address = ("", 0)
"""What a process tells of its address that does not know it."""

Nonce = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
_Incarnation = Annotated[int, msgspec.Meta(ge=0, le=INCARNATION_MAX)]
_Host = Annotated[str, msgspec.Meta(max_length=HOST_BYTES_MAX)]
_Port = Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]


class Greeting(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The sealed part of all four datagrams of the handshake."""

    addressee: SiteId
    cluster: str
    """Known to the key as well; told for clusters without one."""
    incarnation: _Incarnation
    stable: bool
    """Whether the sender has a log."""
    place: Annotated[int, msgspec.Meta(ge=-1, lt=1 << 16)]
    """The addressee's bit in the sender's sets of destinations; -1 while it has none."""
    places: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]
    """For how many there is room in them."""
    nonce: Nonce
    """To be echoed."""
    echo: Nonce
    """The nonce that this answers."""
    agreed: Annotated[bytes, msgspec.Meta(min_length=DIGESTS_BYTES, max_length=DIGESTS_BYTES)]
    """Digests of what all processes must agree on."""
    told: dict[str, str]
    """In a refusal for other digests: the sender's values, as many as fit."""
    position: Annotated[int, msgspec.Meta(ge=0, le=POSITION_MAX)]
    """Where the sender's log ended when it started."""
    began: _Incarnation
    """The incarnation with which that log began."""
    heard: Annotated[int, msgspec.Meta(ge=0, le=POSITION_MAX)]
    """Up to where the sender has heard the addressee's log to be stable."""
    listens: tuple[_Host, _Port]
    """Where the sender listens, for those who do not know it."""


class Announcement(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The sealed part of what a process says to whoever hears it: here I am."""

    cluster: str
    incarnation: _Incarnation
    listens: tuple[_Host, _Port]


class Sighting(msgspec.Struct, frozen=True, gc=False):
    """Somebody who is not known here was heard of."""

    name: SiteId | None
    """None when it has sent something under a session that is not known here."""
    where: Address


class History(msgspec.Struct, frozen=True):
    """What a process tells of its log when it greets."""

    position: int = 0
    """Where it ended when the process started."""
    began: int = 0
    """The incarnation with which it began (see `Memory.judge`)."""
    repairs: bool = False
    """Whether the protocol could give a process back what it has lost."""

    def remedy(self, process: SiteId) -> str:
        """What to do about a process that has lost some of its log."""
        if self.repairs:
            return f"give it the log that it had, or stop it and run `ordercast repair CONFIG --process {process}`"
        return "give it the log that it had, or stop all processes and begin anew: see docs/log.md"


class Nonces:
    """Nonces that are not stored: a keyed hash of what they are for, to whom and where they are sent, and the time."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def make(self, now: float, purpose: bytes, site: SiteId, where: Address | None, salt: bytes = b"") -> bytes:
        """One for this purpose."""
        return self._make(int(now // NONCE_SECONDS), purpose, site, where, salt)

    def is_fresh(
        self, echo: bytes, now: float, purpose: bytes, site: SiteId, where: Address | None, salt: bytes = b""
    ) -> bool:
        """Whether this is one that was made for this purpose a moment ago."""
        slot = int(now // NONCE_SECONDS)
        return any(hmac.compare_digest(echo, self._make(slot - ago, purpose, site, where, salt)) for ago in (0, 1))

    def _make(self, slot: int, purpose: bytes, site: SiteId, where: Address | None, salt: bytes) -> bytes:
        what = b"%d %s %s " % (slot, purpose, salt.hex().encode())
        if where is not None:
            what += f"{len(where[0])} {where[0]} {where[1]} ".encode()
        return hashlib.blake2b(what + site.encode(), key=self._secret, digest_size=NONCE_BYTES).digest()


def sender_of(datagram: memoryview) -> tuple[SiteId, int]:
    """From whom a handshake says it is, and where its sealed part begins. This much is the same in all versions."""
    name_at = HEADER.size + SALT_BYTES + 1
    if len(datagram) < name_at:
        raise Dropped("short")
    header_bytes = name_at + datagram[name_at - 1]
    # Not genuine yet, so it may be anything.
    return str(datagram[name_at:header_bytes], "utf-8", "replace"), header_bytes
