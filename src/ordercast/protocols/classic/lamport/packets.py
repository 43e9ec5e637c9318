"""What sites say to each other under symmetric timestamps, and what they write to the log.

Tuples with one entry for each site are in the order of the sites' names, so that one packet does for all receivers.
"""

from __future__ import annotations

from ordercast.core import MessageId, Multicast, Packet, Record


class Data(Packet, frozen=True):
    """Source -> destinations: a message and its timestamp.

    `numbers` counts, for each destination in order of names, the messages from this source to it: a destination of
    some groups only finds its gaps by its own number.
    """

    time: int
    numbers: tuple[int, ...]
    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Tick(Packet, frozen=True):
    """Site -> sites: my clock says `time`; what I have sent you with a timestamp up to that, you have when you have
    everything up to your number in `highest`."""

    background = True
    time: int
    highest: tuple[int, ...]
    """For each site, the number of the last message to it."""
    taken: tuple[int, ...]
    """For each site, how many of its messages to me my application has taken: it need not keep them for me."""
    reply: bool
    """Please say at once what your clock says."""


class Request(Packet, frozen=True):
    """Destination -> source: send these again (closed intervals of numbers)."""

    background = True
    missing: tuple[tuple[int, int], ...]


class Reserved(Record, frozen=True):
    """The clock may be read to others up to this time; after a crash it goes on from there."""

    time: int


class Sent(Record, frozen=True):
    """At a source: a message with its timestamp. Its numbers follow from the order of these records."""

    time: int
    multicast: Multicast


class Delivered(Record, frozen=True):
    """At a destination: what is delivered in one step, in order."""

    deliveries: tuple[tuple[int, int, Multicast | None], ...]
    """Timestamp, rank of the source, message; None for one's own, which `Sent` has."""


class State(Record, frozen=True):
    """A checkpoint."""

    reserved: int
    last_key: tuple[int, int]
    delivered: tuple[int, ...]
    """For each site, the number of its last message delivered here."""
    highest: tuple[int, ...]
    """For each site, the number of the last message to it."""
    taken: tuple[int, ...]
    """For each site, the number of the last message to it that it need not be sent any more."""
    kept: tuple[Data, ...]
