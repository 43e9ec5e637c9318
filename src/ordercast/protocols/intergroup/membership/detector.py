"""The fault detector (5.6): whoever has been silent for longer than its Keep Alives and its distance explain is
suspected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ordercast.core import SiteId
from ordercast.protocols.intergroup.membership.packets import SENDERS_MAX

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.protocol import InterGroup

PATIENCE_FACTOR = 1.5
"""By so much a wrong suspicion makes the detector more patient."""
PATIENCE_MAX = 4.0
NEARLY = 0.5
"""Whoever has been silent for this part of its time is suspected together with another one. (Else: b hears nobody any
more, and says so of one after the other; c believes of a what b says, a loses b and c, and all fall apart. Told of all
three at once, each of them loses b alone.)"""


class Detector:
    """When each process was heard last, by the local clock."""

    def __init__(self, core: InterGroup) -> None:
        self._core = core
        self.heard: dict[SiteId, float] = {}
        """Process -> when something came from it."""
        self._patience: dict[SiteId, float] = {}
        self.suspected: set[SiteId] = set()

    def hear(self, site: SiteId) -> None:
        """Something came from it. A suspicion was wrong, then."""
        if self.suspected and site in self.suspected:
            self.suspected.discard(site)
            self._core.branch("suspected-wrongly")
            if len(self._patience) < SENDERS_MAX:
                patience = self._patience.get(site, 1.0) * PATIENCE_FACTOR
                self._patience[site] = min(PATIENCE_MAX, patience)
        heard = self.heard
        if site in heard or len(heard) < SENDERS_MAX:
            heard[site] = self._core.now

    def watch(self, sites: Iterable[SiteId]) -> None:
        """These are to be heard from now on, and nobody else. Who was suspected stays so until it is heard, though it
        is in no view any more: then the suspicion was wrong."""
        now = self._core.now
        self.heard = {site: self.heard.get(site, now) for site in sites}

    def begin_anew(self) -> None:
        """This process was asleep, or its clock was set: what it has not heard meanwhile says nothing."""
        self.heard = dict.fromkeys(self.heard, self._core.now)

    def refresh(self, site: SiteId) -> None:
        """Wait for it from now on."""
        if len(self.heard) < SENDERS_MAX:
            self.heard[site] = self._core.now
        self.suspected.discard(site)

    def timeout(self, site: SiteId) -> float:
        """How long it may be silent."""
        return (self._usual() + 2 * self._core.control.distance(site)) * self._patience.get(site, 1.0)

    def _usual(self) -> float:
        # Whoever repairs and is no sender yet is only heard with each period of the membership timer.
        options = self._core.membership.options
        return options.silent_keep_alives * max(options.keep_alive_seconds, options.membership_seconds / 2)

    def suspect(self, sites: Iterable[SiteId]) -> set[SiteId]:
        """Those of them that are suspected now and were not before."""
        others = [site for site in sites if site != self._core.site and site not in self.suspected]
        now, usual = self._core.now, self._usual()
        for site in others:
            self.heard.setdefault(site, now)
        # Distances and patience only lengthen what is usual, and cost more than most ticks are worth.
        long = [site for site in others if now - self.heard[site] > usual]
        if all(self._silence(site) <= 1.0 for site in long):
            return set()
        found = {site for site in others if self._silence(site) > NEARLY}
        if len(self.suspected) >= SENDERS_MAX:
            # Those of long ago are not worth more memory; whoever is silent now is suspected again.
            self.suspected.clear()
        self.suspected |= found
        return found

    def _silence(self, site: SiteId) -> float:
        """For how much of its time it has been silent."""
        return (self._core.now - self.heard[site]) / self.timeout(site)

    def is_suspected(self, site: SiteId) -> bool:
        """Whether it has been silent for too long."""
        return site in self.suspected
