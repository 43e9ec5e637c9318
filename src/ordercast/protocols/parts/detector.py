"""A failure detector of class ◇S (Chandra and Toueg 1996): it may be wrong, but not for ever.

It watches only the sites that somebody waits for, so an idle system is silent and the traffic does not depend on the
number of sites. Each wrong suspicion doubles the patience with that site: once the network behaves, a site that is up
is no longer suspected (eventual accuracy), and one that is down stays suspected (completeness).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ordercast.core import Packet, Part, Protocol, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.parts.back_off import ticks_in


class Ping(Packet, frozen=True):
    """Are you there?"""

    background = True


class Pong(Packet, frozen=True):
    """I am."""

    background = True


class FailureDetector(Part):
    """What one site believes of others."""

    packets = (Ping, Pong)
    timers = ("detector",)
    branches = ("suspected", "wrongly-suspected")

    def __init__(
        self,
        host: Protocol,
        *,
        ping_seconds: float,
        suspicion_seconds: float,
        suspicion_seconds_max: float,
        on_suspected: Callable[[SiteId], None],
        on_trusted: Callable[[SiteId], None] = lambda site: None,
        is_return: Callable[[Packet], bool] = lambda packet: False,
        calm_ticks: int = 0,
    ) -> None:
        """`is_return` knows the packet with which a site comes back after a crash: it was suspected rightly. After
        `calm_ticks` intervals in which a site was never silent for long, patience with it is halved; 0: it stays."""
        self._host = host
        self._ping_seconds = ping_seconds
        # Patience is counted in intervals of the timer, not read from the clock, which may jump.
        self._patience = ticks_in(suspicion_seconds, ping_seconds)
        self._patience_max = max(self._patience, ticks_in(suspicion_seconds_max, ping_seconds))
        self._on_suspected = on_suspected
        self._on_trusted = on_trusted
        self._is_return = is_return
        self._calm_ticks = calm_ticks
        self.suspected: set[SiteId] = set()
        self.patience: dict[SiteId, int] = {}
        """Intervals of silence until a site is suspected, where that is no longer the initial value."""
        self._watched: Counter[SiteId] = Counter()
        self._silent: dict[SiteId, int] = {}
        """Watched site -> intervals since it was heard."""
        self._calm: dict[SiteId, int] = {}
        """Site with which we are more patient -> intervals without a long silence."""
        self._ticking = False

    # ------------------------------------------------------------------ what its user says
    def watch(self, site: SiteId) -> None:
        """Somebody waits for the site; calls are counted."""
        self._watched[site] += 1
        if self._watched[site] == 1:
            self._silent[site] = 0
            if not self._ticking:
                self._ticking = True
                self._host.set_timer("detector", self._ping_seconds)

    def unwatch(self, site: SiteId) -> None:
        """Nobody waits any more, when this was said as often as `watch`."""
        self._watched[site] -= 1
        if self._watched[site] <= 0:
            del self._watched[site]
            del self._silent[site]

    def trust(self, site: SiteId) -> None:
        """A suspicion was wrong, or the site is back: be more patient with it from now on."""
        self._host.branch("wrongly-suspected")
        self.suspected.discard(site)
        self.patience[site] = min(2 * self.patience.get(site, self._patience), self._patience_max)
        self._on_trusted(site)

    def _forgive(self, site: SiteId) -> None:
        """It was down, and is back. (Else: who is killed five times is missed for thirty times as long.)"""
        self.suspected.discard(site)
        self.patience.pop(site, None)
        self._on_trusted(site)

    def _note_calm(self, site: SiteId) -> None:
        """An interval is over; patience that nobody has needed for long goes."""
        patience = self.patience[site]
        calm = 0 if 4 * self._silent[site] > patience else self._calm.get(site, 0) + 1
        self._calm[site] = calm
        if calm >= self._calm_ticks:
            del self._calm[site]
            self.patience[site] = patience // 2
            if self.patience[site] <= self._patience:
                del self.patience[site]

    # ------------------------------------------------------------------ events
    def on_heard(self, sender: SiteId, packet: Packet) -> None:
        """Whoever is heard is there."""
        if sender in self._silent:
            self._silent[sender] = 0
        if sender in self.suspected:
            if self._is_return(packet):
                self._forgive(sender)
            else:
                self.trust(sender)
        elif sender in self.patience and self._is_return(packet):
            # What came from it before had overtaken this.
            self._forgive(sender)

    def on_ping(self, sender: SiteId, ping: Ping, arrival: Arrival) -> None:
        """Somebody waits for us."""
        self._host.send((sender,), Pong())

    def on_pong(self, sender: SiteId, pong: Pong, arrival: Arrival) -> None:
        """Heard already."""

    def on_detector_timeout(self) -> None:
        """An interval is over: ask the silent, suspect those who have been silent for long."""
        self._ticking = False
        overdue = []
        silent = []
        for site in sorted(self._silent):
            if self._calm_ticks and site in self.patience:
                self._note_calm(site)
            self._silent[site] += 1
            silent.append(site)
            if self._silent[site] > self.patience.get(site, self._patience):
                # From the beginning: whoever waits for a site that is suspected already hears of it again.
                self._silent[site] = 0
                overdue.append(site)
        if silent:
            self._ticking = True
            self._host.set_timer("detector", self._ping_seconds)
            self._host.send(tuple(silent), Ping())
        for site in overdue:
            self.suspect(site)

    def suspect(self, site: SiteId) -> None:
        """Its user may go on without the site."""
        if site not in self.suspected:
            self._host.branch("suspected")
            self.suspected.add(site)
        self._on_suspected(site)
