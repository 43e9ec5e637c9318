"""What the sequencer's sites say to each other, and what they write to the log."""

from __future__ import annotations

from ordercast.core import GroupId, MessageId, Multicast, Packet, Record, SiteId


class Submit(Packet, frozen=True):
    """Source -> sequencer: order this message. `previous` is the source's message before it: a chain without numbers
    of its own. A large one goes to the destinations as well, which wait for its place."""

    multicast: Multicast
    previous: MessageId | None

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Accepted(Packet, frozen=True):
    """Sequencer -> source: your messages up to and including this one are ordered, and in my log."""

    background = True
    through: MessageId


class Held(Packet, frozen=True):
    """Sequencer -> source whose next message finds no room in the history: what is kept for these members, which they
    have not acknowledged, fills it."""

    background = True
    by: tuple[SiteId, ...]


class Ordered(Packet, frozen=True):
    """Sequencer -> destinations: the message and its place.

    `links` holds, for each destination in order of names, how many messages the sequencer has sent there: a
    destination of some groups only finds its gaps by its own number, and one frame does for all destinations of a
    broadcast medium.
    """

    number: int
    links: tuple[int, ...]
    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Placed(Packet, frozen=True):
    """Sequencer -> destinations: the place of a large message, which its source has sent them itself."""

    number: int
    links: tuple[int, ...]
    message: MessageId
    groups: tuple[GroupId, ...]
    destinations: tuple[SiteId, ...] | None

    def served(self) -> tuple[MessageId, ...]:
        return (self.message,)


class Request(Packet, frozen=True):
    """Destination -> sequencer: send these again (closed intervals of link numbers)."""

    background = True
    missing: tuple[tuple[int, int], ...]


class Announce(Packet, frozen=True):
    """Sequencer -> destination that has not acknowledged for a while: the highest link number so far."""

    background = True
    highest: int


class Acknowledge(Packet, frozen=True):
    """Destination -> sequencer: the application has taken everything up to this link number."""

    background = True
    consumed: int


class Submitted(Record, frozen=True):
    """At a source: a message that the sequencer must get."""

    multicast: Multicast
    previous: MessageId | None


class Sequenced(Record, frozen=True):
    """At the sequencer: a message has got its place, and is delivered here where the sequencer is a destination."""

    ordered: Ordered


class Delivered(Record, frozen=True):
    """At a destination: everything up to this link number is delivered."""

    link: int
    number: int
    multicast: Multicast


class DeliveredOwn(Record, frozen=True):
    """The same of a message of this site, which the log has since it was submitted."""

    link: int
    number: int
    message: MessageId


class State(Record, frozen=True):
    """A checkpoint of all three roles."""

    submissions: tuple[tuple[Multicast, MessageId | None], ...]
    last_submitted: MessageId | None
    delivered_link: int
    number: int
    accepted: tuple[tuple[SiteId, MessageId], ...]
    links: tuple[tuple[SiteId, int, int], ...]
    """Destination, highest link number, highest acknowledged."""
    history: tuple[Ordered, ...]
