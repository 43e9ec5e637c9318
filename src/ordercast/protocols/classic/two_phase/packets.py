"""What sites say to each other in the two phases, and what they write to the log."""

from __future__ import annotations

from ordercast.core import MessageId, Multicast, Packet, Record, SiteId


class Data(Packet, frozen=True):
    """Source -> destinations: give this message a priority."""

    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Proposal(Packet, frozen=True):
    """Destination -> source: the priority that I gave it."""

    message: MessageId
    number: int

    def served(self) -> tuple[MessageId, ...]:
        return (self.message,)


class Final(Packet, frozen=True):
    """Source -> destinations: the priority that it has from now on; it can be delivered at its place."""

    message: MessageId
    number: int

    def served(self) -> tuple[MessageId, ...]:
        return (self.message,)


class Noted(Packet, frozen=True):
    """Destination -> source, only when it hears `Final` again: I know it; the message waits for others before it."""

    message: MessageId

    def served(self) -> tuple[MessageId, ...]:
        return (self.message,)


class Acknowledge(Packet, frozen=True):
    """Destination -> source: the application has taken all your messages to me up to this one.

    One name does for all of them, because a destination delivers the messages of a source in the order of their names.
    """

    background = True
    through: MessageId


class Held(Packet, frozen=True):
    """Site that others wait for -> those others: I wait for these myself, for long."""

    background = True
    by: tuple[SiteId, ...]


class Sent(Record, frozen=True):
    """At a source: a message that its destinations must get; with the priority given here, 0 when this is none of
    them."""

    multicast: Multicast
    number: int


class Proposed(Record, frozen=True):
    """At a destination: the priority given here."""

    multicast: Multicast
    number: int


class Decided(Record, frozen=True):
    """At a source and at a destination: the final priority. At a source that is a destination one record is both."""

    message: MessageId
    number: int


class State(Record, frozen=True):
    """A checkpoint of both roles."""

    clock: int
    queue: tuple[tuple[Multicast, int, bool], ...]
    """Message, its priority here, whether that is final."""
    delivered: tuple[MessageId, ...]
    """Of each source the last message delivered here."""
    pending: tuple[tuple[Multicast, int], ...]
    """What this source keeps, and the final priority (0: undecided)."""
    last_finals: tuple[tuple[SiteId, int], ...]
    """Of each destination the last final priority that this source has announced to it."""
