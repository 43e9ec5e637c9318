"""Absence: what is kept for sites that do not take it, and that they are given up in the end.

A site keeps a message until all destinations have taken it. At the bound on what is kept, those who have not are asked
whether they are there. Whoever answers is slow, and holds the sources up, which is said. Whoever is silent is *given
up* through a place in the order of delivery: what stands before that, and all others have taken, is forgotten. Each
site does so by itself, and remembers the place; whoever comes back learns it from the host, and goes on behind it.

Nothing is forgotten that a qualified majority has not taken. So any majority of the absent site's cell, itself
included, holds a site that has taken the message: that one has it, or knows that it is gone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.protocols.parts.kept_packets import GivenUp
from ordercast.protocols.parts.multicast import Mark

if TYPE_CHECKING:
    from ordercast.protocols.parts.kept import Keeper, Kept


class Absence(Part):
    """For whom we wait with forgetting, and for whom not."""

    records = (GivenUp,)
    branches = ("given-up", "held-up")

    def __init__(self, core: Keeper) -> None:
        self._core = core
        self.given_up: dict[SiteId, Mark] = {}
        """Site -> nothing is kept for it up to there. It stays for good: who asks later must hear the same."""
        self._given_up_as_source: dict[SiteId, int] = {}
        """The same for our messages to groups that we are not in, by ordinals, since we do not know their places."""
        self._waiting: set[SiteId] = set()
        """Who has not taken what is kept, at the bound: they are watched."""

        self._is_due = False
        self._next_look = 0
        """Not before this ordinal: what holds us up does not change with every message."""

    # ------------------------------------------------------------------ what is over without somebody
    def is_without(self, entry: Kept) -> bool:
        """Whether all but those that were given up have taken a message."""
        return bool(self.given_up or self._given_up_as_source) and self._is_without(entry, ())

    def _is_without(self, entry: Kept, silent: Collection[SiteId]) -> bool:
        """The same, if these were given up as well."""
        settled = entry.settled
        for site in entry.address.sites:
            if not (site in settled or site in silent or self._is_given_up(entry, site)):
                return False
        return entry.address.quorum.is_met(settled)

    def _is_given_up(self, entry: Kept, site: SiteId) -> bool:
        if self._core.site in entry.address.sites:
            through = self.given_up.get(site)
            return through is not None and bool(entry.sequence) and entry.key <= through
        return entry.ordinal <= self._given_up_as_source.get(site, 0)

    def on_loss(self, site: SiteId) -> None:
        """A site of our cell has lost its log: it cannot be given what is delivered here, only where that ends."""
        core = self._core
        mark = core.mark
        if mark is not None and (site not in self.given_up or mark > self.given_up[site]):
            self.given_up[site] = mark
            core.append(GivenUp(site, mark))

    # ------------------------------------------------------------------ at the bound
    def on_full(self) -> None:
        """As much is kept as may be. (Looked at when the step ends: before, somebody may be about to read what is to be
        forgotten.)"""
        core = self._core
        is_due = core.entries.ordinal >= self._next_look and not core.is_lost
        if is_due and not self._is_due:
            core.finish_with(self._on_full_step)
        self._is_due = is_due

    def _on_full_step(self) -> None:
        if self._is_due:
            self._is_due = False
            entries = self._core.entries
            self._next_look = entries.ordinal + max(1, len(entries) // 8)
            self._look()

    def on_tick(self) -> None:
        """Some time has passed."""
        if self._core.entries.is_full:
            self._look()
        elif self._waiting:
            self._wait_for(set())

    def on_suspected(self, site: SiteId) -> None:
        """Somebody does not answer."""
        if site in self._waiting and self._core.entries.is_full:
            self._give_up()

    def _look(self) -> None:
        """Watch those who have not taken what a qualified majority has; give up those who are silent."""
        waiting: set[SiteId] = set()
        self._core.keeping.note_marks()
        for entry in self._core.entries.values():
            if len(entry.settled) < len(entry.address.sites) and entry.address.quorum.is_met(entry.settled):
                waiting.update(site for site in entry.address.sites if site not in entry.settled)
        waiting.discard(self._core.site)
        self._wait_for(waiting)
        self._give_up()

    def _wait_for(self, sites: set[SiteId]) -> None:
        detector = self._core.detector
        for site in sorted(sites - self._waiting):
            detector.watch(site)
        for site in sorted(self._waiting - sites):
            detector.unwatch(site)
        self._waiting = sites

    def _give_up(self) -> None:
        """Forget what all but the silent have taken; how far that is for each of them is logged before.

        (Else: we crash, and tell z, when it comes back, that there is nothing that we do not have.)
        """
        core = self._core
        silent = self._waiting & core.detector.suspected
        if not silent:
            return
        core.keeping.note_marks()
        through: dict[SiteId, Mark] = {}
        for entry in core.entries.values():
            if not self._is_without(entry, silent):
                continue
            for site in silent.intersection(entry.address.sites).difference(entry.settled):
                if core.site in entry.address.sites:
                    through[site] = max(entry.key, through.get(site, entry.key))
                else:
                    self._given_up_as_source[site] = core.entries.ordinal
        for site, mark in sorted(through.items()):
            if site not in self.given_up or mark > self.given_up[site]:
                self.given_up[site] = mark
                core.append(GivenUp(site, mark))
        for site in sorted(silent):
            if site in through or site in self._given_up_as_source:
                core.branch("given-up")
                core.link.estrange(site)
        for entry in list(core.entries.values()):
            if self.is_without(entry):
                core.keeping.forget(entry)
        core.source.give_credit()

    def whom_we_wait_for(self) -> str:
        """Why a source may send nothing, when that is because of somebody who is there, and slow."""
        core = self._core
        slow = sorted(self._waiting - core.detector.suspected)
        if not slow or not core.source.is_held_up():
            return ""
        core.branch("held-up")
        return f"{len(core.entries)} messages are kept until {', '.join(slow)} has taken them"

    def recall_given_up(self, record: GivenUp) -> None:
        """Nothing is kept for a site up to there."""
        self.given_up[record.site] = record.through
