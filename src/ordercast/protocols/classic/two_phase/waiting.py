"""Patience: what is not answered is said again, and at last the application hears whom we wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part

if TYPE_CHECKING:
    from ordercast.protocols.classic.two_phase.protocol import TwoPhase


class Waiting(Part):
    """One timer for both roles; it runs while there is anything to wait for."""

    timers = ("tick",)
    branches = ("blocked", "unblocked")

    def __init__(self, core: TwoPhase) -> None:
        self._core = core
        self.tick = 0
        """Counts the intervals of `retransmit_seconds` in which there was anything to do. Waiting is measured in them,
        not by the site's clock, which may jump."""
        self._ticking = False

    def keep_ticking(self) -> None:
        """There is something that may have to be repeated, or that may block."""
        if not self._ticking:
            self._ticking = True
            self._core.set_timer("tick", self._core.options.retransmit_seconds)

    def on_tick_timeout(self) -> None:
        """Repeat what was not answered, and say whether we are blocked."""
        core = self._core
        self.tick += 1
        core.source.resend()
        reason = core.source.whom_we_wait_for() or core.destination.whom_we_wait_for()
        if reason != core.obstacle("waiting"):
            core.branch("blocked" if reason else "unblocked")
            core.block("waiting", reason)
        self._ticking = False
        if core.source.pending or core.destination.entries or reason:
            self.keep_ticking()

    def is_long(self, since_tick: int) -> bool:
        """Whether what began then lasts for long enough to speak of it."""
        options = self._core.options
        return (self.tick - since_tick) * options.retransmit_seconds >= options.blocked_seconds
