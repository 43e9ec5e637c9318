"""Probing: who suspects something asks who is there, and how far, before it acts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.classic.token.packets import Elsewhere, News, Probe, Status
from ordercast.protocols.classic.token.rosters import check_roster, is_majority, lineage
from ordercast.protocols.classic.token.turns import Version

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token

CHANGE = "a change is wanted"
"""Why a list is formed although the one before works."""
NEAR_TURNS = 16
"""Who misses more turns than this catches up before it joins: the token would wait for it."""


class Probing(Part):
    """The probe, and catching up from outside the list."""

    packets = (Probe, Status, Elsewhere, News)
    branches = (
        "suspected",
        "no-majority",
        "no-majority-for-change",
        "recovered-in-place",
        "stale-version",
        "member-gone",
        "caught-up-outside",
        "old-list",
        "left-behind",
    )

    def __init__(self, core: Token) -> None:
        self._core = core
        self._ledger = core.ledger
        self._reason = ""
        self._number = 0
        """Of the last probe."""
        self._statuses: dict[SiteId, Status] = {}
        """What has been answered to it."""
        self._elsewhere: set[SiteId] = set()
        """Who has answered that it is in no list of this lineage."""

    @property
    def is_for_change(self) -> bool:
        """Whether the last probe was sent because a change is wanted, and not because the list may have failed."""
        return self._reason == CHANGE

    def suspect(self, reason: str) -> None:
        """Ask first who is there. Only who can hear a majority may stop the list that is.

        (Without: a site to which nothing gets through, while others hear it, suspects everybody, invites them, and
        never hears that they join; they stop, wait, form a list without it, and it begins again.)
        """
        core = self._core
        if core.attempt.stage or core.loss.lost or core.system.outside:
            return
        if reason != CHANGE:
            core.branch("suspected")
            core.patience.note_suspicion(core.now)
        self._reason = reason
        self._number += 1
        core.attempt.begin("probing", self.on_probing_round)
        self._statuses = {}
        self._elsewhere = set()
        self._send_probe()

    def _send_probe(self) -> None:
        """To everybody who has not answered."""
        system = self._core.system
        # Those whom this site knows may all have gone, and others may have come.
        astray = system.is_leaving or self._core.attempt.rounds > 1
        asked = (*system.others, *system.strangers) if astray else system.others
        silent = tuple(site for site in asked if site not in self._statuses)
        self._core.send(silent, Probe(self._number, self._ledger.version))
        if not silent:
            self._decide()

    def on_probing_round(self) -> None:
        """Decide with those who have answered."""
        core = self._core
        alone = core.system.is_leaving or core.joining.is_tentative
        if core.system.are_majority((*self._statuses, core.site), self._ledger.version) or (alone and self._statuses):
            self._decide()
        elif core.attempt.rounds > core.options.retries:
            core.branch("no-majority")
            if self.is_for_change:
                core.branch("no-majority-for-change")
            if alone:
                core.lookup.ask_whether_gone()
            elif self._is_left_behind():
                core.branch("left-behind")
                core.attempt.end()
                core.changes.begin_again(core.changes.kept_groups)
                return
            reached = ", ".join(sorted((*self._statuses, core.site)))
            core.attempt.fail(f"no majority: of {len(core.system.all)} sites {core.site} reaches only {reached}")
        else:
            self._send_probe()

    def _is_left_behind(self) -> bool:
        """Whether nobody will ever decide anything in this list: so many have left it that the others are no majority,
        and none of those who were found has come to it.

        (Without: a, b and c leave with list 3, of which b does not hear; c is the last one, and leaves as well. b waits
        for ever.)
        """
        system = self._core.system
        lives = system.deciding.sites
        there = {site for site, _life in lives} - self._elsewhere
        return not is_majority(lives, there) and self._elsewhere.issuperset(system.strangers)

    def _decide(self) -> None:
        """A majority is there: go on as before, catch up, or form a new list."""
        core, ledger = self._core, self._ledger
        core.block("majority", "")
        later = any(max(s.installed, s.promised) > ledger.version for s in self._statuses.values())
        if self._reason == "recovery" and core.stable.in_normal_phase and not later and core.site in ledger.members:
            # Nobody has missed this site.
            core.branch("recovered-in-place")
            core.attempt.end()
            core.suspicion.watch_ring()
            core.suspicion.note_recovered()
            core.ring.take_token()
            return
        if core.joining.is_tentative:
            # Nobody has what this site has come with: it asks again to be let in.
            core.attempt.end()
            core.suspicion.back_off()
            core.lookup.apply_again(tuple(self._statuses))
            return
        if self._reason == CHANGE and not core.changes.is_list_wanted:
            core.attempt.end()
            return
        ahead = max(((status.committed, site) for site, status in self._statuses.items()), default=(0, core.site))
        if core.system.is_leaving and not core.delivery.is_in:
            # The list with which this site came never was one, and the others have gone on without it.
            core.attempt.end()
            core.changes.give_up()
        elif core.system.is_leaving:
            # The others have gone on without this site: it learns what came before that, and forms no list.
            core.branch("old-list")
            core.attempt.begin("catching-up", self.on_catching_up_round)
            core.repair.want_history(*ahead)
        elif ahead[0] > ledger.committed + NEAR_TURNS:
            core.branch("caught-up-outside")
            core.attempt.begin("catching-up", self.on_catching_up_round)
            core.repair.want_history(*ahead)
        else:
            core.reformation.originate()

    # ------------------------------------------------------------------ catching up
    def note_progress(self) -> None:
        """History has come: near enough to join?"""
        core = self._core
        if core.joining.installing is not None:
            core.suspicion.watch_reformation()
        if core.attempt.stage == "catching-up":
            core.attempt.note_progress()
            if core.system.is_leaving:
                return
            if self._ledger.committed + NEAR_TURNS >= core.repair.history_wanted:
                core.reformation.originate()

    def on_catching_up_round(self) -> None:
        """The questions repeat themselves; here only their failure is seen."""
        core = self._core
        if core.attempt.rounds > core.options.retries:
            if core.system.is_leaving:
                core.lookup.ask_whether_gone()
            core.attempt.fail(f"{core.site} gets no answer to what it missed")

    # ------------------------------------------------------------------ what the others say
    def on_probe(self, sender: SiteId, packet: Probe, arrival: Arrival) -> None:
        """Somebody suspects something. Who has lost its log is no part of a majority."""
        core = self._core
        if core.system.outside or lineage(packet.installed) != core.system.lineage:
            core.send((sender,), Elsewhere(packet.attempt))
            return
        if core.loss.lost:
            return
        roster = self._ledger.committed_roster
        if (packet.installed <= roster.version and not roster.is_configured) or roster.life(sender) is None:
            core.send((sender,), News(self._ledger.committed_version, roster))
        self._send_status(sender, packet.attempt)
        if packet.installed > self._ledger.version:
            core.suspicion.note_left_out(packet.installed)

    def on_elsewhere(self, sender: SiteId, packet: Elsewhere, arrival: Arrival) -> None:
        """Another site is in no list, or in one that has nothing to do with this one."""
        known = sender in self._core.system.all or sender in self._core.system.found
        if self._core.attempt.stage == "probing" and packet.attempt == self._number and known:
            self._elsewhere.add(sender)

    def on_news(self, sender: SiteId, packet: News, arrival: Arrival) -> None:
        """There is a later roster: others have a say, or this site is not in it any more."""
        check_roster(packet.roster)
        self._core.system.hear_of(packet.roster, packet.version)
        self._core.loss.hear_of(packet.roster)
        self._core.joining.note_roster(packet.roster)

    def _send_status(self, to: SiteId, attempt: int) -> None:
        """Say which list is ours."""
        core, ledger = self._core, self._ledger
        promised, settled = core.stable.promised, core.delivery.settled
        core.send((to,), Status(attempt, promised, ledger.version, to in ledger.members, ledger.committed, settled))

    def on_status(self, sender: SiteId, packet: Status, arrival: Arrival) -> None:
        """How far another site is."""
        core, ledger = self._core, self._ledger
        core.settlement.note(sender, packet.settled)
        core.reformation.note_version(packet.promised)
        core.joining.note_installed(sender, packet.installed)
        if core.attempt.stage == "probing" and packet.attempt == self._number:
            self._statuses[sender] = packet
            if core.system.are_all((*self._statuses, core.site)):
                self._decide()
        elif packet.installed > ledger.version:
            core.suspicion.note_left_out(packet.installed)
        elif core.stable.in_normal_phase and packet.promised > core.stable.promised and sender in ledger.members:
            # It has joined a list that never came to be, and cannot come back to this one.
            core.branch("member-gone")
            self.suspect("a member has joined another list")

    def hear_other_list(self, sender: SiteId, version: Version) -> None:
        """Somebody speaks in the name of another list than ours."""
        core = self._core
        if version < core.stable.promised:
            # A token site that slept while the others went on: it must not wait for ever for its list.
            core.branch("stale-version")
            self._send_status(sender, 0)
        if version > self._ledger.version:
            core.suspicion.note_left_out(version)
