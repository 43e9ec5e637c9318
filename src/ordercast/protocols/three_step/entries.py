"""Messages that are not over: what this site knows of each."""

from __future__ import annotations

import msgspec

from ordercast.protocols.parts.kept import Kept, KeptMessages
from ordercast.protocols.parts.multicast import Data


class Standing(msgspec.Struct, frozen=True, gc=False):
    """Where a message stands in one cell, as far as is known."""

    epoch: int
    place: int
    timestamp: int


class Entry(Kept, eq=False, gc=False):
    """What a destination, or the source, knows of a message until it is over everywhere. `sequence` is its final
    timestamp."""

    place: int = 0
    """In our cell, in the epoch that we have started; 0: none."""
    data: Data | None = None
    """As it came from its source, which may have sent it to nobody else."""
    logged: bool = False
    """Whether the body is in the log."""
    standings: dict[int, Standing] = msgspec.field(default_factory=dict)
    """Cell -> where it stands there, of the latest epoch that is known."""
    fixed: dict[int, int] = msgspec.field(default_factory=dict)
    """Cell -> its timestamp there, which a quorum has accepted."""
    highest: int = 0
    """The highest timestamp for which we have raised our clock and said so; 0: none yet."""


class Entries(KeptMessages[Entry]):
    """Every message that is not over."""

    make = Entry
