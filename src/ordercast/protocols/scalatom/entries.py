"""Messages that are not over: what this site knows of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import MessageId, Multicast, SiteId, WireError
from ordercast.protocols.parts.consensus_packets import InstanceName
from ordercast.protocols.scalatom.address import Address

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom


class Entry:
    """What a destination, or the source, knows of a message until it is over everywhere."""

    __slots__ = (
        "address",
        "born_tick",
        "delivered",
        "index",
        "instance",
        "message",
        "multicast",
        "ordinal",
        "sequence",
        "settled",
        "stamps",
        "taken",
        "timestamp",
    )

    def __init__(self, message: MessageId, address: Address, ordinal: int, tick: int) -> None:
        self.message = message
        self.address = address
        self.ordinal = ordinal
        """Grows with each message that this site hears of."""
        self.born_tick = tick
        self.multicast: Multicast | None = None
        self.index = 0
        self.timestamp = 0
        """rec-ts, given here; 0: none."""
        self.stamps: dict[SiteId, int] = {}
        """All that is known of the timestamps that the destinations gave."""
        self.sequence = 0
        """sn(m); 0: not decided."""
        self.instance: InstanceName = ()
        """The consensus that decided it."""
        self.delivered = False
        self.settled: set[SiteId] = set()
        """Whose applications have taken it."""
        self.taken = False
        """At the source: these are a qualified majority."""

    @property
    def key(self) -> tuple[int, MessageId]:
        """The order of delivery. Sequence numbers of different messages are often equal, and then the names decide."""
        return self.sequence, self.message


class Entries(dict[MessageId, Entry]):
    """Every message that is not over, in the order in which we heard of them. Bounded by what each source may have
    under way."""

    def __init__(self, core: Scalatom) -> None:
        super().__init__()
        self._core = core
        # No ordinal is given twice. (Else: c has a piece of our answer, up to our 164th message, and asks for the rest;
        # we crash, number what is left from 1, and answer that there is nothing after the 164th; c takes our history
        # for complete, and delivers what should come later.)
        self._ordinal = core.context.incarnation << 32

    def note(self, message: MessageId, address: Address) -> Entry | None:
        """What we know of a message from now on; None when it is over."""
        entry = self.get(message)
        core = self._core
        if entry is None and not core.multicast.is_finished(message):
            if message.source not in core.ranks:
                raise WireError(f"{message.source} is not a site of the system")
            self._ordinal += 1
            entry = self[message] = Entry(message, address, self._ordinal, core.watching.tick)
            core.watching.keep_watching()
        return entry

    def body(self, message: MessageId) -> Multicast | None:
        """The message itself, when it is here."""
        entry = self.get(message)
        return None if entry is None else entry.multicast

    def want(self, entry: Entry, holder: SiteId) -> None:
        """We have heard of a message from somebody who has it."""
        core = self._core
        if core.site in entry.address.sites:
            core.multicast.want(entry.message, (holder, *entry.address.others, entry.message.source))
