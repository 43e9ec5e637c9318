"""Messages that are kept until all destinations have taken them: what a site knows of each, and what the parts that
see to that (`keeping.py`, `absence.py`, `source.py`) ask of their host."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec

from ordercast.core import GroupId, MessageId, Multicast, Protocol, SiteId, WireError
from ordercast.core.events import Consumed, MulticastRequested, Started
from ordercast.protocols.parts.address import Addresses, Destinations
from ordercast.protocols.parts.cell_options import CellOptions
from ordercast.protocols.parts.cells import Cells
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.parts.kept_packets import Offsets
from ordercast.protocols.parts.link import Posting
from ordercast.protocols.parts.multicast import Mark, ReliableMulticast

if TYPE_CHECKING:
    from ordercast.protocols.parts.absence import Absence
    from ordercast.protocols.parts.keeping import Keeping
    from ordercast.protocols.parts.source import Source
    from ordercast.protocols.parts.watch import Watch

OVERHEAD_BYTES = 1024
"""What a message takes beside its payload: its entry, timestamps, history entries, its share of a decision."""


class Kept(msgspec.Struct, eq=False, gc=False):
    """What a destination, or the source, knows of a message until it is over everywhere."""

    message: MessageId
    address: Destinations
    ordinal: int
    """Grows with each message that this site hears of."""
    born_tick: int
    multicast: Multicast | None = None
    sequence: int = 0
    """Its number in the order of delivery; 0: not known."""
    delivered: bool = False
    settled: set[SiteId] = msgspec.field(default_factory=set)
    """Whose applications have taken it."""
    taken: bool = False
    """At the source: these are a qualified majority."""

    @property
    def key(self) -> Mark:
        """The order of delivery. Sequence numbers of different messages are often equal, and then the names decide."""
        return self.sequence, self.message


AnyKept = TypeVar("AnyKept", bound=Kept)


class KeptMessages(dict[MessageId, AnyKept], Generic[AnyKept]):
    """Every message that is not over, in the order in which we heard of them. Bounded by what each source may have
    under way."""

    make: ClassVar[type[Any]] = Kept
    """What is kept of one."""

    def __init__(self, core: Keeper) -> None:
        super().__init__()
        self._core = core
        # No ordinal is given twice. (Else: c has a piece of our answer, up to our 164th message, and asks for the rest;
        # we crash, number what is left from 1, and answer that there is nothing after the 164th; c takes our history
        # for complete, and delivers what should come later.)
        self.ordinal = core.context.incarnation << 32
        """The last that was given."""
        self.here = 0
        """Those of which this site is a destination."""
        self._payload_bytes = 0

    def note(self, message: MessageId, address: Destinations) -> AnyKept | None:
        """What we know of a message from now on; None when it is over."""
        entry = self.get(message)
        if entry is None and not self._core.multicast.is_finished(message):
            entry = self.begin(message, address)
        return entry

    def begin(self, message: MessageId, address: Destinations) -> AnyKept:
        """What we know of a message that is neither known nor over."""
        core = self._core
        if message.source not in core.ranks:
            raise WireError(f"{message.source} is not a site of the system")
        self.ordinal += 1
        entry: AnyKept = self.make(message, address, self.ordinal, core.watching.tick)
        self[message] = entry
        if core.site in address.sites:
            self.here += 1
        if not core.watching.is_running:
            core.watching.keep_watching()
        return entry

    def keep(self, entry: AnyKept, multicast: Multicast) -> None:
        """The message itself is here."""
        if entry.multicast is None:
            self._payload_bytes += len(multicast.payload)
        entry.multicast = multicast
        if self.is_full:
            self._core.absence.on_full()

    def forget(self, entry: AnyKept) -> bool:
        """A message is over; whether it was not before."""
        return self.forget_all((entry,)) > 0

    def forget_all(self, over: Iterable[AnyKept]) -> int:
        """Messages are over; how many of them were not before."""
        pop, here = self.pop, self._core.site
        count = payload_bytes = are_here = 0
        for entry in over:
            if pop(entry.message, None) is not None:
                count += 1
                if entry.multicast is not None:
                    payload_bytes += len(entry.multicast.payload)
                if here in entry.address.sites:
                    are_here += 1
        self._payload_bytes -= payload_bytes
        self.here -= are_here
        return count

    @property
    def bytes_kept(self) -> int:
        """What all these take."""
        return self._payload_bytes + OVERHEAD_BYTES * len(self)

    @property
    def is_full(self) -> bool:
        """Whether it is time to give up those who are away."""
        options, count = self._core.options, len(self)
        return (
            self._payload_bytes + OVERHEAD_BYTES * count >= options.kept_bytes_max
            or count >= options.kept_messages_max
            or len(self._core.source.own) >= options.kept_messages_max
        )

    def body(self, message: MessageId) -> Multicast | None:
        """The message itself, when it is here."""
        entry = self.get(message)
        return None if entry is None else entry.multicast

    def want(self, entry: AnyKept, holder: SiteId) -> None:
        """We have heard of a message from somebody who has it."""
        core = self._core
        if core.site in entry.address.sites:
            core.multicast.want(entry.message, (holder, *entry.address.others, entry.message.source))


class Keeper(Protocol):
    """A core that keeps messages until all have taken them."""

    logs_what_it_sends: ClassVar[bool] = False
    """Whether a source that is a destination logs its message before it is ordered."""
    reports_with_its_turns: ClassVar[bool] = False
    """Whether what was taken is told together with whatever else is to be said; soon, if there is nothing."""
    wants_consumed = True

    options: CellOptions
    cells: Cells
    cellmates: tuple[SiteId, ...]
    """The other sites of our cell."""
    ranks: Mapping[SiteId, int]
    """Site -> its place among all sites."""
    addresses: Addresses[Any]
    entries: KeptMessages[Any]
    detector: FailureDetector
    multicast: ReliableMulticast
    link: Posting
    watching: Watch
    source: Source
    keeping: Keeping
    absence: Absence

    @property
    @abstractmethod
    def mark(self) -> Mark | None:
        """The last delivery, or what was skipped behind it."""

    @property
    def is_lost(self) -> bool:
        """Whether the site has lost its log and counts for nothing yet."""
        return False

    def whom_to_tell_first(self, multicast: Multicast, address: Destinations) -> tuple[SiteId, ...]:
        """To whom a message of ours goes at first; the others hear of it, and ask for it where they must."""
        return address.others

    @abstractmethod
    def on_own(self, multicast: Multicast) -> None:
        """A message of this site, of which it is a destination."""

    def on_own_sent(self, multicast: Multicast) -> None:
        """The same, when it is not from the log."""
        self.on_own(multicast)

    @abstractmethod
    def on_forgotten(self, entry: Any) -> None:
        """A message is over: what else is known of it can go."""

    def on_started(self, event: Started) -> None:
        """Tell the application how much it may send."""
        self.source.give_credit()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Any site may multicast to any groups."""
        self.source.multicast(event.multicast)

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries."""
        self.keeping.on_consumed(event.count)

    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold."""
        return len(self.entries)

    def has_reached(self, mark: Mark | None) -> bool:
        """Whether everything up to there is delivered here, or skipped."""
        return mark is None or (self.mark is not None and self.mark >= mark)


def offsets_at(offsets: Mapping[GroupId, int], entries: Iterable[Kept], mark: Mark) -> Offsets:
    """The offsets of a site when that was delivered. What it delivered behind it is all among the entries, since the
    one who asks has not taken it."""
    then = dict(offsets)
    for entry in entries:
        if entry.delivered and entry.multicast is not None and entry.key > mark:
            for group in entry.multicast.groups:
                if group in then:
                    then[group] -= entry.multicast.count
    return tuple(then.items())
