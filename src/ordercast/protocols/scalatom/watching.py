"""Patience: what has been here for long is asked about, and the application hears whom we wait for."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from ordercast.core import Part

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom


def is_time_to_ask(ticks: int) -> bool:
    """Whether to ask about a message that is so old: after two intervals, after four, then after every eight. (At every
    one: on a slow medium the questions are most of the traffic, and keep the answers away.)"""
    return ticks in (2, 4) or ticks % 8 == 0


class Watching(Part):
    """One timer for all messages; it runs while there are any."""

    timers = ("watch",)
    branches = ("blocked", "unblocked")

    def __init__(self, core: Scalatom) -> None:
        self._core = core
        self.tick = 0
        """Counts the intervals of the timer. Waiting is measured in them, not by the site's clock, which may jump."""
        self._running = False

    def keep_watching(self) -> None:
        """There is something that may be blocked."""
        if not self._running:
            self._running = True
            self._core.set_timer("watch", self._core.options.blocked_seconds / 2)

    def on_watch_timeout(self) -> None:
        """Say whether we are blocked, and by whom; ask about what has been here for long."""
        core = self._core
        self.tick += 1
        if core.loss.lost:
            self._running = False
            self.keep_watching()
            return
        core.absence.on_tick()
        core.returning.on_tick()
        old = takewhile(lambda entry: self.tick - entry.born_tick >= 2, core.entries.values())
        core.catching.ask_overdue(entry for entry in old if is_time_to_ask(self.tick - entry.born_tick))
        reason = self.whom_we_wait_for()
        if reason != core.obstacle("waiting"):
            core.branch("blocked" if reason else "unblocked")
            core.block("waiting", reason)
        self._running = False
        if core.entries or reason:
            self.keep_watching()

    def whom_we_wait_for(self) -> str:
        """Why the oldest message that should be delivered here, or taken elsewhere, is not; empty when it is young."""
        core = self._core
        for entry in core.entries.values():
            if self.tick - entry.born_tick < 2:
                break
            if core.site not in entry.address.sites:
                missing = entry.address.quorum.missing(entry.settled)
                if missing:
                    return f"{entry.message} is not taken by {', '.join(missing)}"
            elif not entry.sequence:
                missing = entry.address.quorum.missing(entry.stamps)
                if missing:
                    return f"{entry.message} has no timestamp from {', '.join(missing)}"
                return f"no sequence number is decided for {entry.message}"
            elif not entry.delivered:
                return core.histories.whom_we_wait_for(entry)
        return core.absence.whom_we_wait_for()
