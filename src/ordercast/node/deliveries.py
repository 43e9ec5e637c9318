"""What an application gets: deliveries one by one, or a bundle's worth of them at a time."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import repeat

import msgspec

from ordercast.core import GroupId, MessageId, Payload, SiteId, WireError
from ordercast.node.bundles import decode_bundle

logger = logging.getLogger("ordercast.node")


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One message, at its place in the order."""

    payload: bytes
    offset: int
    """How many messages were delivered before it in this group: the same number at all members, wherever the protocol
    orders the group totally."""
    source: SiteId
    groups: tuple[GroupId, ...]
    bundle: MessageId
    index: int
    """Its place in the bundle."""

    @property
    def message(self) -> str:
        """The message's name."""
        return f"{self.bundle}/{self.index}"


class View(msgspec.Struct, frozen=True):
    """Who is in a group, as its members agree."""

    view: str
    group: GroupId
    members: tuple[SiteId, ...]


class Shared(msgspec.Struct, eq=False):
    """A bundle that several receivers in this process have to take before it counts as taken."""

    receivers: int
    on_taken: Callable[[], None]

    def take(self) -> None:
        """One of them is done with it."""
        self.receivers -= 1
        if self.receivers == 0:
            self.on_taken()


class Batch(msgspec.Struct, eq=False):
    """Messages that were ordered together: of one source, to the same groups, consecutive in the order.

    Iterating gives the payloads. They are unpacked when somebody looks, so a batch that is only counted costs next to
    nothing.
    """

    bundle: MessageId
    groups: tuple[GroupId, ...]
    count: int
    offset: int
    """The offset of the first message."""
    packed: Payload
    unpacked: list[bytes] | None
    ordinal: int
    """The bundle's place among all that were delivered to this process."""
    taken: Callable[[], None]
    """Says that the application is done with it; whoever waits for room may send again."""
    counters: Counter[str] | None = None
    """Where a bundle is counted that cannot be decoded."""

    @property
    def source(self) -> SiteId:
        """Who sent them."""
        return self.bundle.source

    @property
    def payloads(self) -> list[bytes]:
        """The messages; none where the bundle cannot be decoded. Everyone else finds that too, and offsets go on behind
        it: what one source has done wrong ends nobody."""
        if self.unpacked is None:
            try:
                self.unpacked = decode_bundle(self.packed, self.count)
            except WireError as error:
                logger.warning("bundle %s of %s is set aside: %s", self.bundle, self.source, error)
                if self.counters is not None:
                    self.counters["bad-bundles"] += 1
                self.unpacked = []
        return self.unpacked

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.payloads)

    def deliveries(self) -> Iterator[Delivery]:
        """The messages with all that is known about them."""
        bundle, indexes = self.bundle, range(self.count)
        offsets = range(self.offset, self.offset + self.count)
        # Without a Python function in between: this is paid for every message.
        return map(
            Delivery, self.payloads, offsets, repeat(bundle.source), repeat(self.groups), repeat(bundle), indexes
        )

    @property
    def is_whole(self) -> bool:
        """Whether it is one large message and not a bundle."""
        unpacked = self.unpacked
        return unpacked is not None and len(unpacked) == 1 and unpacked[0] is self.packed
