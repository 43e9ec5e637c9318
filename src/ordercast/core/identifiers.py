"""Who and what: sites, groups, instances, channels and the identity of a multicast message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

SiteId = str
"""A process of the group-communication system (the papers' *site*, *host* or *process*)."""

GroupId = str
InstanceId = str
"""A site can run several protocol instances; packets, timers and randomness belong to one of them."""

ChannelId = str
"""A network multicast address that instances can join."""

MAIN_INSTANCE: Final[InstanceId] = "main"

if TYPE_CHECKING:
    Payload = bytes | memoryview
    """What the application gave, or a view of what it came in."""
else:
    # What decoders make of it: of a bundle of 60 kB, `bytes` would be one more copy at every receiver.
    Payload = memoryview


class MessageId(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False, cache_hash=True):
    """Identity of one multicast message, unique in a run.

    The incarnation is part of it: a site that loses its memory in a crash starts counting anew, and must not give the
    name of an old message to a new one.
    """

    source: SiteId
    incarnation: int
    number: int
    """1, 2, 3 … among the messages of this incarnation of the source."""

    def __str__(self) -> str:
        return f"{self.source}:{self.incarnation}:{self.number}"

    @property
    def source_seq(self) -> int:
        """Grows with each multicast of the source, across incarnations. A trace has 63 bits for both, of which an
        incarnation that counts the time needs 31."""
        return (self.incarnation << 32) + self.number


class Multicast(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message as the application gave it: identity, address, payload. Protocols carry it; they do not look into
    it."""

    id: MessageId
    groups: tuple[GroupId, ...]
    payload: Payload = b""
    destinations: tuple[SiteId, ...] | None = None
    """Explicit destinations, where a message is addressed to a subset of sites and not to groups."""
    count: int = 1
    """How many application messages the payload holds (a bundle on live nodes)."""
