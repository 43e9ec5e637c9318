"""What the fan protocols say to each other, and what they write to the log."""

from __future__ import annotations

from ordercast.core import GroupId, MessageId, Multicast, Packet, Record, SiteId


class Data(Packet, frozen=True):
    """Source -> destination: message n of this source to this group, [S, D, n] in the thesis."""

    group: GroupId
    number: int
    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Request(Packet, frozen=True):
    """Destination -> source: send these numbers again."""

    background = True
    group: GroupId
    missing: tuple[tuple[int, int], ...]
    """Closed intervals of numbers."""


class Null(Packet, frozen=True):
    """Source -> destinations, when there was nothing to multicast for a while: the highest number so far.

    It takes no number itself and is never delivered. (If it took one, as the thesis has it, it would have to be
    logged and sent again like any other, or a lost null blocks its destination for ever.)
    """

    background = True
    group: GroupId
    highest: int


class Acknowledge(Packet, frozen=True):
    """Destination -> source: everything up to this number is delivered and in my log; you need not keep it for me."""

    background = True
    group: GroupId
    delivered: int


class Skip(Packet, frozen=True):
    """Source -> destination: what you ask for is no longer in my log; go on after this number."""

    background = True
    group: GroupId
    through: int


class Delivered(Record, frozen=True):
    """At a destination: L for this source and group is now `number`."""

    source: SiteId
    group: GroupId
    number: int
    multicast: Multicast


class Skipped(Record, frozen=True):
    """At a destination: L was moved forward over messages that will never come."""

    source: SiteId
    group: GroupId
    through: int


class Sent(Record, frozen=True):
    """At the source: this number is taken."""

    group: GroupId
    number: int
    multicast: Multicast


class Progress(Record, frozen=True):
    """A checkpoint: all of the above, summed up."""

    delivered: tuple[tuple[SiteId, GroupId, int], ...]
    sent: tuple[tuple[GroupId, int, tuple[tuple[int, Multicast], ...]], ...]
    """Group, highest number, and what the source keeps for retransmission."""
