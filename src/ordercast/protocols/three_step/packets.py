"""What sites say to each other in three steps, beside what the parts say, and what they write to the log."""

from __future__ import annotations

import msgspec

from ordercast.core import MessageId, Multicast, Packet, Record, SiteId
from ordercast.protocols.parts.kept_packets import CellNames, Offsets
from ordercast.protocols.parts.multicast import Data, Mark
from ordercast.protocols.parts.primary_packets import Over, Place, Resumption


class Proposal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a message stands in the sender's cell."""

    place: int
    message: MessageId
    timestamp: int


class Propose(Packet, frozen=True):
    """Primary -> destinations (step 2): these messages stand at these places of my cell. It is also the primary's word.
    Any other site says so when it is asked."""

    epoch: int
    cells: CellNames
    """Of all these messages."""
    proposals: tuple[Proposal, ...]
    all_speak: bool = False
    """Whether the primary waits for words, so that those who would wait with theirs should not."""

    def served(self) -> tuple[MessageId, ...]:
        return tuple(proposal.message for proposal in self.proposals)


class Placed(Packet, frozen=True):
    """Primary -> its cell (steps 1 and 2): a small message together with its place; what `Data` and `Propose` say."""

    data: Data
    """As it came from its source."""
    epoch: int
    place: int
    timestamp: int
    all_speak: bool

    def served(self) -> tuple[MessageId, ...]:
        return self.data.served()


class Word(Packet, frozen=True):
    """Destination -> destinations (step 3): in this epoch of my cell I have accepted so many places, and give or accept
    no timestamp any more that is not above this clock. Both only grow, so the last word is enough."""

    epoch: int
    count: int
    clock: int
    messages: tuple[MessageId, ...]
    """One for whose sake it is said; none where only the sender's cell hears it."""

    def served(self) -> tuple[MessageId, ...]:
        return self.messages


class Asked(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message that one asks about."""

    message: MessageId
    cells: CellNames
    is_here: bool
    """Whether the sender has the body."""


class Ask(Packet, frozen=True):
    """Whoever keeps a message for long -> its destinations: what do you know of these?"""

    promised: int
    started: int
    count: int
    """Where the sender stands in its cell."""
    mark: Mark | None
    """How far it has come in the order of delivery."""
    asked: tuple[Asked, ...]

    def served(self) -> tuple[MessageId, ...]:
        return tuple(asked.message for asked in self.asked)


class Told(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a destination knows of a message that it has delivered."""

    message: MessageId
    sequence: int
    """final(m); 0: it is over here, and nothing else is known."""
    is_taken: bool
    """Whether its application has it."""


class Answer(Packet, frozen=True):
    """Destination -> whoever asked: these are delivered here, and this is how far I have come."""

    told: tuple[Told, ...]
    reached: Mark | None
    taken: Mark | None
    """My application has taken everything that is addressed to me up to here."""

    def served(self) -> tuple[MessageId, ...]:
        return tuple(told.message for told in self.told)


class Taken(Packet, frozen=True):
    """Destination -> destinations: my application has taken everything that is addressed to me up to here."""

    background = True
    through: Mark


class GoOn(Packet, frozen=True):
    """Site -> site of its cell that was given up: I no longer have what you lack; go on here."""

    background = True
    resumption: Resumption


class Body(Record, frozen=True):
    """A message that stands at a place of a start."""

    multicast: Multicast


class Acceptance(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A place that was accepted."""

    message: MessageId
    timestamp: int
    multicast: Multicast | None
    """None where the log has it already, or it is over."""


class Accepted(Record, frozen=True):
    """These places are accepted, from a number on; and the clock. Stable before the word is said."""

    first: int
    acceptances: tuple[Acceptance, ...]
    clock: int


class Delivered(Record, frozen=True):
    """These are delivered, in this order. Stable before the application has them."""

    keys: tuple[Mark, ...]


class Skipped(Record, frozen=True):
    """What I have not delivered up to here I never shall: the others have gone on without me."""

    resumption: Resumption


class Remembered(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message in a checkpoint."""

    message: MessageId
    cells: CellNames
    multicast: Multicast | None
    sequence: int
    delivered: bool


class State(Record, frozen=True):
    """A checkpoint."""

    promised: int
    started: int
    base: int
    places: tuple[Place, ...]
    clock: int
    mark: Mark | None
    offsets: Offsets
    entries: tuple[Remembered, ...]
    finished: tuple[Over, ...]
    given_up: tuple[tuple[SiteId, Mark], ...]
    reached: tuple[tuple[int, Mark], ...]
    """Cell, and how far somebody there has come who has taken our messages."""
