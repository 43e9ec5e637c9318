"""What the sites of Protocol 5 say to each other, and what they write to the log."""

from __future__ import annotations

from ordercast.core import GroupId, MessageId, Multicast, Packet, Record, SiteId
from ordercast.protocols.parts.numbered import Intervals


class Submit(Packet, frozen=True):
    """Source -> root: message n of this source, [S, D, n] in the thesis."""

    group: GroupId
    number: int
    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Null(Packet, frozen=True):
    """Source -> root, when there was nothing to multicast for δ, or when the root is new: the highest number so far.

    It takes no number itself and is never delivered; one that did would have to be logged and sent again like a
    message.
    """

    background = True
    group: GroupId
    highest: int


class RequestOfSource(Packet, frozen=True):
    """Root -> source: send these numbers again."""

    background = True
    group: GroupId
    missing: Intervals


class Acknowledge(Packet, frozen=True):
    """Root -> source: the whole group has delivered everything up to this number; you need not keep it."""

    background = True
    group: GroupId
    number: int


class NewRoot(Packet, frozen=True):
    """Root -> sources: submit to me from now on (fragment (H))."""

    background = True
    group: GroupId
    epoch: int


class Pass(Packet, frozen=True):
    """Parent -> child, or between a new root and the others: ([S, D, n], d) in the thesis."""

    group: GroupId
    epoch: int
    """How many roots there were before; what an old root has sent is told apart by it."""
    place: int
    """d, the message's number in the group."""
    number: int
    """n, its number among those of its source."""
    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Heartbeat(Packet, frozen=True):
    """Parent -> child: the root is alive, and so much exists."""

    background = True
    group: GroupId
    epoch: int
    highest: int
    """L_D of the parent."""
    stable: int
    """Everyone in the group has delivered everything up to this place."""


class Taken(Packet, frozen=True):
    """Child -> parent, in answer to a heartbeat: I and everyone below me have delivered everything up to this place."""

    background = True
    group: GroupId
    epoch: int
    place: int


class Request(Packet, frozen=True):
    """Child -> parent: send these places again."""

    background = True
    group: GroupId
    epoch: int
    missing: Intervals


class NewTree(Packet, frozen=True):
    """New root -> all that remain (fragment (E)): the tree is made of these sites now, and I have delivered so much."""

    background = True
    group: GroupId
    epoch: int
    ranks: tuple[SiteId, ...]
    """Those that remain, the root first. (Not only "one rank further": who takes over is whoever says so.)"""
    place: int


class Answer(Packet, frozen=True):
    """Site -> new root (fragment (F)): I am in the new tree, and have delivered so much."""

    background = True
    group: GroupId
    epoch: int
    place: int


class Logged(Record, frozen=True):
    """At a member: this message is in LOG, at this place."""

    group: GroupId
    place: int
    number: int
    multicast: Multicast


class Sent(Record, frozen=True):
    """At a source: this number is taken."""

    group: GroupId
    number: int
    multicast: Multicast


class Progress(Record, frozen=True):
    """A checkpoint. A site that failed does not come back ([A7]), so it need not say more than how far it came."""

    delivered: tuple[tuple[GroupId, int], ...]
