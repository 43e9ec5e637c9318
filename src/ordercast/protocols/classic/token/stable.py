"""The stable log: what is written, when it is summed up, and how a site becomes itself again after a crash."""

from __future__ import annotations

from ordercast.core import Record
from ordercast.core.effects import InstallView, Replay
from ordercast.protocols.classic.token.records import Accepted, Delivered, NewList, Own, Promised, Settled, State
from ordercast.protocols.classic.token.state import TokenState
from ordercast.protocols.classic.token.turns import Entry, Version


class StableState(TokenState):
    """Each change that must survive is one record and one method; after a crash the same methods read the records."""

    # ------------------------------------------------------------------ changes
    def promise(self, version: Version) -> None:
        """Join a later list: from here on nothing of an older one is accepted."""
        self.append(Promised(version))
        self.promised = version

    def accept_entry(self, entry: Entry) -> None:
        """Accept the next turn of the list."""
        self.append(Accepted(entry, self.ledger.forgotten))
        self.apply_accepted(entry)

    def settle(self, through: int, version: Version, entries: tuple[Entry, ...]) -> None:
        """Take over committed turns from another site's history."""
        self.append(Settled(self.ledger.committed, through, version, entries, self.ledger.forgotten))
        self.apply_settled(through, version, entries)

    def install(self, record: NewList) -> None:
        """Go on under a new list."""
        self.append(record)
        self.apply_new_list(record)
        self.install_view()

    def log_delivered(self, record: Delivered) -> None:
        """Append to the log."""
        self.append(record)

    def apply_accepted(self, entry: Entry) -> None:
        """See `accept_entry`."""
        self.ledger.accept(entry)
        self.backlog.remove(entry)
        self.count_transfers()

    def apply_settled(self, through: int, version: Version, entries: tuple[Entry, ...]) -> None:
        """See `settle`."""
        committed, dropped = self.ledger.settle(through, version, entries)
        self.take_back(dropped)
        for entry in committed:
            self.backlog.remove(entry)
        self.note_committed(committed)

    def apply_new_list(self, record: NewList) -> None:
        """See `install`."""
        dropped = self.ledger.install(record.version, record.members, record.base, record.entries)
        self.take_back(dropped)
        for entry in record.entries:
            self.backlog.remove(entry)

    def take_back(self, dropped: list[Entry]) -> None:
        """These were acknowledged by a list that is over, and nobody can have delivered them: they wait for another
        acknowledgement."""
        for entry in dropped:
            if entry.turn.runs:
                self.branch("acknowledgement-lost")
            self.backlog.take_back(entry, self.ledger.ordered)

    def install_view(self) -> None:
        """Tell the application who is in the list."""
        number, originator = self.ledger.version
        self.outbox.append(InstallView(f"{number}:{originator}", tuple(sorted(self.ledger.members))))

    # ------------------------------------------------------------------ checkpoints
    def checkpoint_messages(self) -> int:
        """What is kept for the others."""
        return self.ledger.messages

    def checkpoint_state(self) -> State:
        """Everything that must survive."""
        ledger = self.ledger
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
            delivered=self.delivered,
            ordered=tuple(ledger.ordered.items()),
            settled=tuple(self.settled_at.items()),
            entries=tuple(ledger.entries.values()),
            own_number=self.own_number,
            own=tuple(self.own.items()),
        )

    def restore(self, state: State) -> None:
        """Take up the state of a checkpoint."""
        ledger = self.ledger
        self.promised = state.promised
        ledger.version, ledger.members, ledger.base = state.version, state.members, state.base
        ledger.newest = state.newest
        ledger.committed, ledger.committed_version = state.committed, state.committed_version
        ledger.committed_message_turn = state.last_message_turn
        ledger.accepted, ledger.forgotten = state.accepted, state.forgotten
        ledger.sequence = state.sequence
        ledger.ordered.update(state.ordered)
        ledger.entries = {entry.turn.number: entry for entry in state.entries}
        ledger.messages = sum(len(entry.multicasts) for entry in state.entries)
        ledger.uncommitted_messages = sum(turn.messages for turn in ledger.uncommitted())
        self.delivered = state.delivered
        self.settled_at.update(state.settled)
        self.own_number = state.own_number
        self.own = dict(state.own)
        for entry in state.entries:
            if entry.turn.number <= state.committed:
                for sequence, multicast in enumerate(entry.multicasts, entry.turn.first_sequence):
                    if sequence > state.delivered and self.site in self.context.destinations(multicast):
                        self.undelivered.append((entry.turn.number, sequence, multicast))

    # ------------------------------------------------------------------ recovery
    def recover(self, records: tuple[Record, ...], checkpoint: Record | None) -> None:
        """Read the log. What it says was delivered is replayed; what is committed besides is delivered behind it."""
        self.reading = True
        if isinstance(checkpoint, State):
            self.restore(checkpoint)
        forgotten = self.ledger.forgotten
        for record in records:
            if isinstance(record, Own):
                self.own_number = record.source_number
                self.own[record.source_number] = record.multicast
            elif isinstance(record, Promised):
                self.promised = record.version
            elif isinstance(record, Accepted):
                self.apply_accepted(record.entry)
                forgotten = record.forgotten
            elif isinstance(record, Settled):
                self.commit(record.committed)
                self.apply_settled(record.through, record.version, record.entries)
                forgotten = record.forgotten
            elif isinstance(record, NewList):
                self.commit(record.committed)
                self.apply_new_list(record)
                forgotten = record.forgotten
            elif isinstance(record, Delivered):
                self.replay(record)
        self.ledger.forget(min(forgotten, self.settled))
        self.reading = False
        for number, multicast in self.own.items():
            self.backlog.keep(self.site, number, multicast, self.ledger.ordered[self.site])
        self.settled_at[self.site] = self.settled

    def replay(self, record: Delivered) -> None:
        """The application has these, or the runtime sees to it now."""
        self.commit(record.committed)
        while self.undelivered and self.undelivered[0][1] <= record.sequence:
            _turn, sequence, multicast = self.undelivered.popleft()
            self.outbox.append(Replay(multicast, order_key=(sequence,)))
        self.delivered = record.sequence
