"""Suspicion: a site finds out that its list has failed or goes on without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part
from ordercast.core.effects import DeclareRecovered
from ordercast.protocols.classic.token.patience import CALM_SECONDS
from ordercast.protocols.classic.token.turns import Version

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token

REJOIN_RETRIES = 4
"""A site that was left out waits so many retries before it comes: its installation may be on the way."""
REJOIN_SECONDS_MAX = 5.0
"""Longer than this nobody who could take part is left out."""


class Suspicion(Part):
    """The watchdog over the list, and over being in it."""

    timers = ("watchdog", "rejoin")
    branches = ("left-out",)

    def __init__(self, core: Token) -> None:
        self._core = core
        self._failures = 0
        """Attempts to form a list that have failed one after the other."""
        self._recovering = False
        """After a crash: not yet in a list that works."""
        self._rejoining = False
        self._rejoins = 0
        self._rejoined_at = 0.0

    # ------------------------------------------------------------------ silence
    def watch_ring(self) -> None:
        """Suspect a failure when nothing is heard from here on. At random up to twice as long, so that not everybody
        originates a list at the same time."""
        core = self._core
        core.set_timer("watchdog", core.patience.silence() * (1 + core.context.random.random()))

    def watch_reformation(self) -> None:
        """Give the originator the time that it takes."""
        core = self._core
        core.set_timer("watchdog", core.patience.reformation() * (1 + core.context.random.random()))

    def back_off(self) -> None:
        """An attempt has failed: the next one comes later, and later each time."""
        core = self._core
        self._failures += 1
        longer = min(4, 1 << self._failures >> 1)
        core.set_timer("watchdog", core.options.suspicion_seconds * longer * (0.5 + core.context.random.random() / 2))

    def on_watchdog_timeout(self) -> None:
        """Nothing was heard. A token site hears nothing because it is the one who speaks."""
        if self._core.system.outside:
            return
        self.watch_ring()
        if not self._core.ring.holds_token:
            self._core.probing.suspect("silence")

    def note_alive(self) -> None:
        """A token site was heard, so the list works: whatever was suspected is over, unless a new list is being
        formed."""
        core = self._core
        self.watch_ring()
        self._failures = 0
        core.block("majority", "")
        if self._recovering:
            self.note_recovered()
        if core.attempt.stage in ("probing", "catching-up") and not core.probing.is_for_change:
            core.attempt.end()

    # ------------------------------------------------------------------ after a crash
    def begin_recovery(self) -> None:
        """Find out whether the list goes on without this site; unless it knows that, because it has lost its log."""
        self._recovering = True
        self._core.probing.suspect("recovery")

    def note_recovered(self) -> None:
        """The site is in a list that works: after a crash, this is the end of the recovery."""
        if self._recovering:
            self._recovering = False
            self._core.outbox.append(DeclareRecovered())

    # ------------------------------------------------------------------ being left out
    def note_left_out(self, version: Version) -> None:
        """There is a later list: come in when it does not come by itself."""
        core = self._core
        if core.system.outside:
            return
        core.reformation.note_version(version)
        if not self._rejoining and not core.attempt.stage:
            if core.now - self._rejoined_at > CALM_SECONDS:
                self._rejoins = 0
            self._rejoining = True
            retries = core.patience.retry_after(0) * REJOIN_RETRIES * (1 << min(self._rejoins, 8))
            core.set_timer("rejoin", min(retries, REJOIN_SECONDS_MAX) * (1 + core.context.random.random()))

    def on_rejoin_timeout(self) -> None:
        """Still left out?"""
        core = self._core
        self._rejoining = False
        left_out = core.reformation.seen > core.ledger.version
        if left_out and core.joining.installing is None and not core.attempt.stage:
            core.branch("left-out")
            self._rejoins += 1
            self._rejoined_at = core.now
            core.probing.suspect("left out")
