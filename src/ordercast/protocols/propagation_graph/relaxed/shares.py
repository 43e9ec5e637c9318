"""The manager's lease and the shares of it: a site delivers only while its share lasts (Spauster 7.3, Figure 7.5).

The manager asks everyone who takes part to begin no other graph for a while; with the grants of a majority it holds
the lease, for less time than was granted, and every other site has a share of what is left. So when a majority has
promised somebody else to stop, and what it had granted has run out, nobody delivers anything in the old graph.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.core.effects import DeclareFailed
from ordercast.core.events import Arrival
from ordercast.protocols.propagation_graph.relaxed.packets import Grant, Renew, Share

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph

RENEWALS = 8
"""So often the lease is asked for while it lasts. A share takes three packets: at 5 % loss one attempt of seven fails,
and eight in a row hardly ever do."""
ATTEMPTS_KEPT = 2 * RENEWALS
"""A share may come so many renewals late; older ones have run out."""


class Shares(Part):
    """This site's share; at the manager, the lease."""

    packets = (Renew, Grant, Share)
    timers = ("renew", "share-end")
    branches = ("lease-held", "share-ended", "share-ended-behind", "share-back")

    def __init__(self, core: RelaxedGraph) -> None:
        self._core = core
        options = core.options
        drift = options.drift_max
        self._shortened = (1 - drift) / (1 + drift)
        """A clock that is slow by the most makes a time long, one that is fast makes it short."""
        self._hold_seconds = options.lease_seconds * self._shortened
        self.granted_until = options.lease_seconds if core.context.incarnation else 0.0
        """By this site's clock. After a crash it does not know what it has granted."""
        self.has_failed = False
        """Whether it counts as failed: its share has ended, or it has crashed."""
        self._trip = inf
        """The shortest round trip so far, at the manager."""
        self.begin()

    def begin(self) -> None:
        """A graph begins: nobody has a share of it."""
        self._given_back: float | None = None
        """When the share would have ended that this site has given back, or waits for."""
        self.until: float | None = None
        """By this site's clock: it delivers before this."""
        self.given: dict[SiteId, float] = {}
        """At the manager: when the last share of each site ends, by the manager's clock."""
        self._attempt = 0
        self._asked: dict[int, float] = {}
        """Attempt -> when this site granted it, or, at the manager, asked for it."""
        self._grants: dict[int, set[SiteId]] = {}
        """At the manager: attempt -> who has promised. Round trips may be longer than the time between attempts."""
        self._held_by = 0
        """The latest attempt that a majority has granted."""
        self._caught_up: set[SiteId] = set()

    def is_held(self, now: float) -> bool:
        """Whether this site may deliver."""
        return self.until is not None and now < self.until and not self._core.is_closed

    @property
    def _is_manager(self) -> bool:
        return self._core.graph.manager == self._core.site

    # ------------------------------------------------------------------ the manager
    def go_on(self) -> None:
        """The manager asks, and asks again before the lease ends. A site that gets no share for so long has failed, as
        if one had ended: then it asks to be let in.

        (Else: graph 5 reaches a when the others are in graph 7; a enters it, hears its manager, and waits for a share
        that nobody gives. Or: e begins graph 1 as its manager, no grant reaches it, and the others go on in graph 2;
        it asks for the lease of graph 1 for ever.)
        """
        core = self._core
        self._given_back = core.now + core.options.lease_seconds
        core.set_timer("share-end", core.options.lease_seconds)
        if self._is_manager and not self._core.is_closed:
            self.on_renew_timeout()

    def on_renew_timeout(self) -> None:
        """Ask everyone who takes part."""
        core = self._core
        if not self._is_manager or core.is_closed:
            return
        self._attempt += 1
        self._note_asked(self._attempt)
        self._grants[self._attempt] = {core.site}
        self.granted_until = core.now + core.options.lease_seconds
        others = tuple(site for site in core.graph.present if site != core.site)
        core.send(others, Renew(core.number, self._attempt, core.is_running))
        core.set_timer("renew", self._hold_seconds / RENEWALS)
        self._hold_if_granted(self._attempt)

    def _note_asked(self, attempt: int) -> None:
        self._asked[attempt] = self._core.now
        for old in [each for each in self._asked if each <= attempt - ATTEMPTS_KEPT]:
            del self._asked[old]
            self._grants.pop(old, None)

    def on_grant(self, sender: SiteId, packet: Grant, arrival: Arrival) -> None:
        """One more has promised, and asks for a share."""
        core = self._core
        if packet.graph != core.number or core.is_closed or sender not in core.graph.present or not self._is_manager:
            return
        if packet.caught_up:
            self.note_caught_up(sender)
        grants = self._grants.get(packet.attempt)
        if grants is not None and sender not in grants:
            self._measure(sender, core.now - self._asked[packet.attempt])
            grants.add(sender)
            if len(grants) == core.graph.majority:
                self._hold_if_granted(packet.attempt)
            elif len(grants) > core.graph.majority:
                self._give((sender,), packet.attempt)

    def _measure(self, site: SiteId, seconds: float) -> None:
        """A share takes one and a half round trips, and the lease is asked for several times while it lasts: one that
        is too short for the network is never held for long, and somebody should say why nothing is delivered."""
        if seconds < self._trip:
            self._trip, lease = seconds, self._core.options.lease_seconds
            word = f"lease_seconds = {lease:g} is not above three round trips, of {seconds:g} s to {site}"
            self._core.block("lease", word if lease <= 3 * seconds else "")

    def _hold_if_granted(self, attempt: int) -> None:
        """With the grants of a majority the lease is held, from when it was asked for."""
        core, grants = self._core, self._grants[attempt]
        until = self._asked[attempt] + self._hold_seconds
        if len(grants) < core.graph.majority or until <= core.now:
            return
        core.branch("lease-held")
        self._held_by = max(self._held_by, attempt)
        self._extend(until)
        self._give(tuple(sorted(grants - {core.site})), attempt)

    def _give(self, sites: tuple[SiteId, ...], attempt: int) -> None:
        core = self._core
        until = self._asked[attempt] + self._hold_seconds
        if until <= core.now:
            return
        for site in sites:
            self.given[site] = max(until, self.given.get(site, until))
        core.send(sites, Share(core.number, attempt, until - core.now, core.is_running))

    def note_caught_up(self, site: SiteId) -> None:
        """When everyone has all with which the graph began, it runs."""
        core = self._core
        self._caught_up.add(site)
        if not core.is_running and self._caught_up.issuperset(core.graph.present):
            core.run()
            if self._held_by in self._grants:
                self._give(tuple(sorted(self._grants[self._held_by] - {core.site})), self._held_by)

    # ------------------------------------------------------------------ every site
    def tell_caught_up(self) -> None:
        """Say at once that this site has all with which the graph began."""
        core = self._core
        core.send((core.graph.manager,), Grant(core.number, self._attempt, True))

    def on_renew(self, sender: SiteId, packet: Renew, arrival: Arrival) -> None:
        """Promise it: a site that has promised somebody else to stop grants nothing more."""
        core = self._core
        if packet.graph != core.number or sender != core.graph.manager or core.is_closed:
            core.watching.note_other_graph(sender, packet.graph)
            return
        self._note_asked(packet.attempt)
        self._attempt = max(self._attempt, packet.attempt)
        self.granted_until = core.now + core.options.lease_seconds
        if packet.started:
            core.run()
        core.send((sender,), Grant(packet.graph, packet.attempt, core.catching_up.is_done))

    def on_share(self, sender: SiteId, packet: Share, arrival: Arrival) -> None:
        """It counts from when this site asked, not from when it came."""
        core = self._core
        asked = self._asked.get(packet.attempt)
        if packet.graph != core.number or sender != core.graph.manager or core.is_closed or asked is None:
            return
        self._extend(asked + packet.left * self._shortened)
        if packet.started:
            core.run()

    def _extend(self, until: float) -> None:
        core = self._core
        if until <= core.now or (self.until is not None and until <= self.until):
            return
        self.check()
        self.until = until
        core.set_timer("share-end", until - core.now)
        core.on_share_held()

    def on_share_end_timeout(self) -> None:
        """Not renewed in time."""
        self.check()

    def check(self) -> None:
        """Whether the share has ended: then this site counts as failed from that moment on, whenever it notices."""
        core = self._core
        ends = self.until or self._given_back
        if ends is not None and ends <= core.now:
            self.until = self._given_back = None
            self.fail(ends)

    def fail(self, since: float) -> None:
        """This site counts as failed."""
        if not self.has_failed:
            core = self._core
            core.branch("share-ended")
            if core.catching_up.missing or any(edge.stalled for edge in core.incoming.values()):
                core.branch("share-ended-behind")
            self.has_failed = core.owes_deliveries = True
            core.outbox.append(DeclareFailed(since))
            core.watching.look_soon()

    def stop(self) -> None:
        """This site has promised to stop: it gives its share back."""
        self._given_back = self.until or self._given_back
        self.until = None

    def left(self) -> float:
        """How long this site's promise to the manager lasts."""
        return max(0.0, self.granted_until - self._core.now)

    def given_left(self) -> tuple[tuple[SiteId, float], ...] | None:
        """At the manager, how long the shares last that it has given, unless it has forgotten them in a crash."""
        core = self._core
        if not self._is_manager or core.has_forgotten:
            return None
        return tuple((site, max(0.0, until - core.now)) for site, until in sorted(self.given.items()))
