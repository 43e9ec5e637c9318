"""Patience: what does not come is asked for, ever more seldom, and at last the application hears whom we wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part
from ordercast.protocols.parts.back_off import BackOff, ticks_in

if TYPE_CHECKING:
    from ordercast.protocols.classic.lamport.protocol import Lamport


class Asking(Part):
    """One timer for everything that a site waits for; it runs while there is anything."""

    timers = ("interval",)

    def __init__(self, core: Lamport) -> None:
        self._core = core
        self.tick = 0
        """Counts the intervals of `interval_seconds` in which there was anything to wait for. Waiting is measured in
        them, not by the site's clock, which may jump."""
        self._running = False
        wait_ticks_max = ticks_in(core.options.interval_seconds_max, core.options.interval_seconds)
        self._patience = [BackOff(wait_ticks_max) for _ in core.context.sites]
        """By rank: when to ask a site next."""

    def seconds(self, ticks: int) -> float:
        """How long so many intervals take."""
        return ticks * self._core.options.interval_seconds

    def keep_asking(self) -> None:
        """There is something to wait for, or to report."""
        if not self._running:
            self._running = True
            self._core.set_timer("interval", self._core.options.interval_seconds)

    def hear_news(self, rank: int) -> None:
        """A site is there: ask soon when it falls silent."""
        self._patience[rank].begin_anew()

    def on_interval_timeout(self) -> None:
        """Ask for clocks, messages and acknowledgements that do not come; say whether we are blocked."""
        core = self._core
        source, destination = core.source, core.destination
        self.tick += 1
        ask, report = [], []
        busy = bool(destination.queue or source.pending)
        for rank, stream in enumerate(destination.streams):
            if rank == core.rank:
                continue
            has_gap = stream.has_gap
            if has_gap or destination.waits_for(rank) or source.is_unanswered(rank):
                busy = True
                if self._may_ask(rank):
                    ask.append(rank)
                    if has_gap:
                        destination.request(rank, stream.missing(stream.released + 1, stream.announced))
                    continue
            if stream.taken > stream.reported:
                report.append(rank)
        if ask:
            core.branch("asked")
            core.ticking.send_tick(ask, reply=True)
        if report:
            core.ticking.send_tick(report)
        self._tell_whether_blocked()
        self._running = False
        if busy or self._core.obstacle("waiting"):
            self.keep_asking()

    def _may_ask(self, rank: int) -> bool:
        """Whether it is time to ask a site; the next time it takes twice as long, unless the site has news."""
        patience = self._patience[rank]
        if self.tick < patience.next_tick:
            return False
        patience.note_attempt(self.tick)
        return True

    def _tell_whether_blocked(self) -> None:
        core = self._core
        reason = core.destination.whom_we_wait_for() or core.source.whom_we_wait_for()
        if reason != core.obstacle("waiting"):
            core.branch("blocked" if reason else "unblocked")
            core.block("waiting", reason)
