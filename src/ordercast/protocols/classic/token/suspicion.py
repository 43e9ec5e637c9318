"""Suspicion: a site finds out that its list has failed or goes on without it, and asks who is there before it acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ordercast.core import Context, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.classic.token.packets import Probe, Status
from ordercast.protocols.classic.token.repair import SLOWNESS_MAX
from ordercast.protocols.classic.token.ring import Ring
from ordercast.protocols.classic.token.turns import Version

Stage = Literal["", "probing", "catching-up", "inviting", "installing"]

NEAR_TURNS = 16
"""Who misses more turns than this catches up before it joins: the token would wait for it."""
REJOIN_RETRIES = 4
"""A site that was left out waits so many retries before it comes: its installation may be on the way."""
REJOIN_SECONDS_MAX = 5.0
"""Longer than this nobody who could take part is left out."""
REFORMATION_RETRIES = 16
"""An originator waits up to eight retries for those who do not join; installing takes as long again."""
CALM_SECONDS = 10.0
"""Who suspects or comes back again and again within this time waits longer and longer: it reaches some of the others
and not all, or the network is slow."""
SUSPICION_SECONDS_MAX = 2.0
"""So far the suspicion adapts by itself; networks that need more for a reformation are told in the options."""


class Suspicion(Ring):
    """The watchdog, the probe, and catching up from outside the list."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.stage: Stage = ""
        """Of this site's own attempt to form a list."""
        self.stage_timeouts: dict[Stage, Callable[[], None]] = {
            "probing": self.on_probing_timeout,
            "catching-up": self.on_catching_up_timeout,
        }
        self.reason = ""
        self.attempt = 0
        self.rounds = 0
        self.failures = 0
        self.seen: Version = self.promised
        """The largest version that anybody has spoken of."""
        self.statuses: dict[SiteId, Status] = {}
        self.ring_alive = False
        """Whether a token site of the installed list was heard."""
        self.suspected_at = -CALM_SECONDS
        self.rejoining = False
        self.rejoins = 0
        self.rejoined_at = 0.0
        self.recovering = False

    # ------------------------------------------------------------------ suspicion
    def watch_ring(self) -> None:
        """At random up to twice as long, so that not everybody originates a list at the same time."""
        self.set_timer("watchdog", self.patience() * (1 + self.context.random.random()))

    def watch_reformation(self) -> None:
        """Give the originator the time that it takes: it waits for answers, and for those who do not answer."""
        seconds = max(self.patience(), REFORMATION_RETRIES * self.options.retry_seconds)
        self.set_timer("watchdog", seconds * (1 + self.context.random.random()))

    def patience(self) -> float:
        """How long nothing may be heard.

        Longer when suspicions follow each other. (A reformation takes five ways through the network. Where the
        suspicion is shorter, those who have joined suspect the originator and originate another list before it can
        install its own, for ever.)
        """
        seconds = self.options.suspicion_seconds
        return min(seconds * (1 << self.slowness), max(seconds, SUSPICION_SECONDS_MAX))

    def on_watchdog_timeout(self) -> None:
        """Nothing was heard. A token site hears nothing because it is the one who speaks."""
        self.watch_ring()
        if not self.holds_token:
            self.suspect("silence")

    def on_ring_alive(self) -> None:
        """The list works: whatever was suspected is over, unless a new list is being formed."""
        self.ring_alive = True
        self.failures = 0
        self.block("majority", "")
        self.note_recovered()
        if self.stage in ("probing", "catching-up"):
            self.end_attempt()

    def note_recovered(self) -> None:
        """After a crash: the site is in a list that works."""
        if self.recovering:
            self.recovering = False
            self.declare_recovered()

    def on_left_out(self, version: Version) -> None:
        """There is a later list: come in when it does not come by itself."""
        self.seen = max(self.seen, version)
        if not self.rejoining and not self.stage:
            if self.now - self.rejoined_at > CALM_SECONDS:
                self.rejoins = 0
            self.rejoining = True
            retries = self.retry_after(0) * REJOIN_RETRIES * (1 << min(self.rejoins, 8))
            self.set_timer("rejoin", min(retries, REJOIN_SECONDS_MAX) * (1 + self.context.random.random()))

    def on_rejoin_timeout(self) -> None:
        """Still left out?"""
        self.rejoining = False
        if self.seen > self.ledger.version and self.installing is None and not self.stage:
            self.branch("left-out")
            self.rejoins += 1
            self.rejoined_at = self.now
            self.suspect("left out")

    # ------------------------------------------------------------------ probing
    def suspect(self, reason: str) -> None:
        """Ask first who is there. Only who can hear a majority may stop the list that is.

        (Without: a site to which nothing gets through, while others hear it, suspects everybody, invites them, and
        never hears that they join; they stop, wait, form a list without it, and it begins again.)
        """
        if self.stage:
            return
        self.branch("suspected")
        self.slowness = min(SLOWNESS_MAX, self.slowness + 1) if self.now - self.suspected_at < CALM_SECONDS else 0
        self.suspected_at = self.now
        self.reason = reason
        self.attempt += 1
        self.begin_stage("probing")
        self.statuses = {}
        self.send_probe()

    def begin_stage(self, stage: Stage) -> None:
        """From here on retries count for this stage."""
        self.stage = stage
        self.rounds = 0
        self.set_timer("reform", self.retry_after(1))

    def end_attempt(self) -> None:
        """This site forms no list at the moment."""
        self.stage = ""
        self.history_wanted = 0
        self.cancel_timer("reform")

    def fail_attempt(self, why: str) -> None:
        """Try again later, and later each time."""
        self.branch("attempt-failed")
        self.block("majority", why)
        self.end_attempt()
        self.failures += 1
        longer = min(4, 1 << self.failures >> 1)
        self.set_timer("watchdog", self.options.suspicion_seconds * longer * (0.5 + self.context.random.random() / 2))

    def on_reform_timeout(self) -> None:
        """A round of the current stage is over."""
        if self.stage:
            self.rounds += 1
            self.stage_timeouts[self.stage]()
            if self.stage:
                self.set_timer("reform", self.retry_after(self.rounds + 1))

    def send_probe(self) -> None:
        """To everybody who has not answered."""
        silent = tuple(site for site in self.others if site not in self.statuses)
        self.send(silent, Probe(self.attempt, self.ledger.version))
        if not silent:
            self.on_majority_reached()

    def on_probe(self, sender: SiteId, packet: Probe, arrival: Arrival) -> None:
        """Somebody suspects something."""
        self.send_status(sender, packet.attempt)
        if packet.installed > self.ledger.version:
            self.on_left_out(packet.installed)

    def on_status(self, sender: SiteId, packet: Status, arrival: Arrival) -> None:
        """How far another site is."""
        self.note_settled(sender, packet.settled)
        self.seen = max(self.seen, packet.promised)
        if self.stage == "probing" and packet.attempt == self.attempt:
            self.statuses[sender] = packet
            if len(self.statuses) == len(self.others):
                self.on_majority_reached()
        elif packet.installed > self.ledger.version:
            self.on_left_out(packet.installed)
        elif self.in_normal_phase and packet.promised > self.promised and sender in self.ledger.members:
            # It has joined a list that never came to be, and cannot come back to this one.
            self.branch("member-gone")
            self.suspect("a member has joined another list")

    def on_probing_timeout(self) -> None:
        """Decide with those who have answered."""
        if len(self.statuses) + 1 >= self.majority:
            self.on_majority_reached()
        elif self.rounds > self.options.retries:
            self.branch("no-majority")
            reached = ", ".join(sorted((*self.statuses, self.site)))
            self.fail_attempt(f"no majority: of {len(self.context.sites)} sites {self.site} reaches only {reached}")
        else:
            self.send_probe()

    def on_majority_reached(self) -> None:
        """Go on as before, catch up, or form a new list."""
        self.block("majority", "")
        ledger = self.ledger
        later = any(max(s.installed, s.promised) > ledger.version for s in self.statuses.values())
        if self.reason == "recovery" and self.in_normal_phase and not later and self.site in ledger.members:
            # Nobody has missed this site.
            self.branch("recovered-in-place")
            self.end_attempt()
            self.watch_ring()
            self.note_recovered()
            self.take_token()
            return
        ahead = max(((status.committed, site) for site, status in self.statuses.items()), default=(0, self.site))
        if ahead[0] > ledger.committed + NEAR_TURNS:
            self.branch("caught-up-outside")
            self.history_wanted, self.teacher = ahead
            self.ask_retries = 0
            self.begin_stage("catching-up")
            self.send_ask()
        else:
            self.originate()

    # ------------------------------------------------------------------ catching up
    def on_progress(self) -> None:
        """History has come: near enough to join?"""
        if self.installing is not None:
            self.watch_reformation()
        if self.stage == "catching-up":
            self.rounds = 0
            if self.ledger.committed + NEAR_TURNS >= self.history_wanted:
                self.originate()

    def on_catching_up_timeout(self) -> None:
        """The questions repeat themselves; here only their failure is seen."""
        if self.rounds > self.options.retries:
            self.fail_attempt(f"{self.site} gets no answer to what it missed")

    def originate(self) -> None:
        """Form a new list."""
        raise NotImplementedError
