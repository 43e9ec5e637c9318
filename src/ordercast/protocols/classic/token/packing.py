"""Packing messages into packets of a reasonable size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ordercast.core import Multicast, SiteId
from ordercast.protocols.classic.token.packets import Data

DATA_BYTES_MAX = 16_384
"""Payload in one packet, unless a single message is larger: an answer must not need a larger datagram than the message
itself did."""
DATA_MESSAGES_MAX = 64


def pack(messages: Iterable[tuple[SiteId, int, Multicast]], packets_max: int) -> Iterator[Data]:
    """Messages (source, source number, message) that follow each other go into one packet; so many packets at the
    most."""
    packed: list[Multicast] = []
    begins, size, previous = 0, 0, ("", 0)
    for source, number, multicast in messages:
        size += len(multicast.payload)
        follows = previous == (source, number - 1) and len(packed) < DATA_MESSAGES_MAX and size <= DATA_BYTES_MAX
        if packed and not follows:
            yield Data(begins, tuple(packed))
            packed = []
            packets_max -= 1
            if not packets_max:
                return
        if not packed:
            begins, size = number, len(multicast.payload)
        packed.append(multicast)
        previous = (source, number)
    if packed:
        yield Data(begins, tuple(packed))
