"""A log in memory that knows every state in which it ever was on the disk, so that it can be put back into one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from ordercast.core import Record
from ordercast.runtime import MemoryLog, Recovery

CHECKPOINTS_BACK = 2
"""So many checkpoints, at the most, does a rollback undo: who keeps backups keeps some, not all."""


class _State(NamedTuple):
    """What the disk held after a sync."""

    position: int
    base: int
    checkpoint: bytes | None
    checkpoints: int
    """How many had been taken by then."""
    memory: bytes
    """What was remembered of the others."""


class RewindableLog(MemoryLog):
    """One instance's log, with what its site has heard of the others: both become stable by the same sync."""

    def __init__(self, instant: bool, recall: Callable[[], bytes]) -> None:
        """`recall` tells what the site remembers of the others now."""
        super().__init__(instant)
        self._recall = recall
        self._everything: list[Record] = []
        """All records that were ever appended and not lost; the place of a record is its position."""
        self._checkpoints = 0
        self._being_written = b""
        self._states = [_State(0, 0, None, 0, b"")]

    @property
    def memory(self) -> bytes:
        """What is remembered of the others even after a crash."""
        return self._states[-1].memory

    def append(self, record: Record) -> None:
        """Write a record."""
        super().append(record)
        self._everything.append(record)
        if self._instant:
            self._being_written = self._recall()
            self._keep_state()

    def begin_sync(self) -> None:
        """A sync writes what is remembered when it begins."""
        self._being_written = self._recall()

    def sync(self, position: int) -> None:
        """Make everything before `position` stable."""
        super().sync(position)
        self._keep_state()

    def checkpoint(self, state: Record, position: int) -> None:
        """Replace the records before that position by a state."""
        super().checkpoint(state, position)
        self._checkpoints += 1
        self._being_written = self._recall()
        self._keep_state()

    def crash(self) -> None:
        """Lose what was not synced."""
        super().crash()
        del self._everything[self.position :]

    def crash_torn(self, random: Random) -> int:
        """Lose a random part of what was not synced."""
        lost = super().crash_torn(random)
        del self._everything[self.position :]
        return lost

    def recover(self) -> Recovery:
        """Read the log after a crash; whatever part of an unfinished sync has survived is stable now."""
        recovery = super().recover()
        self._being_written = self.memory
        self._keep_state()
        return recovery

    def rewind(self, below: int, random: Random) -> bool:
        """Be as after an earlier sync, at a position below that one, drawn among those since the last but some
        checkpoints; whether there was any."""
        since = self._checkpoints - CHECKPOINTS_BACK
        earlier = [
            number for number, state in enumerate(self._states) if state.position < below and state.checkpoints >= since
        ]
        if not earlier:
            return False
        chosen = random.choice(earlier)
        del self._states[chosen + 1 :]
        self.position, self._base, self._checkpoint, self._checkpoints, _ = self._states[chosen]
        self.synced = self.position
        del self._everything[self.position :]
        self._records = self._everything[self._base :]
        return True

    def _keep_state(self) -> None:
        self._states.append(_State(self.synced, self._base, self._checkpoint, self._checkpoints, self._being_written))
