"""What is kept of messages, and when it is forgotten: when the applications of all destinations have taken them, but
for those that were given up (`absence.py`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from ordercast.core import MessageId, Packet, Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.parts.address import Destinations
from ordercast.protocols.parts.kept_packets import Settled
from ordercast.protocols.parts.multicast import Mark

if TYPE_CHECKING:
    from ordercast.protocols.parts.kept import Keeper, Kept

SETTLED_MAX = 256
"""Messages in one acknowledgement: some kilobytes."""


class Keeping(Part):
    """Who has settled what, as far as this site knows."""

    packets: ClassVar[tuple[type[Packet], ...]] = (Settled,)
    timers = ("acknowledge",)

    def __init__(self, core: Keeper) -> None:
        self._core = core
        self._given: deque[Kept] = deque()
        """Handed to the application and not taken yet, in order."""
        self._last_taken: Mark | None = None
        """Of what was handed to it, the last that it has taken."""
        self._unreported: dict[Destinations, list[Kept]] = {}
        self._unreported_count = 0

    # ------------------------------------------------------------------ our own application
    def on_given(self, ready: Sequence[Kept]) -> None:
        """The application gets messages."""
        self._given.extend(ready)

    def on_consumed(self, count: int) -> None:
        """The application has taken deliveries. (The count may include replays, of which nothing is expected.)"""
        core = self._core
        taken = min(count, len(self._given))
        if taken:
            self._last_taken = self._given[taken - 1].key
        for _ in range(taken):
            entry = self._given.popleft()
            if not self._unreported_count:
                core.set_timer("acknowledge", core.options.acknowledge_seconds)
            self._unreported_count += 1
            self._unreported.setdefault(entry.address, []).append(entry)
            self.note_settled(entry, core.site)
        if self.is_report_due and not core.reports_with_its_turns:
            self.report()

    @property
    def taken(self) -> Mark | None:
        """Our application has taken everything that is addressed to us up to here, or we have skipped it: deliveries
        are in the order of their keys.

        (The last delivery instead: a slow reader has taken nothing for a minute, the sources hear that it has all, and
        nothing holds them up.)
        """
        return self._last_taken if self._given else self._core.mark

    @property
    def is_report_due(self) -> bool:
        """Whether so much was taken that the others should hear of it."""
        return self._unreported_count >= self._core.options.acknowledge_every

    def on_acknowledge_timeout(self) -> None:
        """They have waited for long enough."""
        self.report()

    def report(self) -> None:
        """Tell the other destinations, and the sources, what was taken."""
        unreported, self._unreported = self._unreported, {}
        self._unreported_count = 0
        outside: dict[SiteId, list[MessageId]] = {}
        for address, entries in unreported.items():
            self._send(address.others, [entry.message for entry in entries])
            for entry in entries:
                source = entry.message.source
                if source not in address.sites:
                    outside.setdefault(source, []).append(entry.message)
        for source, messages in outside.items():
            self._send((source,), messages)

    def _send(self, to: tuple[SiteId, ...], messages: list[MessageId]) -> None:
        link = self._core.link
        if to:
            for first in range(0, len(messages), SETTLED_MAX):
                names = tuple(messages[first : first + SETTLED_MAX])
                link.post(to, Settled(link.next, names, self._core.mark))

    # ------------------------------------------------------------------ the others'
    def on_settled(self, sender: SiteId, packet: Settled, arrival: Arrival) -> None:
        """Another destination has taken these."""
        core = self._core
        core.source.note_reached(sender, packet.reached)
        find, note_settled = core.entries.get, self.note_settled
        for name in packet.settled:
            entry = find(name)
            if entry is not None and sender in entry.address.sites:
                note_settled(entry, sender)
        core.link.acknowledge(sender, packet)

    def tell_settled(self, site: SiteId, messages: Iterable[MessageId], through: Mark | None) -> None:
        """Say what we have taken of these; or do not need, because it is over here, or we have gone past it without
        ever having heard of it."""
        core = self._core
        is_passed = through is not None and core.has_reached(through)
        ours = []
        for name in messages:
            entry = core.entries.get(name)
            if entry is None and is_passed:
                # A copy that comes later is old.
                core.multicast.finish(name)
            if core.multicast.is_finished(name) if entry is None else core.site in entry.settled:
                ours.append(name)
        self._send((site,), ours)

    def on_old(self, sender: SiteId, message: MessageId) -> None:
        """A copy of a message that is over here: the sender does not know that."""
        self._send((sender,), [message])

    def note_marks(self) -> None:
        """For hosts that hear how far applications have come: let each message know who has taken it."""

    def note_settled(self, entry: Kept, site: SiteId) -> None:
        """One more application has it."""
        entry.settled.add(site)
        if not entry.taken and entry.message.source == self._core.site:
            self._core.source.note_settled(entry)
        if self.is_over(entry):
            self.forget(entry)

    def is_over(self, entry: Kept) -> bool:
        """Whether all destinations have taken it: then nobody will ever ask for it. Those for whom we keep nothing any
        more do not count."""
        return len(entry.settled) == len(entry.address.sites) or self._core.absence.is_without(entry)

    def forget(self, entry: Kept) -> None:
        """All that is known of it."""
        core = self._core
        if not core.entries.forget(entry):
            return
        core.multicast.finish(entry.message)
        core.on_forgotten(entry)
        core.source.note_finished((entry,))
