"""What two processes say to each other while one of them gives the other a state: beside the protocol, by unicast.

    taker                                             giver
      | ---- Fetch   no chunks: is there a state? ----> |   (the request itself is ordered in the group)
      | <--- Offer   where it stands, size, digest ---- |   or Soon, or NoState: ask somebody else
      | ---- Fetch   chunks 0 to 3 -------------------> |
      | <--- Chunk 0, Chunk 1, Chunk 2, Chunk 3 ------- |   as many under way as the taker's window allows
      |                     ...                         |
      | ---- Taken -----------------------------------> |   the giver may forget it

The taker decides everything: what is lost it asks for again, and a giver that is silent is given up. The giver
remembers the bytes of the state and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, TypeAlias

import msgspec

from ordercast.core import InstanceId, Packet

STATE_INSTANCE: InstanceId = "state"
"""Under this name processes give each other states."""

CHUNK_BYTES = 32_000
"""Two fit into the largest datagram. In smaller ones it is a frame whose lost fragments the wire repairs."""

FETCH_CHUNKS_MAX = 64
"""That one `Fetch` may ask for."""

STATE_BYTES_MAX = 1 << 34
"""The largest state. Whoever takes one keeps only what has come, so a size that is a lie costs nothing."""

DIGEST_BYTES = 32

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Fetch(Packet, frozen=True):
    """Send these chunks; none: say whether there is a state to give."""

    background = True
    transfer: Number
    """Drawn at random by the taker."""
    first: Number = 0
    count: Annotated[int, msgspec.Meta(ge=0, le=FETCH_CHUNKS_MAX)] = 0


class Offer(Packet, frozen=True):
    """There is a state, and this is how large it is."""

    background = True
    transfer: Number
    offset: Number
    """The group's next delivery that the state does not contain."""
    size: Annotated[int, msgspec.Meta(ge=0, le=STATE_BYTES_MAX)]
    digest: Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
    """BLAKE2b of the bytes."""
    schema: Annotated[str, msgspec.Meta(max_length=100)]
    """What the giver's class looks like."""
    birth: Annotated[str, msgspec.Meta(max_length=300)] = ""
    calls: Number = 0
    time: float = 0.0
    """Which state it is, how many calls are in it, and when the last of them was made (see
    `ordercast.node.replica_lineage`)."""


class Soon(Packet, frozen=True):
    """It is being made ready."""

    background = True
    transfer: Number


class NoState(Packet, frozen=True):
    """This process cannot give one, and why."""

    background = True
    transfer: Number
    reason: Annotated[str, msgspec.Meta(max_length=200)]
    yours: bool = False
    """The others take the one that the taker has brought along."""


class Chunk(Packet, frozen=True):
    """A piece of the state: `CHUNK_BYTES` of it, the last one perhaps fewer."""

    background = True
    transfer: Number
    index: Number
    content: Annotated[bytes, msgspec.Meta(max_length=CHUNK_BYTES)]


class Taken(Packet, frozen=True):
    """The taker needs no more of it: it has everything, or has given it up."""

    background = True
    transfer: Number


class WantKeys(Packet, frozen=True):
    """Give the keys that were used in a group, to somebody who has its deliveries from an offset on. They come as a
    state does."""

    background = True
    transfer: Number
    group: Annotated[str, msgspec.Meta(max_length=300)]
    since: Number


STATE_PACKETS = (Fetch, Offer, Soon, NoState, Chunk, Taken, WantKeys)


def recut(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks, all of `CHUNK_BYTES` but the last. (In one piece they would have to be copied again and
    again while they become more.)"""
    begun = bytearray()
    for piece in pieces:
        if not begun and len(piece) == CHUNK_BYTES:
            yield piece
            continue
        begun += piece
        if len(begun) >= CHUNK_BYTES:
            whole = len(begun) - len(begun) % CHUNK_BYTES
            for start in range(0, whole, CHUNK_BYTES):
                yield bytes(begun[start : start + CHUNK_BYTES])
            del begun[:whole]
    if begun:
        yield bytes(begun)


def count_chunks(size: int) -> int:
    """How many chunks a state of that size has."""
    return -(-size // CHUNK_BYTES)
