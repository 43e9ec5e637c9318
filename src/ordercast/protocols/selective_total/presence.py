"""Who is there: how long each site has been silent, who applies, which incarnation of it is meant.

Silence is counted in periods and not in seconds: a clock may jump.
"""

from __future__ import annotations

from collections.abc import Iterable

from ordercast.core import Context, Packet, Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.selective_total.options import SelectiveTotalOptions
from ordercast.protocols.selective_total.packets import Apply, Vector

PRESENT_PERIODS = 10
"""Whoever has applied within so many periods is there: several losses in a row are rare."""


class Presence(Part):
    """What one site knows of the others, whatever cluster they are in."""

    packets = (Apply,)

    def __init__(self, context: Context, options: SelectiveTotalOptions) -> None:
        self._site = context.site
        self._silence_periods = max(4, round(options.silence_seconds / options.receive_ready_seconds))
        self.periods = 0
        """So many have passed since the start."""
        self.silent: dict[SiteId, int] = dict.fromkeys(context.sites, PRESENT_PERIODS + 1)
        """Periods since anything was heard of a site."""
        self.applied: dict[SiteId, int] = {}
        """Who has applied, and how many periods ago."""
        self.incarnations: dict[SiteId, int] = dict.fromkeys(context.sites, 0)
        """How often each site has come back from a crash, as far as known."""
        self.incarnations[context.site] = context.incarnation
        self.number = 0
        """The highest number of an epoch that it has heard of."""

    # ------------------------------------------------------------------ what is heard
    def on_heard(self, sender: SiteId, packet: Packet) -> None:
        """Whatever comes shows that its sender is there; and who speaks otherwise no longer applies."""
        if sender in self.silent:
            self.silent[sender] = 0
            if self.applied and not isinstance(packet, Apply):
                self.applied.pop(sender, None)

    def on_apply(self, sender: SiteId, packet: Apply, arrival: Arrival) -> None:
        """A site is in no cluster."""
        self.note_number(packet.number)
        if sender in self.silent:
            self.applied[sender] = 0
            self.incarnations[sender] = max(self.incarnations[sender], packet.incarnation)

    def note_number(self, number: int) -> None:
        """Someone speaks of an epoch with this number."""
        self.number = max(self.number, number)

    def note_incarnations(self, members: Iterable[SiteId], incarnations: Iterable[int]) -> None:
        """An agreement means these."""
        self.incarnations.update(zip(members, incarnations, strict=False))

    def incarnations_of(self, members: Iterable[SiteId]) -> Vector:
        """Which one of each is meant in an agreement of ours."""
        return tuple(self.incarnations[member] for member in members)

    # ------------------------------------------------------------------ what follows from it
    def pass_period(self) -> None:
        """One more period in which nothing was heard, for those of whom nothing was."""
        self.periods += 1
        for site in self.silent:
            self.silent[site] += 1
        self.silent[self._site] = 0
        self.applied = {site: periods + 1 for site, periods in self.applied.items() if periods < PRESENT_PERIODS}

    def reborn(self, members: Iterable[SiteId], incarnations: Iterable[int]) -> set[SiteId]:
        """Those of whom another incarnation is known than the one that is meant."""
        meant = zip(members, incarnations, strict=False)
        return {site for site, incarnation in meant if self.incarnations[site] != incarnation}

    def find_change(self, current: Iterable[SiteId], new: set[SiteId]) -> tuple[SiteId, ...] | None:
        """Those of the current members who are alive, and the new ones; None when that is no change."""
        members = set(current)
        alive = {site for site in members if self.silent[site] <= self._silence_periods} | {self._site}
        if alive == members and not new:
            return None
        return tuple(sorted(alive | new))

    def find_founders(self) -> tuple[SiteId, ...] | None:
        """Everyone, when everyone applies; after a long silence, those who do."""
        there = {site for site, periods in self.applied.items() if periods <= PRESENT_PERIODS} | {self._site}
        others = any(self.silent[site] <= self._silence_periods for site in self.silent if site not in there)
        if len(there) == len(self.silent) or (self.periods > self._silence_periods and not others):
            return tuple(sorted(there))
        return None
