"""Patience: what is not answered is said again, and at last the application hears whom we wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.classic.two_phase.packets import Held
from ordercast.protocols.parts.back_off import ticks_in

if TYPE_CHECKING:
    from ordercast.protocols.classic.two_phase.protocol import TwoPhase


class Waiting(Part):
    """One timer for both roles; it runs while there is anything to wait for."""

    packets = (Held,)
    timers = ("tick",)
    branches = ("blocked", "unblocked")

    def __init__(self, core: TwoPhase) -> None:
        self._core = core
        self.tick = 0
        """Counts the intervals of `retransmit_seconds` in which there was anything to do. Waiting is measured in them,
        not by the site's clock, which may jump."""
        self._ticking = False
        self._held: dict[SiteId, tuple[tuple[SiteId, ...], int]] = {}
        """Site that we may wait for -> for whom it waits itself, as it has said, and in which interval."""
        self._tell_ticks = ticks_in(core.options.retransmit_seconds_max, core.options.retransmit_seconds)
        """Those who wait for us are told as seldom as a silent site is asked; three times that is how long it counts,
        for two of these packets may be lost."""

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
        found = core.source.find_undecided() or core.destination.find_undelivered() or core.source.find_untaken()
        reason = "" if found is None else self._name(*found)
        if reason != core.obstacle("waiting"):
            core.branch("blocked" if reason else "unblocked")
            core.block("waiting", reason)
        self._ticking = False
        if core.source.pending or core.destination.entries or reason:
            self.keep_ticking()

    def _name(self, site: SiteId, reason: str) -> str:
        """Why we wait, with the site that holds up everyone, which need not be the one that we wait for; those who wait
        for us hear of it.

        (Else: c is down; a waits for c's priority; b, which shares another group with d, has a's message first in its
        queue and names a; d waits for b to take something, and names b.)
        """
        core = self._core
        by, tick = self._held.get(site, ((), 0))
        if self.tick - tick > 3 * self._tell_ticks:
            by = ()
        named = f"{reason}: it waits for {', '.join(by)}" if by else reason
        waiting, core.destination.asked_again = core.destination.asked_again, set()
        if named != core.obstacle("waiting") or self.tick % self._tell_ticks == 0:
            waiting |= core.source.whom_we_hold_up()
        core.send(tuple(sorted(waiting - {core.site, site, *by})), Held(by or (site,)))
        return named

    def on_held(self, sender: SiteId, packet: Held, arrival: Arrival) -> None:
        """A site says for whom it waits."""
        if sender in self._core.ranks:
            self._held[sender] = (packet.by, self.tick)

    def is_long(self, since_tick: int) -> bool:
        """Whether what began then lasts for long enough to speak of it."""
        options = self._core.options
        return (self.tick - since_tick) * options.retransmit_seconds >= options.blocked_seconds
