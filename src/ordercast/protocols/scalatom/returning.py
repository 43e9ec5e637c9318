"""Returning: how a site goes on that was given up while it was away (`parts/absence.py`).

Each site of its cell tells it, with the answer to its question, through which place in the order of delivery there is
nothing left for it. A history with such a hole does not count before the site is past the hole. Where too few others
are left, it *skips*: it leaves its groups, drops what it has not delivered up to the lowest place at which a majority
can tell it everything that follows, and enters there, with the offsets that the others had.

It has its log: its timestamps, promises and what it has adopted hold. What it lacks are decisions. It jumps over those
that nobody has any more; messages of its own time that were decided in them are told to be gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ordercast.core import MessageId, Part, SiteId
from ordercast.core.effects import EnterGroup, ExitGroup
from ordercast.core.events import Arrival
from ordercast.protocols.parts.kept import offsets_at
from ordercast.protocols.parts.multicast import Mark
from ordercast.protocols.scalatom.packets import Gone, Resumption, Skipped

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom

GONE_MAX = 256
"""Messages in one packet: some kilobytes."""
STUCK_TICKS = 4
"""Intervals of the watch: longer than it takes to get what somebody has."""


class Returning(Part):
    """What we have missed, and what others have."""

    packets = (Gone,)
    records = (Skipped,)
    branches = ("skipped", "gone")

    def __init__(self, core: Scalatom) -> None:
        self._core = core
        self.skipped: Mark | None = None
        """The last place up to which we have skipped."""
        self._stuck_ticks = 0
        self._stuck_at: Mark | None = None

    # ------------------------------------------------------------------ what we tell a site that comes back
    def resumption_for(self, site: SiteId) -> Resumption | None:
        """What we no longer have for a site of our cell: what we have given up for it, and what we have skipped
        ourselves.

        (Without the second: we have stamped m, were away, and skipped it; b has m, and keeps it for c; c takes our
        history, in which m is not any more, for complete.)
        """
        core = self._core
        through = self._through_for(site)
        if through is None:
            return None
        addresses = tuple(address.begin_of_next() for address in core.addresses if site in address.sites)
        return Resumption(through, offsets_at(core.histories.offsets, core.entries.values(), through), addresses)

    def _through_for(self, site: SiteId) -> Mark | None:
        given_up = self._core.absence.given_up.get(site)
        return max((mark for mark in (given_up, self.skipped) if mark is not None), default=None)

    def tell_gone(self, site: SiteId, messages: Iterable[MessageId]) -> None:
        """A site of our cell speaks of messages; it may not know that some of them are over here."""
        core = self._core
        through = self._through_for(site) if site in core.cellmates else None
        if through is not None:
            over = [name for name in messages if name not in core.entries and core.multicast.is_finished(name)]
            for first in range(0, len(over), GONE_MAX):
                core.link.post((site,), Gone(core.link.next, tuple(over[first : first + GONE_MAX]), through))

    # ------------------------------------------------------------------ what we are told
    def on_gone(self, sender: SiteId, packet: Gone, arrival: Arrival) -> None:
        """Messages that wait here were decided without us. If we are past them, they are over; if not, we have to hear
        what else the sender no longer has."""
        core = self._core
        waiting = [core.entries[name] for name in packet.messages if name in core.entries]
        waiting = [entry for entry in waiting if not entry.sequence and core.site in entry.address.sites]
        if waiting and not core.has_reached(packet.through):
            core.catching.begin(sender)
        elif waiting:
            core.branch("gone")
            for entry in waiting:
                core.keeping.forget(entry)
            core.consensus.abandon(core.ordering.is_over)
            core.consensus.reconsider()
            core.histories.deliver()
        core.link.acknowledge(sender, packet)

    def on_told(self) -> None:
        """The answer of a site of our cell is complete: skip, if too few histories are without a hole."""
        histories = self._core.histories
        if self._core.loss.lost:
            return
        self.on_moved()
        holes = self._holes()
        if holes:
            first = holes[0].through[0]
            whole = sum(histories.is_usable(mate) and mate.promise >= first for mate in histories.mates.values())
            # A majority of the cell, without us.
            needed = (len(histories.mates) + 1) // 2
            if whole < needed <= whole + len(holes):
                self._skip(holes[needed - whole - 1])

    def _holes(self) -> list[Resumption]:
        """Those that are before us, the nearest first."""
        histories = self._core.histories
        told = (mate.resumption for mate in histories.mates.values() if not histories.is_usable(mate))
        return sorted((hole for hole in told if hole is not None), key=lambda hole: hole.through)

    def on_tick(self) -> None:
        """Some time has passed. If we have come no further, those who could tell us the rest may be gone.

        (Else: c has forgotten less than b, so we skip to where c can go on; c is gone before we have everything that it
        had, and b does not have it.)
        """
        histories = self._core.histories
        holes = self._holes()
        self._stuck_ticks = self._stuck_ticks + 1 if holes and histories.mark == self._stuck_at else 0
        self._stuck_at = histories.mark
        if self._stuck_ticks >= STUCK_TICKS:
            self._stuck_ticks = 0
            if len(holes) >= (len(histories.mates) + 1) // 2:
                self._skip(holes[0])

    def _skip(self, resumption: Resumption) -> None:
        core = self._core
        core.branch("skipped")
        core.append(Skipped(resumption))
        self.take_over(resumption)
        core.consensus.reconsider()
        core.ordering.resume()
        core.catching.ask_undecided()
        core.histories.deliver()

    def take_over(self, resumption: Resumption) -> None:
        """Leave the groups, and enter them again behind the gap."""
        core = self._core
        for group, _ in resumption.offsets:
            core.outbox.append(ExitGroup(group))
        self.skipped = resumption.through
        core.histories.offsets.update(resumption.offsets)
        core.histories.skip_through(resumption.through)
        core.ordering.advance(resumption.through[0])
        self._jump(resumption)
        for group, offset in resumption.offsets:
            core.outbox.append(EnterGroup(group, offset))
        self.on_moved()

    def on_moved(self) -> None:
        """We have come further: we are past some holes, and need none of the decisions that went with them."""
        core = self._core
        histories = core.histories
        for mate in histories.mates.values():
            if mate.resumption is not None and histories.is_usable(mate):
                resumption, mate.resumption = mate.resumption, None
                self._jump(resumption)
                core.ordering.resume()

    def _jump(self, resumption: Resumption) -> None:
        """Know that consensus instances are decided of which nobody can tell us the decision any more."""
        core = self._core
        for state in resumption.addresses:
            core.addresses.named(state.cells).jump(state)
        core.consensus.abandon(core.ordering.is_over)

    def is_skipped(self, mark: Mark) -> bool:
        """Whether we have skipped what stands there."""
        return self.skipped is not None and mark <= self.skipped

    def recall_skipped(self, record: Skipped) -> None:
        """We have left our groups, and entered them again."""
        self.take_over(record.resumption)
