"""Small messages of our cell alone, which come with their places or get them here: all is done when they come.

The rules are those of `ordering.py` and `delivery.py`. There, whatever came in a turn is answered together at its end.
(For a message that comes alone that is as much work again: a timer, and a look at all that may have come.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import SiteId
from ordercast.protocols.parts.primary_packets import Place
from ordercast.protocols.three_step.entries import Entry, Standing
from ordercast.protocols.three_step.packets import Acceptance, Accepted, Proposal

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep


class AtOnce:
    """Places that are given, and accepted, when a message comes."""

    def __init__(self, core: ThreeStep) -> None:
        self._core = core
        self._logs = core.context.stable

    # ------------------------------------------------------------------ the primary
    def proposes(self) -> bool:
        """Whether we are the primary, and nothing waits for a place that came before."""
        core = self._core
        return core.primary.leads and not (core.ordering.unplaced or core.ordering.is_waiting)

    def propose(self, entry: Entry) -> None:
        """Rule 2, for a message that stands nowhere."""
        core, ordering = self._core, self._core.ordering
        epoch, timestamp = core.primary.started, ordering.clock + 1
        self._put(entry, timestamp)
        ordering.own_voices.stand_here(entry, epoch, ordering.count, timestamp)
        core.delivery.open.append((timestamp, entry.message))
        core.forwarding.send(entry.address, [Proposal(ordering.count, entry.message, timestamp)])
        core.speaking.said = epoch, ordering.count, timestamp
        if ordering.own_voices.hear(core.site, epoch, ordering.count, timestamp):
            # In a cell of one. (Else: nobody else's word comes, and the message waits for ever.)
            ordering.own_voices.fix()
            core.delivery.deliver()
        if core.keeping.is_report_due:
            core.keeping.report()

    # ------------------------------------------------------------------ a follower
    def accepts(self, sender: SiteId, epoch: int) -> bool:
        """Whether the sender is our primary in an epoch in which we may speak, and we are a quorum with it, and nothing
        waits that it has put to places."""
        core = self._core
        primary = core.primary
        return (
            epoch == primary.started == primary.promised
            and not core.ordering.is_waiting
            and core.ordering.own_voices.quorum == 2
            and sender == primary.primary_of(epoch)
        )

    def accept(self, entry: Entry, primary: SiteId, epoch: int, timestamp: int) -> None:
        """Rules 3 to 5, for a message that the primary has put to the next place. Only our word may wait for the end of
        the turn, where it stands for several."""
        core, ordering = self._core, self._core.ordering
        voices = ordering.own_voices
        self._put(entry, timestamp)
        if ordering.unplaced:
            ordering.unplaced.pop(entry.message, None)
        count, clock = ordering.count, ordering.clock
        entry.standings[voices.cell] = Standing(epoch, count, timestamp)
        core.speaking.said = epoch, count, clock
        voices.hear(primary, epoch, count, timestamp)
        voices.hear(core.site, epoch, count, clock)
        if not core.speaking.waits_with_word(entry):
            ordering.speak_of(entry)
        if core.keeping.is_report_due:
            core.keeping.report()
        core.delivery.deliver_at_once(entry, timestamp)

    # ------------------------------------------------------------------ both
    def _put(self, entry: Entry, timestamp: int) -> None:
        """One more place, with a record of its own."""
        core, ordering = self._core, self._core.ordering
        place = ordering.count = ordering.count + 1
        ordering.places.append(Place(entry.message, timestamp))
        if timestamp > ordering.clock:
            ordering.clock = timestamp
        entry.place, entry.highest = place, timestamp
        core.delivery.hear_primary(place, timestamp)
        if self._logs:
            multicast = None if entry.logged else entry.multicast
            core.append(Accepted(place, (Acceptance(entry.message, timestamp, multicast),), ordering.clock))
        entry.logged = True
