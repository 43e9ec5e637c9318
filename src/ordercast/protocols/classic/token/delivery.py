"""Delivery: what is committed goes to the application in order, once, and no faster than the application takes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ordercast.core import GroupId, InvariantViolation, Multicast, Part, SiteId
from ordercast.core.effects import Deliver, EnterGroup, ExitGroup, InstallView, Replay
from ordercast.protocols.classic.token.records import Delivered, State
from ordercast.protocols.classic.token.rosters import Roster, read_roster
from ordercast.protocols.classic.token.turns import Entry

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token


class Delivery(Part):
    """What the application has, and what waits for it."""

    records = (Delivered,)
    branches = ("reader-slow", "entered", "exited")

    def __init__(self, core: Token) -> None:
        self._core = core
        self._ledger = core.ledger
        self._undelivered: deque[tuple[int, int, Multicast, bool]] = deque()
        """Turn, sequence number and message, of what is committed and addressed to this site; and whether it changes
        the roster."""
        self._unconsumed = 0
        self.delivered = 0
        """Sequence number of the last delivery."""
        self.roster = core.ledger.roster
        """The last one that the application has been told of, or the one of the configuration."""
        self._groups = frozenset(self._own_groups(self.roster))
        """The groups in which this site is where the queue ends."""
        self.is_in = True
        """Whether this site is in the roster behind the last delivery."""
        self._positions = dict.fromkeys(self._groups, 0)
        """Group in which this site is -> the offset at which its application is."""

    @property
    def settled(self) -> int:
        """Everything up to this turn is delivered here."""
        return self._undelivered[0][0] - 1 if self._undelivered else self._ledger.committed

    @property
    def is_done(self) -> bool:
        """Whether nothing that is committed waits for the application."""
        return not self._undelivered

    def queue(self, entries: Iterable[Entry]) -> None:
        """These are committed: what is addressed to this site waits for its delivery."""
        for entry in entries:
            turn = entry.turn
            for sequence, multicast in enumerate(entry.multicasts, turn.first_sequence):
                if not self._groups.isdisjoint(multicast.groups):
                    self._undelivered.append((turn.number, sequence, multicast, False))
                elif turn.is_change:
                    self._groups = frozenset(self._own_groups(read_roster(multicast)))
                    self._undelivered.append((turn.number, sequence, multicast, True))

    def _own_groups(self, roster: Roster) -> tuple[GroupId, ...]:
        """The groups in which this site is, in its present life; none while it is in no list. (Else: a leaves g and h
        of its configuration, founds h anew, and believes that its application is at the beginning of g.)"""
        core = self._core
        is_here = not core.system.outside and roster.life(core.site) == core.system.life
        return roster.groups_of(core.site) if is_here else ()

    def deliver(self) -> None:
        """Deliver in the order of the sequence numbers, as far as the application keeps up.

        The log says so first. (Deliver, crash before the log: after the recovery the same message is delivered again.)
        """
        core, waiting = self._core, self._undelivered
        if not waiting:
            return
        room = core.options.reader_messages_max - self._unconsumed
        chosen: list[tuple[int, int, Multicast, bool]] = []
        if len(waiting) <= room:
            chosen.extend(waiting)
            waiting.clear()
        # A change takes no room: the application takes messages only, and would never make any for what follows it.
        while waiting and (room > 0 or waiting[0][3]):
            chosen.append(waiting.popleft())
            room -= not chosen[-1][3]
        if waiting:
            core.branch("reader-slow")
            if not chosen:
                return
        self.delivered = chosen[-1][1]
        if not core.system.outside:  # who is still coming learns of rosters before its own, and delivers nothing
            self.log(Delivered(self._ledger.committed, self.delivered))
        for _turn, sequence, multicast, changes in chosen:
            if changes:
                self._change(read_roster(multicast), sequence)
            else:
                self._unconsumed += 1
                self._move(multicast)
                core.outbox.append(Deliver(multicast, order_key=(sequence,)))

    def _move(self, multicast: Multicast) -> None:
        for group in multicast.groups:
            if group in self._positions:
                self._positions[group] += multicast.count

    def _enter(self, group: GroupId, offset: int) -> None:
        self._positions[group] = offset
        self._core.outbox.append(EnterGroup(group, offset))

    def _exit(self, group: GroupId) -> None:
        self._positions.pop(group, None)
        self._core.outbox.append(ExitGroup(group))

    def exit_all(self) -> None:
        """Leave every group in which the application is."""
        for group in sorted(self._positions):
            self._exit(group)

    def _change(self, roster: Roster, sequence: int) -> None:
        """The roster changes here: leave and enter what this site leaves and enters, and tell who is in its groups."""
        core, before = self._core, self.roster
        were, are, was_in = self._own_groups(before), self._own_groups(roster), self.is_in
        self._take(roster)
        for group in were:
            if group not in are:
                core.branch("exited")
                self._exit(group)
        for group in are:
            if group not in were:
                core.branch("entered")
                self._enter(group, self._ledger.offset(group, sequence))
            if group not in were or _lives(roster, group) != _lives(before, group):
                self._install_view(group, before if group in were else None)
        core.changes.note_changed(roster, was_in and not self.is_in)

    def _take(self, roster: Roster) -> None:
        self.roster = roster
        self.is_in = roster.life(self._core.site) == self._core.system.life

    def _install_view(self, group: GroupId, before: Roster | None) -> None:
        """Tell who is in a group. Those come along from the view before who were in it in the same life."""
        number, originator = self.roster.version
        members = _lives(self.roster, group)
        along = (
            () if before is None else tuple(s for s, life in members.items() if _lives(before, group).get(s) == life)
        )
        # Whoever has come from another lineage finds those who were here, and they find it.
        came = self.roster.merged
        merged = tuple(site for site in members if (site in came) != (self._core.site in came)) if came else ()
        view = InstallView(f"{number}:{originator}", tuple(members), along, (group,), merged)
        self._core.outbox.append(view)

    def begin(self, roster: Roster) -> None:
        """The history begins here for a site that comes; in none of its groups does it have anything to deliver."""
        self.delivered = self._ledger.sequence
        self._take(roster)
        self._groups = frozenset()
        self._positions.clear()

    def log(self, record: Delivered) -> None:
        """Append to the log."""
        self._core.append(record)

    def consume(self, count: int) -> None:
        """The application has taken so many: there is room for more."""
        self._unconsumed = max(0, self._unconsumed - count)
        self.deliver()

    def skip(self, before: Mapping[GroupId, int], anything: bool) -> None:
        """The history goes on behind a gap: leave the groups in which something is missing, and enter them where the
        others are. `anything`: nobody knows what was delivered here, so that is every group.

        Everything before the gap has been delivered. (Else it would follow on the gap, or never come.)
        """
        core, ledger, were, was_in = self._core, self._ledger, self._own_groups(self.roster), self.is_in
        if self._undelivered:
            raise InvariantViolation(f"{len(self._undelivered)} messages before the gap are not delivered")
        self.delivered = ledger.sequence
        self._take(ledger.committed_roster)
        are = self._own_groups(self.roster)
        self._groups = frozenset(are)
        missed = [
            group
            for group in dict.fromkeys((*core.context.groups, *were, *are))
            if (group in were or group in are)
            and (anything or ledger.counts.get(group, 0) != before.get(group, 0) or (group in were) != (group in are))
        ]
        for group in missed:
            if group in were:
                self._exit(group)
        for group in missed:
            if group in are:
                self._enter(group, ledger.counts.get(group, 0))
                if not self.roster.is_configured:
                    self._install_view(group, None)
        if not self.roster.is_configured:
            core.changes.note_changed(self.roster, was_in and not self.is_in)

    # ------------------------------------------------------------------ after a crash
    def recall_delivered(self, record: Delivered) -> None:
        """The application has these, or the runtime sees to it now."""
        core = self._core
        core.stable.commit(record.committed)
        while self._undelivered and self._undelivered[0][1] <= record.sequence:
            _turn, sequence, multicast, changes = self._undelivered.popleft()
            if changes:
                self._change(read_roster(multicast), sequence)
            else:
                self._move(multicast)
                core.outbox.append(Replay(multicast, order_key=(sequence,)))
        self.delivered = record.sequence

    def restore(self, state: State) -> None:
        """What is committed and was not delivered waits again."""
        self.delivered = state.delivered
        if state.roster is not None:
            self._take(state.roster)
            self._groups = frozenset(self._own_groups(self.roster))
        self.queue(entry for entry in state.entries if entry.turn.number <= state.committed)
        while self._undelivered and self._undelivered[0][1] <= state.delivered:
            self._undelivered.popleft()
        own = self._own_groups(self.roster)
        self._positions = {group: self._ledger.offset(group, self.delivered) for group in own}
        if not self.roster.is_configured:
            for group in own:
                self._enter(group, self._positions[group])
                self._install_view(group, self.roster)

    def check_invariants(self) -> None:
        """Only what is committed."""
        if self.delivered > self._ledger.sequence - self._ledger.uncommitted_messages:
            raise InvariantViolation(f"delivered {self.delivered}, which is not committed")
        for group, at in self._positions.items():
            if at != self._ledger.offset(group, self.delivered):
                offset = self._ledger.offset(group, self.delivered)
                raise InvariantViolation(f"the application is at {at} of {group}, and {offset} were ordered in it")


def _lives(roster: Roster, group: GroupId) -> dict[SiteId, int]:
    """The members of a group, with their lives."""
    members = roster.members(group)
    return {site: life for site, life in roster.sites if site in members}
