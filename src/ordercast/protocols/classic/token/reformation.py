"""The reformation: a new token list in three phases, invitation, installation, opening.

The list is valid when it passes three tests. Majority: more than half of all sites join it. Version: a site joins only
a larger version than ever before. Resiliency: somebody who joins has every committed message.
"""

from __future__ import annotations

from ordercast.core import Context, InvariantViolation, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.classic.token.packets import Install, Installed, Invite, Join, Open, Refuse
from ordercast.protocols.classic.token.records import NewList
from ordercast.protocols.classic.token.suspicion import Suspicion
from ordercast.protocols.classic.token.turns import Entry, Version

FAR_TURNS = 256
"""Who misses more than this is not taken into the list, unless there is no majority without it; it comes when it has
caught up."""
INVITATIONS_MIN = 2
"""A majority that has joined waits so many rounds for the others: one lost packet leaves nobody out. One round
is enough when rounds have become longer."""


class Reformation(Suspicion):
    """What the originator does, and those whom it invites."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.stage_timeouts["inviting"] = self.on_inviting_timeout
        self.stage_timeouts["installing"] = self.on_installing_timeout
        self.joins: dict[SiteId, Join] = {}
        self.proposal: Install | None = None
        self.confirmed: set[SiteId] = set()

    # ------------------------------------------------------------------ first phase: invitation
    def originate(self) -> None:
        """Invite everybody to a list with a version larger than any seen."""
        self.branch("originated")
        self.history_wanted = 0
        version = (max(self.seen[0], self.promised[0], self.ledger.newest[0]) + 1, self.site)
        self.join(version)
        self.begin_stage("inviting")
        self.joins = {self.site: self.own_join()}
        self.send_invite()

    def send_invite(self) -> None:
        """To everybody who has not joined."""
        self.send(tuple(site for site in self.others if site not in self.joins), Invite(self.promised))
        if len(self.joins) == len(self.context.sites):
            self.form()

    def join(self, version: Version) -> None:
        """The version test: only a larger one than ever before; and from here on nothing of the older lists is
        accepted."""
        self.end_attempt()
        self.promise(version)
        self.seen = max(self.seen, version)
        self.leave_normal_phase()
        self.watch_reformation()

    def leave_normal_phase(self) -> None:
        """Forget what belongs to the installed list only."""
        self.installing = None
        self.pending.clear()
        self.heard = 0
        self.ring_alive = False
        self.token_timed = False
        self.cancel_timer("token")
        self.stop_passing()

    def own_join(self) -> Join:
        """What this site has."""
        ledger = self.ledger
        return Join(
            self.promised,
            ledger.version,
            ledger.members,
            ledger.committed,
            ledger.uncommitted(),
            self.settled,
            ledger.forgotten,
        )

    def on_invite(self, sender: SiteId, packet: Invite, arrival: Arrival) -> None:
        """Join the larger version; the promise is in the log before the answer leaves.

        (Answer first, crash, come back without the promise: the site accepts another turn of the old list, which is
        committed with its help, while the new list begins without it.)
        """
        self.seen = max(self.seen, packet.version)
        if packet.version < max(self.promised, self.ledger.newest):
            self.send_refuse(sender)
            return
        if packet.version > self.promised:
            if self.stage in ("inviting", "installing"):
                self.branch("gave-way")
            self.branch("joined")
            self.join(packet.version)
        if self.ledger.version < packet.version:
            self.send((sender,), self.own_join())

    def send_refuse(self, to: SiteId) -> None:
        """There is a larger version: this site has joined it, or has history of it.

        (Joining a list smaller than that one of which it has history: the originator would see committed turns that
        nobody else who joined has.)
        """
        self.branch("refused")
        self.send((to,), Refuse(max(self.promised, self.ledger.newest)))

    def on_refuse(self, sender: SiteId, packet: Refuse, arrival: Arrival) -> None:
        """Somebody has joined a larger version."""
        self.seen = max(self.seen, packet.promised)
        if self.stage == "inviting" and packet.promised > self.promised:
            self.fail_attempt(f"{sender} has joined another list")

    def on_join(self, sender: SiteId, packet: Join, arrival: Arrival) -> None:
        """Somebody joins."""
        self.note_settled(sender, packet.settled)
        if self.stage == "inviting" and packet.version == self.promised:
            self.joins[sender] = packet
            if len(self.joins) == len(self.context.sites):
                self.form()

    def on_inviting_timeout(self) -> None:
        """Form the list with those who have joined, when it is valid."""
        waited = self.slowness > 0 or self.rounds >= INVITATIONS_MIN
        if waited and len(self.joins) >= self.majority and self.form():
            return
        if self.rounds > self.options.retries:
            joined = ", ".join(sorted(self.joins))
            self.fail_attempt(f"no valid list: of {len(self.context.sites)} sites only {joined} joined {self.site}")
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
        first = max(self.joins, key=lambda site: (self.joins[site].installed, self.joins[site].accepted, site))
        best = self.joins[first]
        missing = [site for site in best.members if site not in self.joins]
        if len(missing) > self.transfers_needed(len(best.members)):
            self.branch("not-resilient")
            return False
        for site, join in self.joins.items():
            if join.committed > best.accepted:
                raise InvariantViolation(
                    f"{site} has committed turn {join.committed}, list {self.promised} ends at {best.accepted}"
                )
        near = sorted(
            site
            for site, join in self.joins.items()
            if site == self.site or best.accepted - join.committed <= FAR_TURNS
        )
        members = near if len(near) >= self.majority else sorted(self.joins)
        start = members.index(first)
        self.proposal = Install(
            self.promised,
            (*members[start:], *members[:start]),
            best.committed,
            best.uncommitted,
            max(join.forgotten for join in self.joins.values()),
        )
        self.begin_stage("installing")
        self.confirmed = set()
        self.branch("formed" if len(members) == len(self.context.sites) else "formed-without-some")
        self.send_install()
        return True

    def send_install(self) -> None:
        """To everybody in the new list who has not installed it."""
        proposal = self.proposal
        if proposal is not None:
            absent = tuple(s for s in proposal.members if s not in self.confirmed and s != self.site)
            self.send(absent, proposal)
            if self.site not in self.confirmed:
                self.begin_installing(proposal)

    def on_install(self, sender: SiteId, packet: Install, arrival: Arrival) -> None:
        """A list that this site has joined."""
        if packet.version == self.ledger.version:
            self.send((sender,), Installed(packet.version, self.settled))
        elif packet.version == self.promised:
            self.begin_installing(packet)
        elif packet.version < self.promised:
            self.send_refuse(sender)

    def begin_installing(self, packet: Install) -> None:
        """Get the end of its history from the first site, then install it."""
        if self.installing is None or self.installing.version != packet.version:
            self.installing = packet
            self.teacher = packet.members[0]
            self.watch_reformation()
            self.note_forgotten(packet.forgotten)
            self.learn()
            if self.installing is not None:
                self.branch("caught-up-to-install")
                self.ask_retries = 0
                self.send_ask()

    def go_on_installing(self) -> None:
        """Install the new list when everything is here with which it begins: what is committed, and what may be."""
        message = self.installing
        if message is None or self.ledger.committed < message.committed:
            return
        entries: list[Entry] = []
        for turn in message.uncommitted:
            if turn.number > self.ledger.committed:
                entry = self.assemble(turn)
                if entry is None:
                    return
                entries.append(entry)
        self.installing = None
        self.branch("installed")
        ledger = self.ledger
        self.install(
            NewList(
                ledger.committed,
                message.version,
                message.members,
                message.base,
                tuple(entries),
                ledger.forgotten,
            )
        )
        self.heard = message.base
        self.source_retries = 0
        self.watch_reformation()
        self.block("majority", "")
        self.note_recovered()
        originator = message.version[1]
        if originator == self.site:
            self.confirm(self.site)
        else:
            self.send((originator,), Installed(message.version, self.settled))

    def on_installed(self, sender: SiteId, packet: Installed, arrival: Arrival) -> None:
        """Somebody has installed the list."""
        self.note_settled(sender, packet.settled)
        if self.stage == "installing" and packet.version == self.promised:
            self.confirm(sender)

    # ------------------------------------------------------------------ third phase: the normal phase begins
    def confirm(self, site: SiteId) -> None:
        """When a majority has installed it, nothing with which the list begins can get lost any more."""
        self.confirmed.add(site)
        if not self.ring_alive:
            self.send_open()

    def send_open(self) -> None:
        """Tell the first site to begin."""
        if self.proposal is not None and len(self.confirmed) >= self.majority:
            first = self.proposal.members[0]
            if first == self.site:
                self.open(self.proposal.version)
            else:
                self.send((first,), Open(self.proposal.version))

    def on_open(self, sender: SiteId, packet: Open, arrival: Arrival) -> None:
        """A majority has installed the list of which this site is the first."""
        self.open(packet.version)

    def open(self, version: Version) -> None:
        """Begin the normal phase."""
        ledger = self.ledger
        if version == ledger.version and self.opened != version and self.in_normal_phase:
            self.branch("opened")
            self.opened = version
            self.ring_alive = True
            self.commit(ledger.base)
            self.take_token()

    def on_installing_timeout(self) -> None:
        """Some have not installed it, or the first site has not begun."""
        proposal = self.proposal
        if proposal is None or (self.ring_alive and len(self.confirmed) == len(proposal.members)):
            self.end_attempt()
        elif self.rounds <= self.options.retries:
            self.send_install()
            if not self.ring_alive:
                self.send_open()
        elif self.ring_alive:
            self.end_attempt()
        else:
            self.fail_attempt(f"the list of {self.site} was not installed by a majority")

    def check_invariants(self) -> None:
        """What a list and a promise mean."""
        if self.ledger.version > self.promised:
            raise InvariantViolation(f"list {self.ledger.version} is installed, but only {self.promised} was promised")
        if self.in_normal_phase and self.site not in self.ledger.members:
            raise InvariantViolation(f"{self.site} takes part in a list that it is not in: {self.ledger.members}")
        if len(self.ledger.members) < self.majority:
            raise InvariantViolation(f"the list {self.ledger.members} is no majority")
