"""Messages that are not over: what this site knows of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import MessageId, Multicast, SiteId, WireError
from ordercast.protocols.parts.consensus_packets import InstanceName
from ordercast.protocols.scalatom.address import Address

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom


OVERHEAD_BYTES = 1024
"""What a message takes beside its payload: its entry, timestamps, history entries, its share of a decision."""


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
        self.ordinal = core.context.incarnation << 32
        """The last that was given."""
        self._payload_bytes = 0

    def note(self, message: MessageId, address: Address) -> Entry | None:
        """What we know of a message from now on; None when it is over."""
        entry = self.get(message)
        core = self._core
        if entry is None and not core.multicast.is_finished(message):
            if message.source not in core.ranks:
                raise WireError(f"{message.source} is not a site of the system")
            self.ordinal += 1
            entry = self[message] = Entry(message, address, self.ordinal, core.watching.tick)
            if message.source == core.site and message.incarnation < core.loss.life:
                # A message of our life before: no credit comes back with it.
                entry.taken = True
            core.watching.keep_watching()
        return entry

    def keep(self, entry: Entry, multicast: Multicast) -> None:
        """The message itself is here."""
        if entry.multicast is None:
            self._payload_bytes += len(multicast.payload)
        entry.multicast = multicast
        if self.is_full:
            self._core.absence.on_full()

    def forget(self, entry: Entry) -> bool:
        """A message is over; whether it was not before."""
        if self.pop(entry.message, None) is None:
            return False
        if entry.multicast is not None:
            self._payload_bytes -= len(entry.multicast.payload)
        return True

    @property
    def bytes_kept(self) -> int:
        """What all these take."""
        return self._payload_bytes + OVERHEAD_BYTES * len(self)

    @property
    def is_full(self) -> bool:
        """Whether it is time to give up those who are away."""
        options = self._core.options
        messages = max(len(self), self._core.source.span)
        return messages >= options.kept_messages_max or self.bytes_kept >= options.kept_bytes_max

    def body(self, message: MessageId) -> Multicast | None:
        """The message itself, when it is here."""
        entry = self.get(message)
        return None if entry is None else entry.multicast

    def want(self, entry: Entry, holder: SiteId) -> None:
        """We have heard of a message from somebody who has it."""
        core = self._core
        if core.site in entry.address.sites:
            core.multicast.want(entry.message, (holder, *entry.address.others, entry.message.source))
