"""The reformation: a new token list in three phases, invitation, installation, opening.

The list is valid when it passes three tests. Majority: more than half of all sites join it. Version: a site joins only
a larger version than ever before. Resiliency: somebody who joins has every committed message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.classic.token.packets import Install, Installed, Invite, Join, Open, Refuse
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Version

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token

FAR_TURNS = 256
"""Who misses more than this is not taken into the list, unless there is no majority without it; it comes when it has
caught up."""
INVITATIONS_MIN = 2
"""A majority that has joined waits so many rounds for the others: one lost packet leaves nobody out. One round
is enough when rounds have become longer."""


class Reformation(Part):
    """What the originator of a list does."""

    packets = (Join, Refuse, Installed)
    branches = ("originated", "formed", "formed-without-some", "not-resilient")

    def __init__(self, core: Token) -> None:
        self._core = core
        self.seen: Version = FIRST_VERSION
        """The largest version that anybody has spoken of."""
        self._joins: dict[SiteId, Join] = {}
        self._proposal: Install | None = None
        self._confirmed: set[SiteId] = set()

    def note_version(self, version: Version) -> None:
        """Somebody has spoken of it."""
        self.seen = max(self.seen, version)

    # ------------------------------------------------------------------ first phase: invitation
    def originate(self) -> None:
        """Invite everybody to a list with a version larger than any seen."""
        core = self._core
        core.branch("originated")
        number = max(self.seen[0], core.stable.promised[0], core.ledger.newest[0]) + 1
        core.joining.join((number, core.site))
        core.attempt.begin("inviting", self.on_inviting_round)
        self._joins = {core.site: core.joining.own_join()}
        self.send_invite()

    def send_invite(self) -> None:
        """To everybody who has not joined."""
        core = self._core
        absent = tuple(site for site in core.system.others if site not in self._joins)
        core.send(absent, Invite(core.stable.promised))
        if not absent:
            self.form()

    def on_refuse(self, sender: SiteId, packet: Refuse, arrival: Arrival) -> None:
        """Somebody has joined a larger version."""
        core = self._core
        self.note_version(packet.promised)
        if core.attempt.stage == "inviting" and packet.promised > core.stable.promised:
            core.attempt.fail(f"{sender} has joined another list")

    def on_join(self, sender: SiteId, packet: Join, arrival: Arrival) -> None:
        """Somebody joins."""
        core = self._core
        core.system.check_turns(packet.uncommitted)
        core.system.check_members(packet.members)
        core.settlement.note(sender, packet.settled)
        if core.attempt.stage == "inviting" and packet.version == core.stable.promised:
            self._joins[sender] = packet
            self._joins = core.loss.without_old_lives(self._joins)
            if core.system.are_all(len(self._joins)):
                self.form()

    def on_inviting_round(self) -> None:
        """Form the list with those who have joined, when it is valid."""
        core = self._core
        joins = self._joins = core.loss.without_old_lives(self._joins)
        waited = core.patience.is_stretched or core.attempt.rounds >= INVITATIONS_MIN
        if waited and core.system.are_majority(len(joins)) and self.form():
            return
        if core.attempt.rounds > core.options.retries:
            joined = ", ".join(sorted(joins))
            core.attempt.fail(f"no valid list: of {len(core.system.all)} sites only {joined} joined {core.site}")
        else:
            self.send_invite()

    # ------------------------------------------------------------------ second phase: installation
    def form(self) -> bool:
        """The majority test is done; the resiliency test: somebody who joined has every committed message.

        A list begins its normal phase only when a majority has installed it. So among this majority somebody has
        installed the latest list that could commit anything, or a later one that began with all of that. In that list
        L + 1 sites have each committed turn; when at most L of its sites are missing, one of them is here. The one
        with the latest list and the most turns has them all.
        """
        core, joins = self._core, self._joins
        first = max(joins, key=lambda site: (joins[site].installed, joins[site].accepted, site))
        best = joins[first]
        missing = [site for site in best.members if site not in joins]
        if len(missing) > core.system.transfers_needed(len(best.members)):
            core.branch("not-resilient")
            return False
        for site, join in joins.items():
            if join.committed > best.accepted:
                raise InvariantViolation(
                    f"{site} has committed turn {join.committed}, list {core.stable.promised} ends at {best.accepted}"
                )
        members = self._choose_members(best.accepted)
        start = members.index(first)
        self._proposal = Install(
            core.stable.promised,
            (*members[start:], *members[:start]),
            best.committed,
            best.uncommitted,
            max(join.everywhere for join in joins.values()),
        )
        core.attempt.begin("installing", self.on_installing_round)
        self._confirmed = set()
        core.branch("formed" if core.system.are_all(len(members)) else "formed-without-some")
        self._send_install(self._proposal)
        return True

    def _choose_members(self, accepted: int) -> list[SiteId]:
        """Who is in the list: those who joined and are not far behind its history, if they are a majority."""
        core = self._core
        near = sorted(
            site for site, join in self._joins.items() if site == core.site or accepted - join.committed <= FAR_TURNS
        )
        return near if core.system.are_majority(len(near)) else sorted(self._joins)

    def _send_install(self, proposal: Install) -> None:
        """To everybody in the new list who has not installed it."""
        core = self._core
        absent = tuple(s for s in proposal.members if s not in self._confirmed and s != core.site)
        core.send(absent, proposal)
        if core.site not in self._confirmed:
            core.joining.begin(proposal)

    def on_installed(self, sender: SiteId, packet: Installed, arrival: Arrival) -> None:
        """Somebody has installed the list."""
        core = self._core
        core.settlement.note(sender, packet.settled)
        if core.attempt.stage == "installing" and packet.version == core.stable.promised:
            self.confirm(sender)

    # ------------------------------------------------------------------ third phase: the normal phase begins
    def confirm(self, site: SiteId) -> None:
        """When a majority has installed it, nothing with which the list begins can get lost any more."""
        self._confirmed.add(site)
        if not self._core.ring.alive:
            self._send_open()

    def _send_open(self) -> None:
        """Tell the first site to begin."""
        core, proposal = self._core, self._proposal
        if proposal is not None and core.system.are_majority(len(self._confirmed)):
            first = proposal.members[0]
            if first == core.site:
                core.ring.open(proposal.version)
            else:
                core.send((first,), Open(proposal.version))

    def on_installing_round(self) -> None:
        """Some have not installed it, or the first site has not begun."""
        core, proposal = self._core, self._proposal
        alive = core.ring.alive
        if proposal is None or (alive and len(self._confirmed) == len(proposal.members)):
            core.attempt.end()
        elif core.attempt.rounds <= core.options.retries:
            self._send_install(proposal)
            if not core.ring.alive:
                self._send_open()
        elif alive:
            core.attempt.end()
        else:
            core.attempt.fail(f"the list of {core.site} was not installed by a majority")
