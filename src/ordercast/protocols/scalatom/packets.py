"""What sites say to each other in SCALATOM, beside what its parts say, and what they write to the log."""

from __future__ import annotations

import msgspec

from ordercast.core import MessageId, Multicast, Record, SiteId
from ordercast.protocols.parts.consensus_packets import InstanceName, Lives, OpenState, Value
from ordercast.protocols.parts.kept_packets import CellNames, Offsets
from ordercast.protocols.parts.link import Letter
from ordercast.protocols.parts.multicast import Mark


class Stamp(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An entry of a site's history: it R-delivered this message with this timestamp."""

    message: MessageId
    index: int
    """1, 2, 3 … in the sender's history; negative: it may have had another timestamp, now forgotten."""
    timestamp: int


class Stamps(Letter, frozen=True):
    """Destination -> destinations: the timestamps that I gave (step 2). For the sites of my own cell these are also the
    new entries of my history, and how far it is complete."""

    cells: CellNames
    """Of all these messages. (Erratum: without it nobody could tell from a timestamp who else takes part.)"""
    stamps: tuple[Stamp, ...]
    count: int
    promise: int
    """With the first `count` entries my history up to this timestamp is complete: I give no such timestamp again."""
    lives: Lives = ()

    def served(self) -> tuple[MessageId, ...]:
        return tuple(stamp.message for stamp in self.stamps)


class History(Letter, frozen=True):
    """Destination -> the sites of its cell (step 4): my history up to the sequence number that was decided. The entries
    have gone with `Stamps`; here are the bodies of those that perhaps nobody else has."""

    message: MessageId
    """What was decided."""
    count: int
    promise: int
    bodies: tuple[Multicast, ...]
    lives: Lives = ()

    def served(self) -> tuple[MessageId, ...]:
        return (self.message, *(body.id for body in self.bodies))


class Overdue(Letter, frozen=True):
    """Destination or source -> destination: these messages have been here for long."""

    background = True
    unsettled: tuple[MessageId, ...]
    """I have not heard whether your application has taken them."""
    through: Mark | None
    """Where the last of these stands in the order of delivery, or something behind it."""
    undecided: tuple[MessageId, ...]
    """I have not heard which sequence number they got."""


class Gone(Letter, frozen=True):
    """Destination -> destination of its cell: these are over here. You have not taken them, so the others have gone on
    without you."""

    background = True
    messages: tuple[MessageId, ...]
    through: Mark
    """None of them stands behind this in the order of delivery."""


class CatchUp(Letter, frozen=True):
    """A site that has lost its memory, or letters -> whoever may know more: tell me what I should know."""

    background = True
    incarnation: int
    cursor: int
    """Where the previous answer ended; 0: from the beginning."""


class Known(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a site knows of one message."""

    message: MessageId
    cells: CellNames
    index: int
    timestamp: int
    """In the sender's history; 0 and 0 when it has given it none."""
    settled: bool


class AddressState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Of one destination set: which of its consensus instances are decided, and who leads the next."""

    cells: CellNames
    next: int
    above: tuple[int, ...]
    leaders: tuple[tuple[int, SiteId], ...]


class Resumption(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a site that was given up can go on."""

    through: Mark
    """What stands up to here in the order of delivery may be gone."""
    offsets: Offsets
    """Of the groups, at that place."""
    addresses: tuple[AddressState, ...]


class Summary(Letter, frozen=True):
    """The answer, in pieces: the messages that are not over, and the decisions about them."""

    question: int
    """The number of the letter that it answers."""
    cursor: int
    last: bool
    base: int
    """The entries in the sender's history when this began: those of them that no piece names are over."""
    known: tuple[Known, ...]
    decisions: tuple[tuple[InstanceName, Value], ...]
    reached: Mark | None
    """How far the sender has come in the order of delivery."""
    given_up: Resumption | None
    """With the last piece, to a site of the sender's cell: what the sender no longer has for it."""
    lives: Lives = ()

    def served(self) -> tuple[MessageId, ...]:
        messages = [known.message for known in self.known]
        for _, value in self.decisions:
            messages += value.messages()
        return tuple(dict.fromkeys(messages))


FinishedState = tuple[
    SiteId, tuple[int, int], tuple[tuple[int, int], ...], int, tuple[tuple[int, tuple[int, int]], ...]
]
"""Source, floor, what is finished above it, the incarnation with which its log begins, floors of earlier ones."""


class Lost(Letter, frozen=True):
    """A site that has lost its log -> its cell: believe nothing that I said before, and tell me where you stand."""

    background = True
    life: int


class Vouch(Letter, frozen=True):
    """The answer, in parts: I believe nothing that you said before this life."""

    background = True
    life: int
    part: int
    parts: int
    clock: int
    mark: Mark | None
    offsets: Offsets
    addresses: tuple[AddressState, ...]
    open: tuple[OpenState, ...]
    finished: tuple[FinishedState, ...]


class KnownLoss(Record, frozen=True):
    """A site has lost its log: what it said before this life counts for nothing. Stable before we vouch."""

    site: SiteId
    life: int


class Stamped(Record, frozen=True):
    """At a destination: a message and the timestamp that it was given here. At a source that is a destination it stands
    for `Sent` as well."""

    multicast: Multicast
    index: int
    timestamp: int


class Body(Record, frozen=True):
    """At a destination: a message that was decided before it came."""

    multicast: Multicast


class Delivered(Record, frozen=True):
    """At a destination: everything up to here is delivered."""

    sequence: int
    message: MessageId


class Skipped(Record, frozen=True):
    """What I have not delivered up to here I never shall: the others have gone on without me."""

    resumption: Resumption


class Remembered(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message in a checkpoint."""

    message: MessageId
    cells: CellNames
    multicast: Multicast | None
    index: int
    timestamp: int
    sequence: int
    instance: InstanceName
    delivered: bool


class State(Record, frozen=True):
    """A checkpoint."""

    clock: int
    count: int
    mark: Mark | None
    entries: tuple[Remembered, ...]
    addresses: tuple[AddressState, ...]
    open: tuple[OpenState, ...]
    decisions: tuple[tuple[InstanceName, Value], ...]
    finished: tuple[tuple[SiteId, tuple[int, int], tuple[tuple[int, int], ...]], ...]
    """Source, floor, and what is finished above it."""
    skipped: Mark | None = None
    offsets: Offsets = ()
    given_up: tuple[tuple[SiteId, Mark], ...] = ()
    reached: tuple[tuple[int, Mark], ...] = ()
    """Cell, and how far somebody there has come who has taken our messages."""
    lives: Lives = ()
    begun: tuple[tuple[SiteId, int, tuple[tuple[int, tuple[int, int]], ...]], ...] = ()
    """Source that has lost its log, the incarnation with which it began anew, and the floors of the lives before."""
    lowest: int = 0
    """No promise below this is made."""
    barred: tuple[tuple[CellNames, int], ...] = ()
