"""Messages that are not over: what this site knows of each."""

from __future__ import annotations

import msgspec

from ordercast.core import MessageId
from ordercast.protocols.parts.address import Destinations
from ordercast.protocols.parts.kept import Kept, KeptMessages
from ordercast.protocols.parts.multicast import Data


class Standing(msgspec.Struct, frozen=True, gc=False):
    """Where a message stands in one cell, as far as is known."""

    epoch: int
    place: int
    timestamp: int


class Entry(Kept):
    """What a destination, or the source, knows of a message until it is over everywhere. `sequence` is its final
    timestamp."""

    __slots__ = ("data", "fixed", "highest", "logged", "place", "standings")

    def __init__(self, message: MessageId, address: Destinations, ordinal: int, tick: int) -> None:
        # As in `Kept`, without a call: there is one for each message at every site.
        self.message = message
        self.address = address
        self.ordinal = ordinal
        self.born_tick = tick
        self.multicast = None
        self.sequence = 0
        self.delivered = self.taken = False
        self.settled = set()
        self.place = 0
        """In our cell, in the epoch that we have started; 0: none."""
        self.data: Data | None = None
        """As it came from its source, which may have sent it to nobody else."""
        self.logged = False
        """Whether the body is in the log."""
        self.standings: dict[int, Standing] = {}
        """Cell -> where it stands there, of the latest epoch that is known."""
        self.fixed: dict[int, int] = {}
        """Cell -> its timestamp there, which a quorum has accepted."""
        self.highest = 0
        """The highest timestamp for which we have raised our clock and said so; 0: none yet."""


class Entries(KeptMessages[Entry]):
    """Every message that is not over."""

    make = Entry
