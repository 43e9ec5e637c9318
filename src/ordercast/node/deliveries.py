"""What an application gets: deliveries one by one, or a bundle's worth of them at a time; and who is in the group."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Generic, TypeVar

import msgspec

from ordercast.core import GroupId, MessageId, Payload, SiteId, WireError
from ordercast.node.bundles import decode_bundle

logger = logging.getLogger("ordercast.node")


class Origin(msgspec.Struct, frozen=True, gc=False):
    """What the messages of a bundle have in common and are seldom asked for."""

    bundle: MessageId
    view: str
    replayed: bool = False


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One message, at its place in the order."""

    payload: bytes
    offset: int
    """How many messages were delivered before it in this group: the same number at all members, wherever the protocol
    orders the group totally."""
    source: SiteId
    groups: tuple[GroupId, ...]
    origin: Origin
    """One for all messages of a bundle: a field more would be paid for every message."""
    index: int
    """Its place in the bundle."""

    @property
    def bundle(self) -> MessageId:
        """The name of the bundle in which it was ordered."""
        return self.origin.bundle

    @property
    def view(self) -> str:
        """The name of the view (`View.view`) in which it was delivered."""
        return self.origin.view

    @property
    def replayed(self) -> bool:
        """Whether it comes from the log after a restart: an earlier start of this process may have seen it."""
        return self.origin.replayed

    @property
    def message(self) -> str:
        """The message's name."""
        return f"{self.bundle}/{self.index}"


Value = TypeVar("Value")


class TypedDelivery(Generic[Value]):
    """One message of a typed group, at its place in the order."""

    __slots__ = ("delivery", "value")

    def __init__(self, delivery: Delivery, value: Value) -> None:
        self.delivery = delivery
        """All that is known about it."""
        self.value = value

    @property
    def payload(self) -> bytes:
        """The message as it travelled."""
        return self.delivery.payload

    @property
    def offset(self) -> int:
        """How many messages were delivered before it in this group."""
        return self.delivery.offset

    @property
    def source(self) -> SiteId:
        """Who sent it."""
        return self.delivery.source

    @property
    def message(self) -> str:
        """Its name."""
        return self.delivery.message

    @property
    def replayed(self) -> bool:
        """Whether it comes from the log after a restart: an earlier start of this process may have seen it."""
        return self.delivery.replayed

    def __repr__(self) -> str:
        return f"{type(self).__name__}(offset={self.offset}, source={self.source!r}, value={self.value!r})"


class View(msgspec.Struct, frozen=True):
    """Who is in a group, as its members agree."""

    view: str
    group: GroupId
    members: tuple[SiteId, ...]
    joined: tuple[SiteId, ...] = ()
    """Those who were not in the view before; in the first one, everybody."""
    left: tuple[SiteId, ...] = ()
    """Those who were in the view before."""
    transitional: tuple[SiteId, ...] = ()
    """Those who come along from the view before and have delivered the same in it, where the protocol promises that."""
    merged: tuple[SiteId, ...] = ()
    """Those who come from another view of the group, in which they have gone on apart."""

    def follow(self, before: tuple[SiteId, ...]) -> View:
        """The same view, after one with these members."""
        return msgspec.structs.replace(
            self,
            joined=tuple(site for site in self.members if site not in before),
            left=tuple(site for site in before if site not in self.members),
        )

    @property
    def before(self) -> tuple[SiteId, ...]:
        """Who was in the view before, sorted."""
        return tuple(sorted({*self.members, *self.left} - {*self.joined}))


class Rollback(msgspec.Struct, frozen=True):
    """A bundle that the application has seen is taken back: the last one that stands. What it has done with these
    messages is to be undone; they may come again, at the same offsets or at others."""

    bundle: MessageId
    groups: tuple[GroupId, ...]
    count: int
    offset: int
    """The offset of its first message, and of the next delivery."""


class CaughtUp(msgspec.Struct, frozen=True):
    """Everything that the log of this process held was delivered again: what follows was not delivered before."""

    group: GroupId
    offset: int
    """That of the next delivery."""


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
    view: str = ""
    """The name of the view (`View.view`) in which it was delivered."""
    places: tuple[int, ...] | None = None
    """Which messages of the bundle there are, where some have a key that was used before; None: all."""
    replayed: bool = False
    """Whether it comes from the log after a restart: an earlier start of this process may have seen it."""

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
                if self.places is not None:
                    self.unpacked = [self.unpacked[index] for index in self.places]
            except WireError as error:
                logger.warning("bundle %s of %s is set aside: %s", self.bundle, self.source, error)
                if self.counters is not None:
                    self.counters["bad-bundles"] += 1
                self.unpacked = []
        return self.unpacked

    def __len__(self) -> int:
        return self.count if self.places is None else len(self.places)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.payloads)

    def deliveries(self) -> Iterator[Delivery]:
        """The messages with all that is known about them."""
        origin = Origin(self.bundle, self.view, self.replayed)
        indexes = range(self.count) if self.places is None else self.places
        offsets: Iterable[int] = range(self.offset, self.offset + self.count)
        if self.places is not None:
            offsets = [self.offset + index for index in self.places]
        # Without a Python function in between: this is paid for every message.
        return map(
            Delivery, self.payloads, offsets, repeat(self.bundle.source), repeat(self.groups), repeat(origin), indexes
        )

    @property
    def is_whole(self) -> bool:
        """Whether it is one large message and not a bundle."""
        unpacked = self.unpacked
        return unpacked is not None and len(unpacked) == 1 and unpacked[0] is self.packed
