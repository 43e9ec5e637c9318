"""What sites say to each other along the edges of the graph, and what they write to the log."""

from __future__ import annotations

from ordercast.core import MessageId, Multicast, Packet, Record, SiteId


class Submit(Packet, frozen=True):
    """Source -> primary destination. `number` is that of the edge from this site to that one."""

    number: int
    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Forward(Packet, frozen=True):
    """Site -> the next sites on the message's way, each of which finds its own edge number at its place.

    One message for all of them: it is encoded once, and on a broadcast medium it is one frame.
    """

    numbers: tuple[int, ...]
    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Request(Packet, frozen=True):
    """Receiver of an edge -> its sender: send these again (closed intervals of edge numbers)."""

    background = True
    missing: tuple[tuple[int, int], ...]


class Null(Packet, frozen=True):
    """Sender of an edge -> its receiver, which has not acknowledged for a while: the highest number so far.

    It takes no number and is never delivered or forwarded. (If it took one, as in the thesis, a lost null would block
    its receiver for ever.)
    """

    background = True
    highest: int


class Acknowledge(Packet, frozen=True):
    """Receiver of an edge -> its sender: I have taken everything up to this number, and it is in my log."""

    background = True
    taken: int


class Held(Packet, frozen=True):
    """Receiver of an edge -> its sender: your next message is here and finds no room further on, because of these."""

    background = True
    by: tuple[SiteId, ...]


class Submitted(Record, frozen=True):
    """At a source: the next number of the edge to the primary destination is this message's."""

    to: SiteId
    multicast: Multicast


class Taken(Record, frozen=True):
    """The next message of an incoming edge is taken: forwarded with the next numbers of the edges on its way, and
    delivered if the site is a member. The order of these records is the site's order."""

    sender: SiteId
    multicast: Multicast


class State(Record, frozen=True):
    """A checkpoint: all of the above, summed up."""

    incoming: tuple[tuple[SiteId, int], ...]
    """Sender, and the number up to which its messages are taken."""
    outgoing: tuple[tuple[SiteId, int, int], ...]
    """Receiver, highest number, highest acknowledged."""
    kept: tuple[Submit | Forward, ...]
    """What some receiver has not acknowledged."""
