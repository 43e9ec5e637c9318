"""Leases (Gray and Cheriton 1989): for a while one site, and no other, may act for all.

A site that wants the lease asks all others. Whoever grants it grants it to nobody else until it has run out. With the
grants of a quorum the site holds it, for less time than was granted: the holder counts from before it asked, the
grantors from after they have granted, and the difference covers clocks that run at different rates.

What it rests on: clocks whose rates differ by no more than `drift_max`. A clock that jumps backwards would make a
holder believe in an old lease; so a driver must give a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable

from ordercast.core import Packet, Part, Protocol, SiteId, UsageError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.quorum import Quorum


class LeaseRequest(Packet, frozen=True):
    """Who wants to hold -> grantors: promise me the time from now on."""

    background = True
    attempt: int


class LeaseGrant(Packet, frozen=True):
    """Grantor -> who asked: to nobody else before it has run out."""

    background = True
    attempt: int


class LeaseRelease(Packet, frozen=True):
    """Holder, or whoever has not got a quorum -> grantors: I need it no longer."""

    background = True
    attempt: int


class Lease(Part):
    """What one site has granted, and whether it holds the lease itself."""

    packets = (LeaseRequest, LeaseGrant, LeaseRelease)
    timers = ("lease-grant", "lease-hold", "lease-ask")
    branches = ("lease-acquired", "lease-expired", "lease-refused", "lease-renewed")

    def __init__(
        self,
        host: Protocol,
        quorum: Quorum,
        *,
        lease_seconds: float,
        drift_max: float,
        on_acquired: Callable[[], None] = lambda: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        if not 0 <= drift_max < 1:
            raise UsageError(f"clocks drift by a fraction from 0 to 1, not by {drift_max}")
        self._host = host
        self._quorum = quorum
        self._on_acquired = on_acquired
        self._on_lost = on_lost
        self._lease_seconds = lease_seconds
        # A clock that is fast by drift_max ends a grant early, one that is slow by as much ends the holding late.
        self._hold_seconds = lease_seconds * (1 - drift_max) / (1 + drift_max)
        self._others = tuple(site for site in quorum.sites if site != host.site)
        self.granted_to: SiteId | None = None
        self._grant_attempt = 0
        self._silent = host.context.incarnation > 0
        """After a crash we do not know what we have granted, and grant nothing before it has run out."""
        self._wanted = False
        # The grant of an earlier incarnation's attempt must not be taken for one of ours.
        self._attempt = host.context.incarnation << 32
        self._asked_at = 0.0
        self._grants: set[SiteId] = set()
        self.holds_until: float | None = None
        """By our clock."""

    # ------------------------------------------------------------------ what the host says
    def start(self) -> None:
        """To be called at every start."""
        if self._silent:
            self._host.set_timer("lease-grant", self._lease_seconds)

    def acquire(self) -> None:
        """We want the lease, and to keep it until `release`."""
        self._wanted = True
        self.ask()

    def release(self) -> None:
        """We do not need it any more."""
        self._wanted = False
        self._stop_holding()
        self._host.cancel_timer("lease-ask")
        self._give_back()

    def is_held(self, now: float) -> bool:
        """Whether we may act at that time of our clock."""
        return self.holds_until is not None and now < self.holds_until

    # ------------------------------------------------------------------ holding
    def ask(self) -> None:
        """Ask for a grant from now on; for one who holds the lease, to renew it."""
        self._attempt += 1
        self._asked_at = self._host.now
        self._grants = set()
        self._host.send(self._others, LeaseRequest(self._attempt))
        # Three times while it lasts, so that two lost packets do not end it; not all at the same moment.
        wait = self._hold_seconds / 3 * self._host.context.random.uniform(0.8, 1.0)
        self._host.set_timer("lease-ask", wait)
        if self._may_grant(self._host.site):
            self._grant(self._host.site, self._attempt)
            self._add_grant(self._host.site)

    def on_lease_ask_timeout(self) -> None:
        """Not granted, or to be renewed. Whoever has no quorum gives back what it has: two who have half of the grants
        each would wait for each other for ever."""
        if not self._wanted:
            return
        if not self.is_held(self._host.now) and self._grants:
            self._give_back()
            # A grant of the old attempt that is still under way counts no more: it was given back.
            self._attempt += 1
            self._grants = set()
            self._host.set_timer("lease-ask", self._host.context.random.uniform(0.2, 1.0) * self._hold_seconds)
        else:
            self.ask()

    def on_lease_grant(self, sender: SiteId, packet: LeaseGrant, arrival: Arrival) -> None:
        """One more has promised."""
        if self._wanted and packet.attempt == self._attempt:
            self._add_grant(sender)

    def _add_grant(self, site: SiteId) -> None:
        self._grants.add(site)
        if self.is_enough(self._grants):
            self._hold()

    def is_enough(self, grants: set[SiteId]) -> bool:
        """Whether nobody else can have as much."""
        return self._quorum.is_met(grants)

    def _hold(self) -> None:
        """The time that we may use began when we asked, not when the last grant came."""
        until = self.hold_until()
        if until <= self._host.now:
            return
        was_held = self.holds_until is not None
        self.holds_until = until
        self._host.set_timer("lease-hold", until - self._host.now)
        self._host.branch("lease-renewed" if was_held else "lease-acquired")
        if not was_held:
            self._on_acquired()

    def hold_until(self) -> float:
        """The time of our clock at which a grant of this attempt may run out somewhere."""
        return self._asked_at + self._hold_seconds

    def on_lease_hold_timeout(self) -> None:
        """It has run out."""
        self._host.branch("lease-expired")
        self._stop_holding()

    def _stop_holding(self) -> None:
        if self.holds_until is not None:
            self.holds_until = None
            self._host.cancel_timer("lease-hold")
            self._on_lost()

    def _give_back(self) -> None:
        self._host.send(self._others, LeaseRelease(self._attempt))
        self._take_back(self._host.site, self._attempt)

    # ------------------------------------------------------------------ granting
    def on_lease_request(self, sender: SiteId, packet: LeaseRequest, arrival: Arrival) -> None:
        """Promise it, unless it is promised to another."""
        if self._may_grant(sender):
            self._grant(sender, packet.attempt)
            self._host.send((sender,), LeaseGrant(packet.attempt))
        else:
            self._host.branch("lease-refused")

    def _may_grant(self, site: SiteId) -> bool:
        return not self._silent and self.granted_to in (None, site)

    def _grant(self, site: SiteId, attempt: int) -> None:
        self.granted_to = site
        self._grant_attempt = max(attempt, self._grant_attempt)
        self._host.set_timer("lease-grant", self._lease_seconds)

    def on_lease_grant_timeout(self) -> None:
        """It has run out."""
        self._silent = False
        self.granted_to = None
        self._grant_attempt = 0

    def on_lease_release(self, sender: SiteId, packet: LeaseRelease, arrival: Arrival) -> None:
        """It was given back."""
        self._take_back(sender, packet.attempt)

    def _take_back(self, site: SiteId, attempt: int) -> None:
        """(A release that was overtaken by a later request of the same site must not end what that one was granted.)"""
        if self.granted_to == site and attempt >= self._grant_attempt:
            self.on_lease_grant_timeout()
            self._host.cancel_timer("lease-grant")
