"""What processes say to each other on the channel of a group (3.2.1, 4.2), and in the handshake of 4.7.1."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ordercast.core import GroupId, MessageId, Multicast, Packet, SiteId, WireError

TIMESTAMP_MAX = 1 << 62
"""In microseconds, a hundred thousand years: nobody's clock is there, and larger ones would not fit on the wire when
they tick on."""

REQUEST_TICKETS_MAX = 256
"""Messages that one request names at the most: more would come back as a burst that is lost again."""

Intervals = tuple[tuple[int, int], ...]


class ViewId(msgspec.Struct, frozen=True, array_like=True, gc=False, order=True):
    """The name of a view (4.1)."""

    start_time: int
    """The logical time at which it begins."""
    leader: SiteId
    leader_seq: int

    @property
    def key(self) -> tuple[int, SiteId, int]:
        """The same as a tuple."""
        return self.start_time, self.leader, self.leader_seq

    def __str__(self) -> str:
        return f"{self.start_time}:{self.leader}:{self.leader_seq}"


class PAdd(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Process Add (5.2.2): a Data message by which a sponsor lets somebody into the sender group."""

    proc: SiteId
    first_seq: int
    """The number of its first message."""


class PLeave(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Process Leave (5.2.2): the last Data message of a sender."""


class Proxied(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A Data message that a sender multicasts for a process that is none (chapter 8)."""

    proxy: SiteId
    """The sender."""
    number: int
    """Among what the source multicasts in this way."""
    anew: bool
    """Whether the source has lost its view since the message before: something may be missing there."""


class Data(Packet, frozen=True):
    """A Data message (4.2.1). Its sender is the source of the multicast, or its proxy; its group is the channel's."""

    view: ViewId
    """The sender's, so that nobody takes what belongs to another view: the one that a repair has installed there last.
    Views that PAdd and PLeave have made of it follow from the order of the messages."""
    coordinator: SiteId
    """The sender's coordinator in the control hierarchy, from which others estimate their distance."""
    seq: int
    timestamp: int
    multicast: Multicast
    """Of a PAdd or PLeave, one without a number, which no application has made."""
    change: PAdd | PLeave | None = None
    proxied: Proxied | None = None
    """Where the sender is not the source."""

    @property
    def sender(self) -> SiteId:
        """Among whose messages it is numbered."""
        return self.multicast.id.source if self.proxied is None else self.proxied.proxy

    def served(self) -> tuple[MessageId, ...]:
        """The message; none of an application's, where the sender group is changed."""
        return (self.multicast.id,) if self.change is None else ()


class KeepAlive(Packet, frozen=True):
    """A Keep Alive (4.2.2): the header of a Data message, whose number is that of the last one sent."""

    view: ViewId
    coordinator: SiteId
    seq: int
    timestamp: int

    background: ClassVar[bool] = True


class RetransmissionRequest(Packet, frozen=True):
    """RTR (3.2.1): tickets for messages of one sender that are missing, as closed intervals of numbers."""

    coordinator: SiteId
    """That of whoever asks."""
    sender: SiteId
    """Of the missing messages."""
    missing: Intervals
    acknowledged: bool = False
    """Whether whoever asks did not hold its acknowledgement back for them, so that they may be gone."""

    background: ClassVar[bool] = True


class Retransmission(Packet, frozen=True):
    """RTX (3.2.1): a message as it was first sent."""

    original: Data

    def served(self) -> tuple[MessageId, ...]:
        """The message."""
        return self.original.served()


class ActivationRequest(Packet, frozen=True):
    """The handshake of 4.7.1: from which number on does a source's stream begin for a receiver?"""

    group: GroupId
    attempt: int
    """Answers to earlier ones do not count."""
    timestamp: int
    """The receiver's clock. It has acknowledged nothing above that, so that nothing above it is stable yet."""

    background: ClassVar[bool] = True


class ActivationPoint(Packet, frozen=True):
    """The answer of the source."""

    group: GroupId
    attempt: int
    view: ViewId
    seq: int
    """The number of the first message that the receiver will deliver."""
    timestamp: int
    """That message has a later one."""

    background: ClassVar[bool] = True


class Gone(Packet, frozen=True):
    """A source no longer has what a receiver asks for: everyone who was counted has taken it."""

    group: GroupId
    seq: int
    """The first number that it still has."""

    background: ClassVar[bool] = True


def check_time(timestamp: int) -> None:
    """Raise `WireError` for a time that is none."""
    if not 0 <= timestamp < TIMESTAMP_MAX:
        raise WireError(f"the timestamp {timestamp} is no time")


def check_intervals(missing: Intervals) -> None:
    """Raise `WireError` unless these are numbers, ascending, and not more than anyone may ask for."""
    before, count = 0, 0
    for first, last in missing:
        if not before < first <= last:
            raise WireError(f"{first}-{last} after {before} is no interval of numbers")
        before = last
        count += last - first + 1
        if count > REQUEST_TICKETS_MAX:
            raise WireError(f"more than {REQUEST_TICKETS_MAX} messages are asked for at once")
