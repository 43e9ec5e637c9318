"""What applications have taken, told by one place in the order of delivery: they take everything in that order.

(One by one: of each message every site tells every other one by its name, which is a quarter of all work.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from ordercast.core import MessageId, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.address import Destinations
from ordercast.protocols.parts.keeping import Keeping
from ordercast.protocols.parts.kept import Kept
from ordercast.protocols.parts.multicast import Mark
from ordercast.protocols.parts.primary import TIMESTAMP_MAX
from ordercast.protocols.parts.source import NOWHERE
from ordercast.protocols.three_step.entries import Entry
from ordercast.protocols.three_step.packets import Taken

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep


class Taking(Keeping):
    """How far the application of each site has come, and what is over by that."""

    packets = (*Keeping.packets, Taken)
    _core: ThreeStep

    def __init__(self, core: ThreeStep) -> None:
        super().__init__(core)
        self._taken_by: dict[SiteId, Mark] = {}
        """Site -> its application has taken everything that is addressed to it up to there."""
        self._kept: dict[Destinations, deque[Kept]] = {}
        """What is delivered here and not over, in the order of delivery; dead items are dropped later."""
        self._to_tell: set[SiteId] = set()
        """Who does not know how far our application has come."""
        self._to_sources: dict[SiteId, list[MessageId]] = {}
        """The same of sources that are no destinations: these know messages by their names only."""

    def adopt(self) -> None:
        """Not everything that is delivered here was delivered in this life, or at all."""
        self._kept.clear()
        delivered = (entry for entry in self._core.entries.values() if entry.delivered)
        for entry in sorted(delivered, key=lambda entry: entry.key):
            self._kept.setdefault(entry.address, deque()).append(entry)
        if self.taken is not None:
            self.note_taken(self._core.site, self.taken)

    # ------------------------------------------------------------------ our own application
    def on_given(self, ready: Sequence[Kept]) -> None:
        """The application gets messages."""
        self._given.extend(ready)
        for address, entries in groupby(ready, key=attrgetter("address")):
            kept = self._kept.get(address)
            if kept is None:
                kept = self._kept[address] = deque()
            kept.extend(entries)

    def on_consumed(self, count: int) -> None:
        """The application has taken deliveries. (The count may include replays, of which nothing is expected.)"""
        core, given = self._core, self._given
        taken = min(count, len(given))
        if not taken:
            return
        if not self._unreported_count:
            core.set_timer("acknowledge", core.options.acknowledge_seconds)
        self._unreported_count += taken
        address: Destinations | None = None
        for _ in range(taken):
            entry = given.popleft()
            if entry.address is not address:
                address = entry.address
                self._to_tell.update(address.others)
            source = entry.message.source
            if source not in entry.address.sites:
                self._to_sources.setdefault(source, []).append(entry.message)
        self._last_taken = entry.key
        self.note_taken(core.site, self.taken or NOWHERE)

    def report(self) -> None:
        """Tell the other destinations, and the sources, what was taken."""
        core, taken = self._core, self.taken
        to, self._to_tell = self._to_tell, set()
        sources, self._to_sources = self._to_sources, {}
        self._unreported_count = 0
        if to and taken is not None:
            core.send(tuple(sorted(to)), Taken(taken))
        for source, messages in sources.items():
            self._send((source,), messages)

    # ------------------------------------------------------------------ all applications
    def on_taken(self, sender: SiteId, packet: Taken, arrival: Arrival) -> None:
        """The application of another destination has come so far."""
        if self._core.cells.of_site(sender) is None or not 0 < packet.through[0] <= TIMESTAMP_MAX:
            raise WireError(f"{sender} has taken {packet.through}, which nobody can have delivered there")
        self._core.source.note_reached(sender, packet.through)
        self.note_taken(sender, packet.through)

    def note_taken(self, site: SiteId, through: Mark) -> None:
        """A site has taken everything that is addressed to it up to there: forget what all have taken."""
        before = self._taken_by.get(site, NOWHERE)
        if through <= before:
            return
        self._taken_by[site] = through
        for address, kept in self._kept.items():
            # Whoever has taken the first of them before is not the one for whom it is kept.
            if kept and site in address.sites and before < kept[0].key:
                self._forget_taken(address, kept)

    def _forget_taken(self, address: Destinations, kept: deque[Kept]) -> None:
        entries, absence = self._core.entries, self._core.absence
        through = min([self._taken_by.get(site, NOWHERE) for site in address.sites])
        over: list[Entry] = []
        while kept:
            entry = kept[0]
            message = entry.message
            found = entries.get(message)
            if found is not None:
                if (entry.sequence, message) > through and not (absence.given_up and self.is_over(entry)):
                    break
                over.append(found)
            kept.popleft()
        if over:
            self._forget_all(over)

    def _forget_all(self, over: list[Entry]) -> None:
        """As `forget`, of many at once."""
        core = self._core
        core.entries.forget_all(over)
        core.multicast.finish_all([entry.message for entry in over])
        core.ordering.forget_all(over)
        core.source.note_finished(over)

    def has_taken(self, site: SiteId, entry: Kept) -> bool:
        """Whether a site is known to have taken a message."""
        if site in entry.settled:
            return True
        if entry.sequence and entry.key <= self._taken_by.get(site, NOWHERE):
            entry.settled.add(site)
            return True
        return False

    def is_over(self, entry: Kept) -> bool:
        """Whether all destinations have taken it, but for those for whom we keep nothing any more."""
        missing = [site for site in entry.address.sites if not self.has_taken(site, entry)]
        return not missing or self._core.absence.is_without(entry)

    def note_marks(self) -> None:
        """Let each message know who has taken it."""
        for entry in self._core.entries.values():
            for site in entry.address.sites:
                self.has_taken(site, entry)
