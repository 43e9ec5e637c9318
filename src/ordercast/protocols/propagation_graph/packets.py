"""What sites say to each other along the edges of the graph. Each packet has the number of its graph (Spauster 5.2)."""

from __future__ import annotations

from ordercast.core import GroupId, MessageId, Multicast, Packet, SiteId
from ordercast.protocols.propagation_graph.rosters import Wish


class Submit(Packet, frozen=True):
    """Source -> primary destination. `number` is that of the edge from this site to that one."""

    number: int
    multicast: Multicast
    graph: int = 0

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Forward(Packet, frozen=True):
    """Site -> the next sites on the message's way, each of which finds its own edge number at its place.

    One message for all of them: it is encoded once, and on a broadcast medium it is one frame.
    """

    numbers: tuple[int, ...]
    multicast: Multicast
    """What an application has multicast; or, to no group, a `Close` or an `Open`."""
    graph: int = 0

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,) if self.multicast.groups else ()


class Request(Packet, frozen=True):
    """Receiver of an edge -> its sender: send these again (closed intervals of edge numbers)."""

    background = True
    missing: tuple[tuple[int, int], ...]
    graph: int = 0


class Null(Packet, frozen=True):
    """Sender of an edge -> its receiver, which has not acknowledged for a while: the highest number so far.

    It takes no number and is never delivered or forwarded. (If it took one, as in the thesis, a lost null would block
    its receiver for ever.)
    """

    background = True
    highest: int
    graph: int = 0
    ended: bool = False
    """Whether the highest is the `Close`: then whoever is in a later graph has taken all of it."""


class Acknowledge(Packet, frozen=True):
    """Receiver of an edge -> its sender: I have taken everything up to this number, and it is in my log."""

    background = True
    taken: int
    graph: int = 0


class Held(Packet, frozen=True):
    """Receiver of an edge -> its sender: your next message is here and finds no room further on, because of these."""

    background = True
    by: tuple[SiteId, ...]
    graph: int = 0


# ---------------------------------------------------------------------- from one graph to the next
class Ask(Packet, frozen=True):
    """Site -> manager: what its application wants changed. `graph` is the one that the site knows."""

    background = True
    wish: Wish
    graph: int


class Change(Packet, frozen=True):
    """Manager -> first root: this `Close` or `Open` is to enter there."""

    background = True
    graph: int
    """The one that it ends, or begins."""
    multicast: Multicast


class Opened(Packet, frozen=True):
    """First root -> manager that is not in the new graph: it has begun."""

    background = True
    graph: int


class Counted(Packet, frozen=True):
    """Primary destination -> manager: the graph is closed here, and its groups have had so many messages."""

    background = True
    graph: int
    counts: tuple[tuple[GroupId, int], ...]


class Closed(Packet, frozen=True):
    """Old primary destination -> source: I have taken your messages of this graph up to this number, and take no
    more."""

    background = True
    graph: int
    taken: int


class Noted(Packet, frozen=True):
    """Source -> old primary destination: I know, and it is in my log."""

    background = True
    graph: int


class Seek(Packet, frozen=True):
    """A site that is in no graph -> whomever it has found: is there one? It wants to be in one. Or site -> manager: is
    this the latest?"""

    background = True


class Presence(Packet, frozen=True):
    """Site -> one that seeks: the graph in which it is."""

    background = True
    graph: int
    manager: SiteId
    size: int
    """How many sites it has; 0: the sender is in none, either."""
    seeking: bool
    changing: bool = False
    """Whether the sender, the manager, is about to make another one."""


class Decline(Packet, frozen=True):
    """Manager -> one that wants to join: it cannot."""

    background = True
    reason: str


class Unchanged(Packet, frozen=True):
    """Manager -> one that wanted to join, and has given it up: nothing is to be changed."""

    background = True
    wish: Wish
