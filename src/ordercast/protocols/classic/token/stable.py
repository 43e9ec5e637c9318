"""The stable history: what is written to the log, when it is summed up, and what it says after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Part
from ordercast.core.effects import InstallView
from ordercast.protocols.classic.token.records import Accepted, Admission, NewList, Promised, Settled, State, TakenOver
from ordercast.protocols.classic.token.rosters import Roster, announce, announcing_run, is_majority
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Entry, Summary, Version

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token


class Stable(Part):
    """The only one who adds to the ledger, and who commits. Each change that must survive is one record and one
    method; after a crash the records make the same changes."""

    records = (Promised, Accepted, Settled, NewList, TakenOver)
    branches = ("acknowledgement-lost", "returned-by-summary")

    def __init__(self, core: Token) -> None:
        self._core = core
        self._ledger = core.ledger
        self.promised: Version = FIRST_VERSION
        """The largest version of a list that this site has joined; nothing of a smaller one is accepted."""
        self._reading = True
        """The log is being read: what it says has happened already, and nothing leaves the site."""
        self._forgotten = 0
        """How far the history was cleared, as the log says."""

    @property
    def in_normal_phase(self) -> bool:
        """Whether this site takes part in its list: it has joined no later one, knows of no turn of a later one, and
        remembers what it has done in it."""
        ledger, core = self._ledger, self._core
        return (
            self.promised == ledger.version == ledger.newest
            and not core.loss.lost
            and core.site in ledger.members
            and not core.system.outside
        )

    # ------------------------------------------------------------------ changes
    def promise(self, version: Version) -> None:
        """Join a later list: from here on nothing of an older one is accepted."""
        self._core.append(Promised(version))
        self.promised = version

    def accept(self, entry: Entry) -> None:
        """Accept the next turn of the list."""
        self._core.append(Accepted(entry, self._ledger.forgotten))
        self._apply_accepted(entry)

    def settle(self, through: int, version: Version, entries: tuple[Entry, ...]) -> None:
        """Take over committed turns from another site's history."""
        ledger = self._ledger
        if not self._core.system.outside:  # who is still coming has it summed up in its first record
            self._core.append(Settled(ledger.committed, through, version, entries, ledger.forgotten))
        self._apply_settled(through, version, entries)

    def take_over(self, summary: Summary, promised: Version, roster: Roster | None = None) -> None:
        """Go on behind turns that nobody has kept for this site."""
        core, record = self._core, TakenOver(self._ledger.committed, summary, promised, roster)
        core.append(record)
        core.branch("returned-by-summary")
        self._apply_taken_over(record)
        core.settlement.note(core.site, core.delivery.settled)
        core.source.give_credit()

    def install(self, record: NewList) -> None:
        """Go on under a new list."""
        self._core.append(record)
        self._apply_new_list(record)
        self.install_view()

    def prepare(self, admission: Admission, promised: Version) -> None:
        """Get ready to come into a list; the record of that list has all of this."""
        core = self._core
        self.promised = promised
        self._ledger.take_over(admission.summary, admission.roster)
        core.backlog.admit(admission.roster)
        core.delivery.begin(admission.roster)
        core.settlement.admit(admission.roster, 0)
        core.loss.learn(admission.lives)

    def install_view(self) -> None:
        """Tell the application who is in the list. Where sites come and go it is told who is in its groups instead, at
        the place in the order where that changes."""
        if self._core.system.roster.is_configured:
            number, originator = self._ledger.version
            self._core.outbox.append(InstallView(f"{number}:{originator}", tuple(sorted(self._ledger.members))))

    def _apply_accepted(self, entry: Entry) -> None:
        self._ledger.accept(entry)
        core = self._core
        core.backlog.remove(entry)
        if core.system.before is not None:
            core.system.open()
        self.count_transfers()

    def _apply_settled(self, through: int, version: Version, entries: tuple[Entry, ...]) -> None:
        before = self._ledger.committed_roster
        committed, dropped = self._ledger.settle(through, version, entries)
        self._take_back(dropped)
        for entry in committed:
            self._core.backlog.remove(entry)
        self._note_committed(committed, before)

    def _apply_taken_over(self, record: TakenOver) -> None:
        """The promise stays, and what was accepted and is not in the history waits, as in `_apply_settled`.

        (Promise forgotten: b has joined list 7, comes back with a summary of list 5, accepts a turn of list 5 that is
        committed with its help, and list 7 begins without it.)
        """
        core, before = self._core, self._ledger.counts
        dropped = self._ledger.take_over(record.summary, record.roster)
        self.promised = record.promised
        if record.roster is not None:
            self._learn(record.roster)
        self._take_back(dropped)
        core.backlog.skip()
        core.source.skip(self._ledger.ordered.get(core.site, 0))
        core.delivery.skip(before, core.loss.lost)
        core.loss.end()

    def _learn(self, roster: Roster) -> None:
        """There is another roster."""
        core = self._core
        core.system.hear_of(roster, self._ledger.committed_version)
        core.backlog.drop_changes()
        core.backlog.admit(roster)
        core.settlement.admit(roster, 0)

    def _apply_new_list(self, record: NewList) -> None:
        if record.roster is None and not self._core.system.roster.is_configured:
            # The list that brought another roster was never opened.
            self._core.system.enter(self._core.system.configured, None, record.version)
        if record.roster is not None:
            self._core.system.enter(record.roster, record.before, record.version)
            self.promised = max(self.promised, record.version)
            if record.roster.life(self._core.site) == record.version[0]:
                self._core.source.begin_life(record.version[0])
            self._core.backlog.admit(record.roster)
            self._core.backlog.keep_change(announcing_run(record.roster).source_number, announce(record.roster))
            self._core.settlement.admit(record.roster, record.committed)
            if record.before is None:
                # A list that was never opened may have brought others.
                self._core.settlement.dismiss(record.roster)
        dropped = self._ledger.install(record.version, record.members, record.base, record.entries)
        self._take_back(dropped)
        for entry in record.entries:
            self._core.backlog.remove(entry)

    def _take_back(self, dropped: list[Entry]) -> None:
        """These were acknowledged by a list that is over, and nobody can have delivered them: they wait for another
        acknowledgement."""
        for entry in dropped:
            if entry.turn.runs:
                self._core.branch("acknowledgement-lost")
            self._core.backlog.take_back(entry)

    # ------------------------------------------------------------------ commitment
    def count_transfers(self) -> None:
        """Commit what L token transfers have followed (Spauster 2.3).

        A turn is issued only by a site that has all before it in its log. So turn t is known at the issuers of t, t+1
        … t+L; and at the site that has just accepted the token behind t+L-1. The first turn of a list shows that a
        majority has installed it, with everything before it.
        """
        ledger, core = self._ledger, self._core
        if ledger.accepted > ledger.base:
            needed = core.system.transfers_needed(len(ledger.members))
            accepted_here = 1 if needed and ledger.token_site == core.site else 0
            self.commit(max(ledger.base, ledger.accepted - needed + accepted_here))

    def commit(self, through: int) -> None:
        """These turns are the same everywhere, for ever."""
        if through > self._ledger.committed:
            before = self._ledger.committed_roster
            self._note_committed(self._ledger.commit(through), before)

    def _note_committed(self, entries: list[Entry], before: Roster) -> None:
        """Deliver what is addressed to this site, and stop caring for what was its own. `before`: the roster that was
        the last committed one."""
        core = self._core
        core.delivery.queue(entries)
        roster = self._ledger.committed_roster
        if roster is not before:
            self._learn(roster)
            if roster.version >= core.system.roster.version:
                core.backlog.dismiss(roster)
                core.settlement.dismiss(roster)
        own = core.source.release(entries)
        if not self._reading:
            core.delivery.deliver()
        core.settlement.note(core.site, core.delivery.settled)
        if own and not self._reading:
            core.source.give_credit()

    # ------------------------------------------------------------------ checkpoints
    def checkpoint(self) -> State:
        """Everything that must survive."""
        ledger, core = self._ledger, self._core
        own_number, own = core.source.stable_state()
        return State(
            promised=self.promised,
            version=ledger.version,
            members=ledger.members,
            base=ledger.base,
            newest=ledger.newest,
            committed=ledger.committed,
            committed_version=ledger.committed_version,
            last_message_turn=ledger.committed_message_turn,
            accepted=ledger.accepted,
            forgotten=ledger.forgotten,
            sequence=ledger.sequence,
            delivered=core.delivery.delivered,
            ordered=tuple(ledger.ordered.items()),
            settled=core.settlement.stable_state(),
            entries=tuple(ledger.entries.values()),
            own_number=own_number,
            own=own,
            committed_ordered=ledger.summary().ordered,
            counts=ledger.summary().counts,
            lives=core.loss.known_lives(),
            lost=core.loss.lost,
            roster=core.delivery.roster,
            committed_roster=ledger.committed_roster,
            list_roster=core.system.roster,
            before=core.system.before,
            outside=core.system.outside,
            wishes=core.changes.stable_state(),
        )

    def restore(self, state: State) -> None:
        """Take up the state of a checkpoint, and hand the others theirs."""
        core = self._core
        self.promised = state.promised
        self._forgotten = state.forgotten
        self._ledger.restore(state)
        core.changes.restore(state)
        if state.outside:
            core.system.leave()
        elif state.list_roster is not None and not state.list_roster.is_configured:
            core.system.enter(state.list_roster, state.before, state.version)
            core.backlog.admit(state.list_roster)
            core.settlement.admit(state.list_roster, 0)
        if state.committed_roster is not None and not state.committed_roster.is_configured:
            self._learn(state.committed_roster)
        core.delivery.restore(state)
        core.settlement.restore(state)
        core.source.restore(state)
        core.loss.restore(state)

    # ------------------------------------------------------------------ recovery
    def recall_promised(self, record: Promised) -> None:
        """See `promise`."""
        self.promised = record.version

    def recall_accepted(self, record: Accepted) -> None:
        """See `accept`."""
        self._apply_accepted(record.entry)
        self._forgotten = record.forgotten

    def recall_settled(self, record: Settled) -> None:
        """See `settle`."""
        self.commit(record.committed)
        self._apply_settled(record.through, record.version, record.entries)
        self._forgotten = record.forgotten

    def recall_taken_over(self, record: TakenOver) -> None:
        """See `take_over`: what lay before the gap was delivered, or the log would not say this."""
        self.commit(record.committed)
        self._apply_taken_over(record)
        self._forgotten = record.summary.number

    def recall_new_list(self, record: NewList) -> None:
        """See `install`."""
        if record.admission is not None:
            self._core.begin_anew()
            self._core.stable.recall_admitted(record)
            return
        self.commit(record.committed)
        self._apply_new_list(record)
        self._forgotten = record.forgotten

    def recall_admitted(self, record: NewList) -> None:
        """See `prepare` and `install`."""
        if record.admission is not None:
            self._core.system.come(record.version)
            self.prepare(record.admission, record.version)
        self._apply_new_list(record)
        self._forgotten = record.committed

    def end_reading(self) -> None:
        """The log has been read, or there was none: from here on what is committed is delivered."""
        self._reading = False
        self._core.source.resume()
        self._core.settlement.resume(self._forgotten)

    def check_invariants(self) -> None:
        """What a list and a promise mean."""
        ledger, core = self._ledger, self._core
        if ledger.version > self.promised:
            raise InvariantViolation(f"list {ledger.version} is installed, but only {self.promised} was promised")
        if not core.system.outside and not is_majority(core.system.roster.sites, ledger.members):
            raise InvariantViolation(f"the list {ledger.members} is no majority")
