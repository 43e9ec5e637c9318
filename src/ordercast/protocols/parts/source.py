"""A source: its messages until they are over, and how much of them may be under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ordercast.core import MessageId, Multicast, Part, SiteId, UsageError
from ordercast.core.effects import Credit
from ordercast.protocols.parts.address import Destinations
from ordercast.protocols.parts.kept_packets import Sent
from ordercast.protocols.parts.multicast import Mark

if TYPE_CHECKING:
    from ordercast.protocols.parts.kept import Keeper, Kept

NOWHERE: Mark = (0, MessageId("", 0, 0))
"""Before every place in the order of delivery."""


class Source(Part):
    """A site that multicasts, member or not."""

    records = (Sent,)
    branches = ("window-full",)

    def __init__(self, core: Keeper) -> None:
        self._core = core
        self._own_cell = core.cells.of_site(core.site)
        self.own: deque[MessageId] = deque()
        """Our messages in order, from the oldest that is not over: what others remember of us grows with them."""
        self._under_way = 0
        """Of these, the ones that no qualified majority has taken."""
        self._is_held_up = False
        """Whether we have given no credit because too much is kept."""
        self.reached: dict[int, Mark] = {}
        """Cell -> how far somebody there has come in the order of delivery who said that it has taken our messages."""

    def multicast(self, multicast: Multicast) -> None:
        """Log it, send it; if this site is a destination, it has it at once."""
        core = self._core
        options = core.options
        # Credit is told late, by as long as two writes of the log take, and does not count what is sent meanwhile:
        # an application that keeps to it is never above four times the bound. (At twice the bound: credit that was
        # given while one write was under way comes when it and the next are done, and the application has used what
        # came between; its next message is refused for good.)
        if self._under_way >= 4 * options.window_messages or len(self.own) >= 2 * options.kept_messages_max:
            raise UsageError(f"{self._under_way} messages are under way: wait for credit before the next multicast")
        address = core.addresses.of(multicast)
        member = core.site in address.sites
        entry = self._keep(multicast, address)
        if not member or core.logs_what_it_sends:
            if core.context.stable:
                core.append(Sent(multicast))
            core.entries.keep(entry, multicast)
        if len(self.own) == 1:
            # Else the oldest is the one that it was.
            self._raise_floor()
        if member:
            core.on_own_sent(multicast)
        core.multicast.multicast(multicast, core.whom_to_tell_first(multicast, address))
        self._is_held_up = self._available() == 0
        if self._is_held_up:
            core.branch("window-full")
        if not core.watching.is_running:
            core.watching.keep_watching()

    def keep(self, multicast: Multicast) -> Kept:
        """Remember a message of ours until it is over."""
        return self._keep(multicast, self._core.addresses.of(multicast))

    def _keep(self, multicast: Multicast, address: Destinations) -> Kept:
        entry: Kept | None = self._core.entries.note(multicast.id, address)
        if entry is None:
            raise UsageError(f"there was a message {multicast.id} already")
        self.own.append(entry.message)
        self._under_way += 1
        return entry

    def note_settled(self, entry: Kept) -> None:
        """One more destination has taken a message of ours."""
        if not entry.taken and entry.address.quorum.is_met(entry.settled):
            self._take_back_credit(entry)
            self.give_credit()

    def note_delivered(self, entries: Iterable[Kept]) -> None:
        """For hosts that deliver in the order of the whole cell: what of this is ours is under way no longer.

        (Not before a majority of the applications has taken it: a source whose messages are few waits with the next
        one until somebody has got round to saying so.)
        """
        before, here = self._under_way, self._core.site
        for entry in entries:
            if entry.message.source == here and not entry.taken:
                self._take_back_credit(entry)
        if self._under_way < before:
            self.give_credit()

    def _take_back_credit(self, entry: Kept) -> None:
        entry.taken = True
        self._under_way -= 1

    def note_finished(self, entries: Iterable[Kept]) -> None:
        """All destinations have.

        It may be over before anybody said that it was taken. (Else: a message to the source alone is in the log as
        delivered; after a crash it is over at once, and its credit is gone for ever.)
        """
        is_own, here = False, self._core.site
        for entry in entries:
            if entry.message.source == here:
                is_own = True
                if not entry.taken:
                    self._take_back_credit(entry)
        if is_own:
            own = self.own
            if own and own[0] not in self._core.entries:
                while own and own[0] not in self._core.entries:
                    own.popleft()
                self._raise_floor()
            self.give_credit()
        elif self._is_held_up and self._under_way < self._core.options.window_messages and self._available() > 0:
            self.give_credit()

    def note_reached(self, site: SiteId, mark: Mark | None) -> None:
        """A destination has come so far."""
        cell = self._core.cells.of_site(site)
        if cell is not None and mark is not None and mark > self.reached.get(cell, NOWHERE):
            self.reached[cell] = mark

    def reached_by(self, site: SiteId) -> Mark | None:
        """How far somebody of a site's cell has come."""
        cell = self._core.cells.of_site(site)
        return None if cell is None else self.reached.get(cell)

    def bounds(self, multicast: Multicast) -> tuple[Mark | None, ...]:
        """What goes with our floor: in each addressed cell nothing of ours that is over stands behind this.

        (Without: we have given up z, and call m finished; z hears that with our next message, and hears of m from b,
        which keeps it for z; z takes it for old, and delivers what comes after m without m.)
        """
        core, reached = self._core, self.reached
        mark = core.mark
        if mark is not None and self._own_cell is not None and mark > reached.get(self._own_cell, NOWHERE):
            reached[self._own_cell] = mark
        cells = core.addresses.of(multicast).cells
        return (reached.get(cells[0]),) if len(cells) == 1 else tuple([reached.get(cell) for cell in cells])

    def _raise_floor(self) -> None:
        """Let the others know from where on messages of ours may still come: copies of earlier ones are old."""
        core = self._core
        if self.own:
            core.multicast.floor = (self.own[0].incarnation, self.own[0].number)
            core.multicast.source(core.site).raise_floor(core.multicast.floor)

    def _available(self) -> int:
        options = self._core.options
        if self._core.is_lost or self._core.entries.bytes_kept >= options.kept_bytes_max:
            return 0
        return max(0, min(options.window_messages - self._under_way, options.kept_messages_max - len(self.own)))

    def is_held_up(self) -> bool:
        """Whether nothing more can be sent because of what is kept, and not because of what is under way."""
        return self._available() == 0 and self._under_way < self._core.options.window_messages

    def give_credit(self) -> None:
        """Tell the application how much it may send."""
        available = self._available()
        self._is_held_up = available == 0
        self._core.outbox.append(Credit(available))

    def recall_sent(self, record: Sent) -> None:
        """A message that we have multicast."""
        core, multicast = self._core, record.multicast
        entry = self.keep(multicast)
        core.entries.keep(entry, multicast)
        if core.site in entry.address.sites:
            core.on_own(multicast)

    def resume(self) -> None:
        """After a crash: who has our messages is not known any more, so they are sent again."""
        core = self._core
        for message in self.own:
            entry = core.entries.get(message)
            if entry is not None and entry.multicast is not None:
                core.multicast.multicast(entry.multicast, entry.address.others)
        self._raise_floor()
        self.give_credit()
