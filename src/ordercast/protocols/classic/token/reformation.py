"""The reformation: a new token list in three phases, invitation, installation, opening.

The list is valid when it passes three tests. Majority: more than half of all sites join it. Version: a site joins only
a larger version than ever before. Resiliency: somebody who joins has every committed message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ordercast.core import GroupId, InvariantViolation, Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.classic.token.packets import (
    Admit,
    Install,
    Installed,
    InstallOfRoster,
    Invite,
    Join,
    JoinOfRoster,
    Open,
    Refuse,
)
from ordercast.protocols.classic.token.rosters import (
    Lives,
    Roster,
    changed,
    is_majority,
    lineage,
    next_version,
)
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Version

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token

FAR_TURNS = 256
"""Who misses more than this is not taken into the list, unless there is no majority without it; it comes when it has
caught up."""
ADMISSIONS_MAX = 4
"""So many rounds the originator waits for those who come: the list before has stopped."""
INVITATIONS_MIN = 2
"""A majority that has joined waits so many rounds for the others: one lost packet leaves nobody out. One round
is enough when rounds have become longer."""


class Reformation(Part):
    """What the originator of a list does."""

    packets = (Join, JoinOfRoster, Refuse, Installed)
    branches = (
        "originated",
        "formed",
        "formed-without-some",
        "not-resilient",
        "roster-changed",
        "several-changes",
        "several-come",
        "changed-without-some",
        "change-repeated",
        "change-void",
        "change-put-off",
        "applicant-lost",
    )

    def __init__(self, core: Token) -> None:
        self._core = core
        self.seen: Version = FIRST_VERSION
        """The largest version that anybody has spoken of."""
        self._joins: dict[SiteId, Join] = {}
        self._applied: dict[SiteId, tuple[GroupId, ...]] = {}
        """Strangers who want to come with this list, and to which groups."""
        self._merging: set[SiteId] = set()
        """Those of them who have given up another lineage."""
        self._proposal: Install | None = None
        self._coming: frozenset[SiteId] = frozenset()
        """Who comes with it."""
        self._confirmed: set[SiteId] = set()

    def note_version(self, version: Version) -> None:
        """Somebody has spoken of it."""
        if lineage(version) == self._core.system.lineage:
            self.seen = max(self.seen, version)

    # ------------------------------------------------------------------ first phase: invitation
    def originate(self) -> None:
        """Invite everybody to a list with a version larger than any seen."""
        core = self._core
        core.branch("originated")
        number = max(self.seen[0], core.stable.promised[0], core.ledger.newest[0]) + 1
        core.joining.join(next_version(number, core.site, core.system.lineage))
        core.attempt.begin("inviting", self.on_inviting_round)
        self._joins = {core.site: core.joining.own_join()}
        self.send_invite()

    def forget(self) -> None:
        """The attempt is over, whatever came of it. (Else: what each site had accepted stays here until this one forms
        another list, which may be never.)"""
        self._joins, self._applied, self._merging = {}, {}, set()
        self._proposal, self._coming, self._confirmed = None, frozenset(), set()

    def send_invite(self) -> None:
        """To everybody who has not joined."""
        core = self._core
        invited = dict.fromkeys((*core.system.others, *core.changes.applicants))
        absent = tuple(site for site in invited if site not in self._joins and site not in self._applied)
        core.send(absent, Invite(core.stable.promised))
        if not absent:
            self._form_when_decided()

    def _form_when_decided(self) -> bool:
        return self.is_decided() and self.form()

    def on_refuse(self, sender: SiteId, packet: Refuse, arrival: Arrival) -> None:
        """Somebody has joined a larger version."""
        core = self._core
        self.note_version(packet.promised)
        if core.attempt.stage == "inviting" and packet.promised > core.stable.promised:
            core.attempt.fail(f"{sender} has joined another list")

    def on_join(self, sender: SiteId, packet: Join, arrival: Arrival) -> None:
        """Somebody joins."""
        core = self._core
        roster = packet.roster if isinstance(packet, JoinOfRoster) else None
        core.system.check_turns(packet.uncommitted)
        core.system.check_members(packet.members, roster)
        core.settlement.note(sender, packet.settled)
        if core.attempt.stage == "inviting" and packet.version == core.stable.promised and sender not in self._applied:
            if roster is not None:
                core.system.hear_of(roster, packet.installed)
            self._joins[sender] = packet
            self._joins = core.loss.without_old_lives(self._joins)
            self._form_when_all_answered()

    def on_join_of_roster(self, sender: SiteId, packet: JoinOfRoster, arrival: Arrival) -> None:
        """The same."""
        self.on_join(sender, packet, arrival)

    def note_applied(self, sender: SiteId, version: Version, groups: tuple[GroupId, ...], merges: bool) -> None:
        """A stranger still wants to come. What it joined before, if it did, it does not remember."""
        core = self._core
        if core.attempt.stage == "inviting" and version == core.stable.promised:
            self._applied[sender] = groups
            if merges:
                self._merging.add(sender)
            self._joins.pop(sender, None)
            self._form_when_all_answered()

    def _form_when_all_answered(self) -> None:
        core = self._core
        answered = {*self._joins, *self._applied}
        if core.system.are_all(answered) and answered.issuperset(core.changes.applicants):
            self._form_when_decided()

    def on_inviting_round(self) -> None:
        """Form the list with those who have joined, when it is valid."""
        core = self._core
        joins = self._joins = core.loss.without_old_lives(self._joins)
        waited = core.patience.is_stretched or core.attempt.rounds >= INVITATIONS_MIN
        if waited and self.is_decided() and self.form():
            return
        if core.attempt.rounds > core.options.retries:
            joined = ", ".join(sorted(joins))
            core.attempt.fail(f"no valid list: of {len(core.system.all)} sites only {joined} joined {core.site}")
        else:
            self.send_invite()

    # ------------------------------------------------------------------ who decides
    def _find_best(self) -> tuple[SiteId, Join]:
        """Who has the latest list that can have committed anything, and the most turns of it.

        Not among those who came with their list, and do not know that it was opened. (Else: a takes x and y in with
        list 7, x installs it, y dies, and a forms list 8 without y. What x has is a list that nobody else has.)
        """
        joins = {site: join for site, join in self._joins.items() if not _is_tentative(join)}
        first = max(joins, key=lambda site: (joins[site].installed, joins[site].accepted, site))
        return first, joins[first]

    def _find_voters(self, best: Join) -> dict[SiteId, Join]:
        """Those whose word counts: all but those who came with a list that never was one."""
        valid = None if self._is_void(best) else best.installed
        return {s: join for s, join in self._joins.items() if not _is_tentative(join) or join.installed == valid}

    def _roster_of(self, join: Join) -> Roster:
        return join.roster if isinstance(join, JoinOfRoster) else self._core.system.roster

    def _before(self, best: Join) -> Roster | None:
        """The roster before the one of the latest list, when nobody knows that the list was opened: either may have
        gone on."""
        same = [join for join in self._joins.values() if join.installed == best.installed]
        before = [join.before if isinstance(join, JoinOfRoster) else None for join in same]
        return None if None in before else before[0]

    def _is_void(self, best: Join) -> bool:
        """Whether the latest list was never opened, and never will be: so many of those who had a say before it have
        joined this one, and have not installed that one, that the others are no majority.

        (Without: of a and b, a takes x in with list 2, installs it, and crashes before b has it. b takes x in with list
        3, and a comes back before b has installed that. List 2 needs x, who has forgotten it.)
        """
        before = self._before(best)
        if before is None:
            return False
        older = {
            s: join for s, join in self._joins.items() if join.installed < best.installed and not _is_tentative(join)
        }
        return not is_majority(before.sites, set(before.names) - _alive(before.sites, older))

    def is_decided(self) -> bool:
        """The majority test: of the roster of the latest list; and of the one before, while that list may not have been
        opened. The sites that come have no say.

        A list is opened when a majority of both has installed it. So whoever has a majority of the roster before finds
        somebody who knows of the new one. (Counting the new one only: a takes c, d and e in with list 2, which nobody
        else has; a, c and d go on with it, and b, who has only heard of a and itself, with another one.)
        """
        _first, best = self._find_best()
        voters, before = self._find_voters(best), self._before(best)
        roster = before if before is not None and self._is_void(best) else self._roster_of(best)
        if roster.life(self._core.site) != self._core.system.life:
            # This site came with a list that never was one, or was removed: it has no say.
            self._core.lookup.apply_again(tuple(sorted(voters)))
            return False
        rosters = (before,) if self._is_void(best) else (self._roster_of(best), before)
        return all(is_majority(each.sites, _alive(each.sites, voters)) for each in rosters if each is not None)

    # ------------------------------------------------------------------ second phase: installation
    def form(self) -> bool:
        """The majority test is done; the resiliency test: somebody who joined has every committed message.

        A list begins its normal phase only when a majority has installed it. So among this majority somebody has
        installed the latest list that could commit anything, or a later one that began with all of that. In that list
        L + 1 sites have each committed turn; when at most L of its sites are missing, one of them is here. The one
        with the latest list and the most turns has them all.
        """
        core = self._core
        first, best = self._find_best()
        joins = self._find_voters(best)
        # In a list that was never opened nothing was committed: whoever has installed it has all.
        missing = [] if self._is_void(best) else [site for site in best.members if site not in joins]
        if len(missing) > core.system.transfers_needed(len(best.members), self._roster_of(best)):
            core.branch("not-resilient")
            return False
        for site, join in joins.items():
            if join.committed > best.accepted:
                raise InvariantViolation(
                    f"{site} has committed turn {join.committed}, list {core.stable.promised} ends at {best.accepted}"
                )
        roster, before = self._choose_roster(best, joins)
        members = self._choose_members(best.accepted, joins, roster)
        here = [site for site in members if site not in self._coming]
        start = members.index(first if first in here else max(here, key=lambda site: (joins[site].accepted, site)))
        plain = (
            core.stable.promised,
            (*members[start:], *members[:start]),
            best.committed,
            best.uncommitted,
            max(join.everywhere for join in joins.values()),
        )
        self._proposal = Install(*plain) if roster.is_configured else InstallOfRoster(*plain, roster, before, first)
        self._confirmed = set()
        core.branch("formed" if len(members) == len(roster.sites) else "formed-without-some")
        core.changes.note_formed()
        if self._coming:
            core.attempt.begin("admitting", self.on_admitting_round)
            self._send_admit()
        else:
            self._begin_installing()
        return True

    def _choose_roster(self, best: Join, joins: dict[SiteId, Join]) -> tuple[Roster, Roster | None]:
        """The roster with which the list begins, and the one before where it is another.

        One change at a time: while the latest list may have been opened, and nobody knows, the next one brings the same
        roster as that, and needs the same majorities. What would leave no majority that is there waits.
        """
        core, roster, before = self._core, self._roster_of(best), self._before(best)
        self._coming = frozenset()
        if before is not None:
            if not self._is_void(best):
                core.branch("change-repeated")
                return roster, before
            core.branch("change-void")
            roster = before
        tentative = {site: join for site, join in self._joins.items() if site not in joins}
        applied = self._applied | {
            site: tuple(group for group, wanted in join.wishes.groups if wanted)
            for site, join in tentative.items()
            if isinstance(join, JoinOfRoster)
        }
        wishes = {site: join.wishes for site, join in joins.items() if isinstance(join, JoinOfRoster)}
        wanted = changed(roster, core.stable.promised, core.site, applied, wishes)
        if wanted is roster:
            return roster, None
        coming = frozenset(site for site in applied if wanted.life(site) is not None)
        if not is_majority(wanted.sites, {*joins, *coming}):
            core.branch("change-put-off")
            core.block("change", f"{core.site} puts a change off: of its sites too few would be there")
            return roster, None
        core.block("change", "")
        core.branch("roster-changed")
        if len({*wanted.sites} ^ {*roster.sites}) > 1:
            core.branch("several-changes")
        if len(coming) > 1:
            core.branch("several-come")
        if not joins.keys() >= {*roster.names}:
            core.branch("changed-without-some")
        self._coming = coming
        return replace(wanted, merged=tuple(sorted(coming & self._merging))), roster

    def _choose_members(self, accepted: int, joins: dict[SiteId, Join], roster: Roster) -> list[SiteId]:
        """Who is in the list: those who joined and are not far behind its history, if they are a majority; and those
        who come."""
        core = self._core
        there = {site: join for site, join in joins.items() if roster.life(site) is not None}
        near = [s for s, join in there.items() if s == core.site or accepted - join.committed <= FAR_TURNS]
        enough = is_majority(roster.sites, {*near, *self._coming})
        return sorted({*(near if enough else there), *self._coming})

    def _send_admit(self) -> None:
        """To those who come and have not installed the list. They are first: when one of them is gone by now, nobody
        else has installed a list for which it would be needed."""
        core, proposal = self._core, self._proposal
        if isinstance(proposal, InstallOfRoster):
            absent = tuple(sorted(self._coming - self._confirmed))
            ledger = core.ledger
            admit = Admit(proposal, ledger.summary(), ledger.committed_roster, core.loss.known_lives())
            core.send(absent, admit)
            if not absent:
                self._begin_installing()

    def on_admitting_round(self) -> None:
        """Somebody who was to come has not: form another list without it."""
        core = self._core
        if core.attempt.rounds <= ADMISSIONS_MAX:
            self._send_admit()
        else:
            core.branch("applicant-lost")
            core.changes.forget_applicants(self._coming - self._confirmed)
            self.originate()

    def _begin_installing(self) -> None:
        proposal = self._proposal
        if proposal is not None:
            self._core.attempt.begin("installing", self.on_installing_round)
            self._send_install(proposal)

    def _send_install(self, proposal: Install) -> None:
        """To everybody in the new list who has not installed it; and to those who leave with it, for they decide as
        well."""
        core = self._core
        leaving = (
            ()
            if not isinstance(proposal, InstallOfRoster)
            else tuple(site for site in self._joins if proposal.roster.life(site) is None)
        )
        absent = tuple(s for s in (*proposal.members, *leaving) if s not in self._confirmed and s != core.site)
        core.send(absent, proposal)
        if core.site not in self._confirmed:
            core.joining.begin(proposal)

    def on_installed(self, sender: SiteId, packet: Installed, arrival: Arrival) -> None:
        """Somebody has installed the list."""
        core = self._core
        core.settlement.note(sender, packet.settled)
        if packet.version == core.stable.promised:
            if core.attempt.stage == "installing":
                self.confirm(sender)
            elif core.attempt.stage == "admitting" and sender in self._coming:
                self._confirmed.add(sender)
                if self._coming <= self._confirmed:
                    self._begin_installing()

    # ------------------------------------------------------------------ third phase: the normal phase begins
    def confirm(self, site: SiteId) -> None:
        """When a majority has installed it, nothing with which the list begins can get lost any more."""
        self._confirmed.add(site)
        if not self._core.ring.alive:
            self._send_open()

    def _send_open(self) -> None:
        """Tell the first site to begin."""
        core, proposal = self._core, self._proposal
        if proposal is not None and self._is_installed(proposal):
            first = proposal.members[0]
            if first == core.site:
                core.ring.open(proposal.version)
            else:
                core.send((first,), Open(proposal.version))

    @property
    def is_confirmed(self) -> bool:
        """Whether so many have installed the proposed list that it can begin."""
        return self._proposal is not None and self._is_installed(self._proposal)

    def _is_installed(self, proposal: Install) -> bool:
        """Whether a majority has installed it; where it brings a new roster, of the roster before as well."""
        if not isinstance(proposal, InstallOfRoster):
            return is_majority(self._core.system.configured.sites, self._confirmed)
        others = self._confirmed - self._coming
        return is_majority(proposal.roster.sites, self._confirmed) and (
            proposal.before is None or is_majority(proposal.before.sites, others)
        )

    def on_installing_round(self) -> None:
        """Some have not installed it, or the first site has not begun."""
        core, proposal = self._core, self._proposal
        alive = core.ring.alive
        if proposal is None or (alive and self._confirmed.issuperset(proposal.members)):
            core.attempt.end()
        elif core.attempt.rounds <= core.options.retries:
            self._send_install(proposal)
            if not core.ring.alive:
                self._send_open()
        elif alive:
            core.attempt.end()
        else:
            core.attempt.fail(f"the list of {core.site} was not installed by a majority")


def _is_tentative(join: Join) -> bool:
    return isinstance(join, JoinOfRoster) and join.tentative


def _alive(lives: Lives, joins: dict[SiteId, Join]) -> set[SiteId]:
    """Those of a roster who have joined, in the life in which they are there."""
    alive = dict(lives)
    return {
        site for site, join in joins.items() if alive.get(site) == (join.life if isinstance(join, JoinOfRoster) else 0)
    }
