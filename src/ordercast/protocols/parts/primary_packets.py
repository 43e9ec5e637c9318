"""What the sites of a cell say to each other, and log, when another of them is to order."""

from __future__ import annotations

import msgspec

from ordercast.core import MessageId, Packet, Record, SiteId
from ordercast.protocols.parts.kept_packets import CellNames, Offsets
from ordercast.protocols.parts.multicast import Mark


class Place(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What stands at one place; its number is where it is among its fellows."""

    message: MessageId
    timestamp: int


class Over(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which messages of one source are over."""

    source: SiteId
    floor: tuple[int, int]
    above: tuple[tuple[int, int, int], ...]
    """Incarnation, first and last number of each run."""


class Passed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message that is delivered, and kept for somebody else."""

    message: MessageId
    cells: CellNames
    sequence: int


class Resumption(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a site that was given up can go on: at the sender's present state."""

    needed: Mark
    """Whoever has not come so far lacks something that the sender has forgotten."""
    through: Mark
    """The sender's last delivery."""
    offsets: Offsets
    finished: tuple[Over, ...]
    passed: tuple[Passed, ...]
    given_up: tuple[tuple[SiteId, Mark], ...]


class Doubt(Packet, frozen=True):
    """Site -> its cell: I do not hear the primary of this epoch. Do you?"""

    background = True
    epoch: int


class Agree(Packet, frozen=True):
    """The answer: neither do I."""

    background = True
    epoch: int


class Collect(Packet, frozen=True):
    """Site -> its cell: promise this epoch, and report to its primary."""

    background = True
    epoch: int


class Promise(Packet, frozen=True):
    """Site -> primary of an epoch: I take part in no earlier one any more; this is what I have accepted."""

    background = True
    epoch: int
    started: int
    base: int
    """So many places, from the first, are over here."""
    places: tuple[Place, ...]
    """Those that follow."""
    clock: int
    resumption: Resumption | None = None
    """What I no longer have for you."""


class Start(Packet, frozen=True):
    """Primary -> its cell: with this the epoch begins."""

    background = True
    epoch: int
    base: int
    places: tuple[Place, ...]
    clock: int
    resumption: Resumption | None = None


class Promised(Record, frozen=True):
    """I take part in no earlier epoch any more. Stable before anybody hears of it."""

    epoch: int


class Started(Record, frozen=True):
    """An epoch has begun here, with these places and this clock."""

    epoch: int
    base: int
    places: tuple[Place, ...]
    clock: int
