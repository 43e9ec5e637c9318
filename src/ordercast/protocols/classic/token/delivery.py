"""Delivery: what is committed goes to the application in order, once, and no faster than the application takes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ordercast.core import GroupId, InvariantViolation, Multicast, Part
from ordercast.core.effects import EnterGroup, ExitGroup, Replay
from ordercast.protocols.classic.token.records import Delivered, State
from ordercast.protocols.classic.token.turns import Entry

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token


class Delivery(Part):
    """What the application has, and what waits for it."""

    records = (Delivered,)
    branches = ("reader-slow",)

    def __init__(self, core: Token) -> None:
        self._core = core
        self._ledger = core.ledger
        self._undelivered: deque[tuple[int, int, Multicast]] = deque()
        """Turn, sequence number and message, of what is committed and addressed to this site."""
        self._unconsumed = 0
        self.delivered = 0
        """Sequence number of the last delivery."""

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
        site, context = self._core.site, self._core.context
        for entry in entries:
            turn = entry.turn
            for sequence, multicast in enumerate(entry.multicasts, turn.first_sequence):
                if site in context.destinations(multicast):
                    self._undelivered.append((turn.number, sequence, multicast))

    def deliver(self) -> None:
        """Deliver in the order of the sequence numbers, as far as the application keeps up.

        The log says so first. (Deliver, crash before the log: after the recovery the same message is delivered again.)
        """
        core = self._core
        count = min(len(self._undelivered), core.options.reader_messages_max - self._unconsumed)
        if count < len(self._undelivered):
            core.branch("reader-slow")
        if count <= 0:
            return
        chosen = [self._undelivered.popleft() for _ in range(count)]
        self.delivered = chosen[-1][1]
        self._unconsumed += count
        self.log(Delivered(self._ledger.committed, self.delivered))
        for _turn, sequence, multicast in chosen:
            core.deliver(multicast, order_key=(sequence,))

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
        core, ledger = self._core, self._ledger
        if self._undelivered:
            raise InvariantViolation(f"{len(self._undelivered)} messages before the gap are not delivered")
        self.delivered = ledger.sequence
        missed = [
            group
            for group, members in core.context.groups.items()
            if core.site in members and (anything or ledger.counts.get(group, 0) != before.get(group, 0))
        ]
        core.outbox.extend(ExitGroup(group) for group in missed)
        core.outbox.extend(EnterGroup(group, ledger.counts.get(group, 0)) for group in missed)

    # ------------------------------------------------------------------ after a crash
    def recall_delivered(self, record: Delivered) -> None:
        """The application has these, or the runtime sees to it now."""
        core = self._core
        core.stable.commit(record.committed)
        while self._undelivered and self._undelivered[0][1] <= record.sequence:
            _turn, sequence, multicast = self._undelivered.popleft()
            core.outbox.append(Replay(multicast, order_key=(sequence,)))
        self.delivered = record.sequence

    def restore(self, state: State) -> None:
        """What is committed and was not delivered waits again."""
        self.delivered = state.delivered
        self.queue(entry for entry in state.entries if entry.turn.number <= state.committed)
        while self._undelivered and self._undelivered[0][1] <= state.delivered:
            self._undelivered.popleft()

    def check_invariants(self) -> None:
        """Only what is committed."""
        if self.delivered > self._ledger.sequence - self._ledger.uncommitted_messages:
            raise InvariantViolation(f"delivered {self.delivered}, which is not committed")
