"""The ledger: the one history of turns as far as this site has it, and the token list that it is written under.

    forgotten <= committed <= accepted

Turns up to `forgotten` are gone: everybody for whom they were kept has settled them. Turns up to `committed` are the
same at every site for ever; of these only the ones with messages are kept. The turns behind that are accepted: logged
here, but a new list may begin without them.
"""

from __future__ import annotations

from collections.abc import Iterable

from ordercast.core import GroupId, InvariantViolation, Multicast, Part, SiteId
from ordercast.protocols.classic.token.records import State
from ordercast.protocols.classic.token.rosters import Roster, configured, read_roster
from ordercast.protocols.classic.token.turns import (
    FIRST_VERSION,
    Entry,
    Run,
    Summary,
    Turn,
    Version,
    begins_life,
    life_start,
)
from ordercast.protocols.parts.names import GROUPS_MAX

COUNTED_MAX = 2 * GROUPS_MAX
"""Groups whose messages have been counted: all that a roster can have, and as many again that have ended."""


class Ledger(Part):
    """The history and the installed list. It changes only by the methods below, live and when the log is read after a
    crash alike."""

    def __init__(self, sites: tuple[SiteId, ...], roster: Roster | None = None) -> None:
        self.version: Version = FIRST_VERSION
        self.members: tuple[SiteId, ...] = sites
        """The token list, in the order in which the token goes around."""
        self.base = 0
        """The last turn before this list."""
        self.newest: Version = FIRST_VERSION
        """The largest version of which this site has a turn. Larger than `version`: the site has learned history of a
        list that it is not in, and may not add turns of its old list to that."""
        self.accepted = 0
        self.committed = 0
        self.committed_version: Version = FIRST_VERSION
        """Version in which turn `committed` was issued."""
        self.committed_message_turn = 0
        """The last committed turn that had messages."""
        self.forgotten = 0
        self.entries: dict[int, Entry] = {}
        self.messages = 0
        """Messages in `entries`."""
        self.bytes = 0
        """What they occupy."""
        self.uncommitted_messages = 0
        self.sequence = 0
        """The last sequence number given."""
        self.ordered: dict[SiteId, int] = dict.fromkeys(sites, 0)
        """Source -> number of its last message that is in the history."""
        self._committed_ordered: dict[SiteId, int] = dict.fromkeys(sites, 0)
        """Source -> number of its last message that is committed."""
        self.roster = roster or configured(sites, {})
        """The last one in the history."""
        self.committed_roster = self.roster
        """The last one in its committed part."""
        self.counts: dict[GroupId, int] = {}
        """Group -> application messages that are committed in it. Every site counts every group, by the order and not
        by what it delivers: a site that is in no group has to tell one that comes back where its groups are, when it is
        the only one that is there."""

    # ------------------------------------------------------------------ what it says
    @property
    def token_site(self) -> SiteId:
        """Whose turn is next."""
        return self.members[(self.accepted - self.base) % len(self.members)]

    def issuer(self, number: int) -> SiteId:
        """Who issues that turn of the installed list."""
        return self.members[(number - self.base - 1) % len(self.members)]

    @property
    def last_message_turn(self) -> int:
        """The last turn that has messages."""
        for number in range(self.accepted, self.committed, -1):
            if self.entries[number].turn.runs:
                return number
        return self.committed_message_turn

    def uncommitted(self) -> tuple[Turn, ...]:
        """The turns behind the committed ones."""
        return tuple(self.entries[number].turn for number in range(self.committed + 1, self.accepted + 1))

    def uncommitted_bytes(self) -> int:
        """What their messages occupy."""
        return sum(self.entries[number].bytes for number in range(self.committed + 1, self.accepted + 1))

    def committed_turns(self, after: int, turns_max: int, messages_max: int) -> tuple[list[Turn], int, Version]:
        """Committed turns with messages after a turn, how far they reach, and the version of the turn there."""
        turns: list[Turn] = []
        messages = 0
        for number in range(max(after, self.forgotten) + 1, self.committed + 1):
            entry = self.entries.get(number)
            if entry is None:
                continue
            if turns and (len(turns) >= turns_max or messages + entry.turn.messages > messages_max):
                return turns, turns[-1].number, turns[-1].version
            turns.append(entry.turn)
            messages += entry.turn.messages
        return turns, self.committed, self.committed_version

    def find(self, number: int, version: Version) -> Entry | None:
        """The entry of that turn, when it is here."""
        entry = self.entries.get(number)
        return entry if entry is not None and entry.turn.version == version else None

    def find_uncommitted(self, source: SiteId, source_number: int) -> Multicast | None:
        """A message that an accepted turn holds."""
        for number in range(self.accepted, self.committed, -1):
            for of, found, multicast in self.entries[number].numbered():
                if of == source and found == source_number:
                    return multicast
        return None

    def committed_source_number(self, source: SiteId) -> int:
        """Number of the source's last message that is committed."""
        return self._committed_ordered.get(source, 0)

    def summary(self) -> Summary:
        """Of the committed part."""
        return Summary(
            self.committed,
            self.committed_version,
            self.committed_message_turn,
            self.sequence - self.uncommitted_messages,
            tuple(self._committed_ordered.items()),
            tuple(self.counts.items()),
        )

    def offset(self, group: GroupId, sequence: int) -> int:
        """How many application messages were ordered in the group up to a committed sequence number, which is not
        forgotten."""
        count = self.counts.get(group, 0)
        for entry in reversed(self.entries.values()):
            turn = entry.turn
            if turn.number <= self.committed:
                if turn.first_sequence + turn.messages - 1 <= sequence:
                    break
                for at, multicast in enumerate(entry.multicasts, turn.first_sequence):
                    if at > sequence and group in multicast.groups:
                        count -= multicast.count
        return count

    def begins_at(self, source: SiteId, roster: Roster) -> int | None:
        """Number of the source's last message in the history; for a site that comes with this roster, the number
        before its first one; None for strangers."""
        if source in self.ordered:
            return self.ordered[source]
        life = roster.life(source)
        return None if life is None else life_start(life)

    # ------------------------------------------------------------------ how it changes
    def accept(self, entry: Entry) -> None:
        """The next turn of the installed list."""
        turn = entry.turn
        if turn.number != self.accepted + 1 or turn.version != self.version or self.newest != self.version:
            raise InvariantViolation(
                f"turn {turn.number} of {turn.version} cannot follow {self.accepted} of {self.version}"
            )
        self._push(entry)

    def commit(self, through: int) -> list[Entry]:
        """Accepted turns are committed; those that have messages."""
        committed = []
        for number in range(self.committed + 1, through + 1):
            entry = self.entries[number]
            self.committed_version = entry.turn.version
            if entry.turn.runs:
                committed.append(entry)
                self._count(entry)
                self.uncommitted_messages -= entry.turn.messages
            else:
                del self.entries[number]
            self.committed = number
        return committed

    def settle(self, through: int, version: Version, entries: Iterable[Entry]) -> tuple[list[Entry], list[Entry]]:
        """Take over committed turns from elsewhere: what is newly committed, and what was accepted here and is no part
        of the history.

        What is dropped can never be committed: another turn is, at the same number; and what was accepted on top of it
        goes with it.
        """
        if self.accepted >= through and self.find(through, version) is not None:
            # The same turn, hence the same history before it.
            return self.commit(through), []
        dropped = self._drop_uncommitted()
        committed = [entry for entry in entries if entry.turn.number > self.committed]
        for entry in committed:
            self._push(entry)
            self._count(entry)
        self.uncommitted_messages = 0
        self.accepted = self.committed = through
        self.committed_version = version
        self.newest = max(self.newest, version)
        return committed, dropped

    def take_over(self, summary: Summary, roster: Roster | None = None) -> list[Entry]:
        """Go on behind a committed turn, with the roster that it has there, without what lies before it; what was
        accepted here and is no longer known to be part of the history."""
        if summary.number < self.committed:
            raise InvariantViolation(f"turn {summary.number} is to be taken over, {self.committed} is committed")
        dropped = self._drop_uncommitted()
        self.entries.clear()
        self.messages = self.bytes = 0
        self.forgotten = self.committed = self.accepted = summary.number
        self.committed_version = summary.version
        self.committed_message_turn = summary.message_turn
        self.newest = max(self.newest, summary.version)
        self.sequence = summary.sequence
        if roster is not None:
            self.roster = self.committed_roster = roster
            self.ordered.clear()
            self._committed_ordered.clear()
        self._committed_ordered.update(summary.ordered)
        self.ordered.update(summary.ordered)
        self.counts = dict(summary.counts)
        return dropped

    def install(
        self, version: Version, members: tuple[SiteId, ...], base: int, entries: Iterable[Entry]
    ) -> list[Entry]:
        """Go on under another list, which begins with these entries behind the committed ones; what is dropped for
        them."""
        dropped = self._drop_uncommitted()
        for entry in entries:
            if entry.turn.number > self.committed:
                if entry.turn.number != self.accepted + 1:
                    raise InvariantViolation(
                        f"list {version} begins with turn {entry.turn.number} after {self.accepted}"
                    )
                self._push(entry)
        # It may end behind the base: others have opened the list, and what they have committed since came first.
        if self.accepted < base or version <= self.version:
            raise InvariantViolation(f"list {version} begins at {base}, not at {self.accepted} of {self.version}")
        self.version = version
        self.members = members
        self.base = base
        self.newest = max(self.newest, version)
        return dropped

    def forget(self, through: int) -> None:
        """Everybody for whom these were kept has delivered them."""
        for number in range(self.forgotten + 1, through + 1):
            entry = self.entries.pop(number, None)
            if entry is not None:
                self.messages -= entry.turn.messages
                self.bytes -= entry.bytes
        self.forgotten = max(self.forgotten, through)

    def restore(self, state: State) -> None:
        """Be as the checkpoint says."""
        self.version, self.members, self.base, self.newest = state.version, state.members, state.base, state.newest
        self.committed, self.committed_version = state.committed, state.committed_version
        self.committed_message_turn = state.last_message_turn
        self.accepted, self.forgotten = state.accepted, state.forgotten
        self.sequence = state.sequence
        if state.committed_roster is not None:
            self.roster = self.committed_roster = state.committed_roster
            self.ordered.clear()
            self._committed_ordered.clear()
        self.ordered.update(state.ordered)
        self.entries = {entry.turn.number: entry for entry in state.entries}
        self.messages = sum(len(entry.multicasts) for entry in state.entries)
        self.bytes = sum(entry.bytes for entry in state.entries)
        self.uncommitted_messages = sum(turn.messages for turn in self.uncommitted())
        self._committed_ordered.update(state.committed_ordered or self._committed_part())
        self.counts = dict(state.counts)
        for turn in self.uncommitted():
            if turn.is_change:
                self.roster = read_roster(self.entries[turn.number].multicasts[0])

    def _committed_part(self) -> dict[SiteId, int]:
        """For checkpoints of earlier versions, which know no lives: a source's numbers have no gap."""
        committed = dict(self.ordered)
        for turn in self.uncommitted():
            for run in turn.runs:
                committed[run.first.source] -= run.count
        return committed

    def _count(self, entry: Entry) -> None:
        """A turn with messages is committed."""
        turn = entry.turn
        self.committed_message_turn = turn.number
        if not entry.multicasts[0].groups and turn.is_change:
            roster = read_roster(entry.multicasts[0])
            _enrol(self._committed_ordered, self.committed_roster, roster)
            self.committed_roster = roster
            self._forget_ended(roster)
            return
        for run in turn.runs:
            self._committed_ordered[run.first.source] = run.source_number + run.count - 1
        counts = self.counts
        for multicast in entry.multicasts:
            for group in multicast.groups:
                counts[group] = counts.get(group, 0) + multicast.count

    def _forget_ended(self, roster: Roster) -> None:
        """Who joins a group again that has ended goes on from where it was; but of groups that are made and left for
        ever not all can be remembered. What is forgotten is decided by the order, and so the same everywhere."""
        too_many = len(self.counts) - COUNTED_MAX
        if too_many > 0:
            there = {group for group, _members in roster.groups}
            ended = [group for group in self.counts if group not in there]
            for group in ended[:too_many]:
                del self.counts[group]

    def _push(self, entry: Entry) -> None:
        turn = entry.turn
        if turn.first_sequence != self.sequence + 1 or turn.messages != len(entry.multicasts):
            raise InvariantViolation(
                f"turn {turn.number} begins at {turn.first_sequence}, the history ends at {self.sequence}"
            )
        for run in turn.runs:
            source, number = run.first.source, run.source_number
            if self.ordered.get(source) == number - 1 or not self._push_change(entry, run):
                self.ordered[source] = number + run.count - 1
        count = len(entry.multicasts)
        self.entries[turn.number] = entry
        self.messages += count
        self.bytes += entry.bytes
        self.uncommitted_messages += count
        self.sequence += count
        self.accepted = turn.number

    def _push_change(self, entry: Entry, run: Run) -> bool:
        """Whether a turn brings a roster, when its run does not go on where its source was. If not, it begins a life of
        its source, or it is a mistake."""
        turn = entry.turn
        if turn.is_change:
            roster = read_roster(entry.multicasts[0])
            _enrol(self.ordered, self.roster, roster)
            self.roster = roster
            return True
        before = self.ordered.get(run.first.source)
        if before is None:
            raise InvariantViolation(f"turn {turn.number} acknowledges {run.first}, whose source is not in the roster")
        if not begins_life(run.source_number) or run.source_number <= before:
            raise InvariantViolation(
                f"turn {turn.number} acknowledges {run.first} as number {run.source_number} of its source, "
                f"after {before}"
            )
        return False

    def _drop_uncommitted(self) -> list[Entry]:
        dropped = []
        for number in range(self.accepted, self.committed, -1):
            entry = self.entries.pop(number)
            dropped.append(entry)
            self.messages -= entry.turn.messages
            self.bytes -= entry.bytes
            self.sequence -= entry.turn.messages
        if dropped:
            self.ordered.clear()
            self.ordered.update(self._committed_ordered)
            self.roster = self.committed_roster
        self.accepted = self.committed
        self.uncommitted_messages = 0
        return dropped

    # ------------------------------------------------------------------ what must be true
    def check_invariants(self) -> None:
        """Cheap enough for every step: what is committed was checked when it was pushed."""
        if not self.forgotten <= self.committed <= self.accepted:
            raise InvariantViolation(
                f"forgotten {self.forgotten}, committed {self.committed}, accepted {self.accepted}"
            )
        # A list that never opened may begin with more than the history turned out to have; a later one is known then.
        if self.newest < self.version or (self.newest == self.version and self.accepted < self.base):
            raise InvariantViolation(f"accepted {self.accepted} of {self.newest}, list {self.version} from {self.base}")
        sequence = self.sequence - self.uncommitted_messages
        for number in range(self.committed + 1, self.accepted + 1):
            turn = self.entries[number].turn
            if turn.number != number or turn.first_sequence != sequence + 1 or turn.version > self.version:
                raise InvariantViolation(f"turn {number} is {turn}, behind sequence number {sequence}")
            sequence += turn.messages
        if sequence != self.sequence:
            raise InvariantViolation(f"the history ends with {sequence}, not with {self.sequence}")


def _enrol(ordered: dict[SiteId, int], before: Roster, roster: Roster) -> None:
    """A roster follows on another one: whoever has come, or begins a new life, has ordered nothing in it, and whoever
    has gone is forgotten."""
    lives = dict(before.sites)
    for site, life in roster.sites:
        if lives.get(site) != life:
            ordered[site] = life_start(life)
    for site in [source for source in ordered if roster.life(source) is None]:
        del ordered[site]
