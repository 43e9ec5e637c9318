"""Changes: what the applications and operators want changed in the roster, until a list has brought it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ordercast.core import GroupId, Part, SiteId, UsageError, WireError
from ordercast.core.effects import ExitGroup, JoinRefused
from ordercast.core.events import Arrival, JoinRequested, LeaveRequested
from ordercast.protocols.classic.token.packets import Apply, Decline, Seek
from ordercast.protocols.classic.token.probing import CHANGE
from ordercast.protocols.classic.token.records import Gone, State, Wished
from ordercast.protocols.classic.token.rosters import Roster, Wishes
from ordercast.protocols.classic.token.turns import FIRST_VERSION
from ordercast.protocols.parts.names import SITES_MAX, WISHES_MAX, check_join, check_names, check_wishes

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token

APPLICANTS_MAX = SITES_MAX
"""Strangers who are remembered."""
APPLICATION_SECONDS = 3.0
"""How long a stranger is remembered that is not heard again."""


class Changes(Part):
    """This site's wishes, and whom it has heard wish something. A wish is in the log until it is fulfilled."""

    packets = (Apply,)
    timers = ("change",)
    records = (Wished, Gone)
    branches = (
        "applied-to",
        "leave-asked",
        "gone",
        "last-one-left",
        "given-up",
        "joiner-crashed",
        "leaver-crashed",
        "crashed-while-somebody-comes",
    )

    def __init__(self, core: Token) -> None:
        self._core = core
        self._wishes: dict[GroupId, bool] = {}
        """Group -> whether this site wants to be in it, as long as that is not so."""
        self._moves: set[GroupId] = set()
        """Those of the groups to leave that are to be joined in another lineage."""
        self.is_merging = False
        """Whether this site gives up its lineage for another one, and is not in that yet."""
        self._applicants: dict[SiteId, float] = {}
        """Stranger -> when it was heard to want to come."""
        self._removals: set[SiteId] = set()
        """Sites that an operator wants removed."""
        self._urged = False
        """Whether another member wants something."""
        self._leaves = False
        """Whether this site has delivered that it is in the roster no more."""
        self._changed = False
        """Whether the roster has changed in this step."""
        self._told = False
        """Whether an originator was told that this site wants to leave its last group."""

    # ------------------------------------------------------------------ the application
    def join(self, event: JoinRequested) -> None:
        """The application wants to be in a group."""
        core, group = self._core, event.group
        check_join("token", event)
        check_wishes(core.site, self._wishes)
        wish = self._wishes.get(group)
        if wish is None and group in self.groups:
            raise UsageError(f"{core.site} is in {group!r} already: leave it first")
        if wish is False and not core.system.outside:
            raise UsageError(f"{core.site} leaves {group!r}: join it again when it has left")
        if not wish:  # an application that is started again asks again
            self._wish(group, True)
        self.go_on()

    def leave(self, event: LeaveRequested) -> None:
        """The application wants to be out of a group."""
        core, group = self._core, event.group
        wish = self._wishes.get(group)
        if not wish and group not in self.groups:
            raise UsageError(f"{core.site} is not in {group!r}: there is nothing to leave")
        if wish:
            # It may be let in all the same: then it leaves again.
            self._wish(group, False if core.lookup.has_applied or not core.system.outside else None)
            core.outbox.append(ExitGroup(group))
        elif wish is None:
            self._wish(group, False)
        self.go_on()

    def remove(self, site: SiteId) -> None:
        """An operator wants a site removed that is not there to leave by itself."""
        core = self._core
        if core.system.outside or core.system.roster.life(site) is None:
            raise UsageError(f"{site!r} is no process of the system of {core.site}: nothing to remove")
        if site == core.site:
            raise UsageError(f"{site!r} is the process that was asked: ask another one to remove it")
        self._removals.add(site)
        self.go_on()

    def move(self) -> None:
        """Leave everything, to join it in another lineage."""
        self.is_merging = True
        for group in self.wanted_groups():
            self._moves.add(group)
            self._wish(group, None)
        for group in self.groups:
            if self._wishes.get(group) is not False:
                self._moves.add(group)
                self._wish(group, False)
        self.go_on()

    @property
    def groups(self) -> tuple[GroupId, ...]:
        """The groups in which this site is."""
        core = self._core
        return () if core.system.outside else core.delivery.roster.groups_of(core.site)

    def check_source(self) -> None:
        """Who is not in the roster yet, or is about to leave it, cannot multicast: what it has under way would be
        lost."""
        core = self._core
        if not core.delivery.is_in or core.system.outside or self._told or (self._wishes and self._leaves_all):
            raise UsageError(
                f"{self._core.site} is in no group, or leaves its last one: join a group before you multicast"
            )

    @property
    def _leaves_all(self) -> bool:
        """Whether nothing would be left of what this site is in."""
        if not self._wishes or any(self._wishes.values()):
            return False
        return all(group in self._wishes for group in self.groups) and bool(self.groups)

    def _wish(self, group: GroupId, wanted: bool | None) -> None:
        record = Wished(group, wanted, group in self._moves)
        self._core.append(record)
        self.recall_wished(record)

    # ------------------------------------------------------------------ who wants what
    def wanted_groups(self) -> tuple[GroupId, ...]:
        """The groups that this site wants to come to."""
        return tuple(sorted(group for group, wanted in self._wishes.items() if wanted))

    @property
    def applicants(self) -> tuple[SiteId, ...]:
        """Strangers who want to come."""
        return tuple(self._applicants)

    def wishes(self) -> Wishes | None:
        """What this site tells an originator that it wants; None: nothing. It leaves the roster only when all that it
        has multicast is committed."""
        core = self._core
        if self._leaves_all and not core.source.is_done:
            return None
        removals = tuple(sorted(site for site in self._removals if core.system.roster.life(site) is not None))
        if not self._wishes and not removals:
            return None
        return Wishes(tuple(sorted(self._wishes.items())), removals)

    def tell(self) -> Wishes | None:
        """Tell an originator what this site wants. When that is to leave its last group, it multicasts nothing until it
        knows what has come of it. (Else: c tells e that it leaves g, wants to join h instead, and multicasts; the list
        of e begins without c.)"""
        self._told = self._told or self._leaves_all
        return self.wishes()

    def note_list(self) -> None:
        """A list was installed, which has been told of this site's wishes or never will be."""
        self._told = False
        roster = self._core.system.roster
        self._applicants = {s: at for s, at in self._applicants.items() if roster.life(s) is None}

    @property
    def is_list_wanted(self) -> bool:
        """Whether this site should form a list for something that is wanted."""
        wishes, roster = self.wishes(), self._core.system.roster
        if self._urged or self._applicants or (wishes is not None and wishes.removals):
            return True
        # What the installed list has brought already has only to be delivered.
        within = roster.groups_of(self._core.site)
        return wishes is not None and not self._leaves_all and any(w != (g in within) for g, w in wishes.groups)

    def go_on(self) -> None:
        """Something is wanted: see to it, now and again until it is so."""
        core = self._core
        if core.system.outside:
            core.lookup.go_on()
            return
        now = core.now
        for site in [s for s, heard in self._applicants.items() if now - heard > APPLICATION_SECONDS]:
            del self._applicants[site]
        if not (self._wishes or self._removals or self._urged or self._applicants):
            return
        core.set_timer("change", core.patience.reformation() * (0.5 + core.context.random.random()))
        if not core.stable.in_normal_phase or core.attempt.stage:
            return
        if self._leaves_all and core.source.is_done:
            self._leave_roster()
        if self.is_list_wanted:
            core.probing.suspect(CHANGE)

    def _leave_roster(self) -> None:
        """Another one has to form the list without this site; the last one shuts the door behind it."""
        core = self._core
        if len(core.system.roster.sites) == 1:
            core.branch("last-one-left")
            core.delivery.exit_all()
            self._leaves = True
            return
        peers = core.ring.peers() or core.system.others
        core.branch("leave-asked")
        core.send((core.context.random.choice(peers),), Apply(core.ledger.version))

    def on_change_timeout(self) -> None:
        """Not yet so."""
        self.go_on()

    def on_apply(self, sender: SiteId, packet: Apply, arrival: Arrival) -> None:
        """Somebody wants to come, or wants something changed."""
        core = self._core
        check_names(packet.groups)
        if len(packet.groups) > WISHES_MAX:
            raise WireError(f"an application for {len(packet.groups)} groups")
        if core.system.outside:
            core.lookup.on_seek(sender, Seek(FIRST_VERSION), arrival)
        elif packet.version == FIRST_VERSION:
            self._hear_applicant(sender)
        elif packet.groups:
            core.reformation.note_applied(sender, packet.version, packet.groups, packet.merges)
        elif packet.version == core.ledger.version:
            self._urged = True
            self.go_on()

    def _hear_applicant(self, sender: SiteId) -> None:
        core = self._core
        roster = core.system.roster
        if len(roster.sites) >= SITES_MAX and roster.life(sender) is None:
            core.send((sender,), Decline(f"the list has {SITES_MAX} processes, and takes no more"))
        elif len(self._applicants) < APPLICANTS_MAX:
            core.branch("applied-to")
            self._applicants[sender] = core.now
            self.go_on()

    def note_formed(self) -> None:
        """This site forms a list, with everything that it has heard of."""
        self._urged = False

    def forget_applicants(self, sites: frozenset[SiteId] | set[SiteId]) -> None:
        """They have not come when they were let in."""
        for site in sites:
            self._applicants.pop(site, None)

    # ------------------------------------------------------------------ what has come to be
    def note_changed(self, roster: Roster, is_out: bool) -> None:
        """The roster is another one from here on in the order of deliveries; `is_out` when this site was in the one
        before and is not in this one."""
        for group, wanted in list(self._wishes.items()):
            if wanted == (group in self.groups):
                self.recall_wished(Wished(group, None))
        for site in [site for site in self._removals if roster.life(site) is None]:
            self._removals.discard(site)
        self._leaves = self._leaves or is_out
        self._changed = True
        if not self._moves and self._core.delivery.is_in:
            self.is_merging = False

    def refuse(self, reason: str) -> None:
        """The joins that are wanted will not come about."""
        for group in self.wanted_groups():
            self._wish(group, None)
            self._core.outbox.append(JoinRefused(group, reason))

    def finish_step(self) -> None:
        """The last delivery is behind this site: it is in no list any more. What it left to join elsewhere it joins."""
        if not (self._leaves or self._changed):
            return
        core, self._changed = self._core, False
        if not self._leaves:
            self.go_on()
            return
        core.branch("gone")
        core.suspicion.note_recovered()
        core.append(Gone())
        self.recall_gone(Gone())
        core.begin_outside()

    def branches_of_crash(self) -> Iterator[str]:
        """This site crashes while it wants something, or while others want to come to its list."""
        core, wishes = self._core, self._wishes.values()
        if True in wishes and (core.system.outside or core.joining.is_tentative):
            yield "joiner-crashed"
        if not core.system.outside and (False in wishes or core.system.is_leaving):
            yield "leaver-crashed"
        if self._applicants:
            yield "crashed-while-somebody-comes"

    # ------------------------------------------------------------------ stable storage
    def recall_wished(self, record: Wished) -> None:
        """See `_wish`."""
        if record.wanted is None:
            self._wishes.pop(record.group, None)
        else:
            self._wishes[record.group] = record.wanted
        if record.moves:
            self._moves.add(record.group)

    def give_up(self) -> None:
        """The list to which this site belongs, or was to come, is no more."""
        self._core.branch("given-up")
        self._core.delivery.exit_all()
        self._leaves = True

    @property
    def kept_groups(self) -> tuple[GroupId, ...]:
        """The groups in which this site is, and which it does not want to leave."""
        return tuple(group for group in self.groups if self._wishes.get(group) is not False)

    def begin_again(self, groups: tuple[GroupId, ...]) -> None:
        """This site has lost its log, and belongs to these groups in a life of which it knows nothing; or it is the
        only one left of its list. It leaves them, and joins them again."""
        self.give_up()
        self._moves.update(groups)
        for group in groups:
            self._wish(group, False)

    def recall_gone(self, record: Gone) -> None:
        """See `finish_step`. What the log says was entered, and not in which turn it was left, ends here. (Else: a is
        the last to leave g, crashes, and takes itself for a member when it comes back.)"""
        self._core.delivery.exit_all()
        self._leaves = self._told = False
        self._wishes = {group: True for group, wanted in self._wishes.items() if wanted}
        self._wishes |= dict.fromkeys(sorted(self._moves), True)
        self._moves.clear()
        self._applicants.clear()
        self._removals.clear()
        self._core.begin_anew()

    def stable_state(self) -> tuple[tuple[GroupId, bool, bool], ...]:
        """For a checkpoint."""
        return tuple((group, wanted, group in self._moves) for group, wanted in self._wishes.items())

    def resume(self) -> None:
        """The log has been read. It does not say what an originator was told whose list has not come yet."""
        self._told = self._core.stable.promised > self._core.ledger.version and False in self._wishes.values()
        self.go_on()

    def restore(self, state: State) -> None:
        """As the checkpoint says."""
        self._wishes = {group: wanted for group, wanted, _moves in state.wishes}
        self._moves = {group for group, _wanted, moves in state.wishes if moves}
