"""A stable log in memory, for simulations: it can lose exactly what a disk can lose."""

from __future__ import annotations

from random import Random

from ordercast.core import Record, encode
from ordercast.storage.framing import frame, scan
from ordercast.storage.log import Recovery


class MemoryLog:
    """One instance's log. Positions count the records ever appended; `synced` is the position up to which they are
    stable.

    Records are frozen, so they are kept as they are and become bytes when the bytes matter: in a crash that tears
    them, and in the recovery.
    """

    def __init__(self, instant: bool = True) -> None:
        self.position = 0
        """How many records were ever appended."""
        self.synced = 0
        self._instant = instant
        """Whether a record is stable as soon as it is appended."""
        self._records: list[Record] = []
        self._base = 0
        self._checkpoint: bytes | None = None
        self._torn = b""

    def append(self, record: Record) -> None:
        """Write a record; it is stable after the next `sync`."""
        self._records.append(record)
        self.position += 1
        if self._instant:
            self.synced = self.position

    def sync(self, position: int) -> None:
        """Make everything before `position` stable."""
        self.synced = max(self.synced, position)

    def checkpoint(self, state: Record, position: int) -> None:
        """Replace the records before that position by a state, atomically (on a disk: write, sync, rename)."""
        self._checkpoint = encode(state)
        surplus = position - self._base
        if surplus > 0:
            del self._records[:surplus]
            self._base = position
            self.synced = max(self.synced, position)

    def crash(self) -> None:
        """Lose what was not synced."""
        del self._records[self.synced - self._base :]
        self.position = self._base + len(self._records)

    def crash_torn(self, random: Random) -> int:
        """Lose a random part of what was not synced, the first lost record perhaps torn in the middle; bytes lost."""
        stable = self.synced - self._base
        tail = [frame(encode(record)) for record in self._records[stable:]]
        survivors = random.randint(0, len(tail))
        lost = b"".join(tail[survivors:])
        self._torn = lost[: random.randrange(len(tail[survivors]))] if lost else b""
        del self._records[stable + survivors :]
        self.position = self._base + len(self._records)
        return len(lost) - len(self._torn)

    def recover(self) -> Recovery:
        """Read the log after a crash; the torn tail is cut off, and what is left counts as stable."""
        whole = b"".join(frame(encode(record)) for record in self._records) + self._torn
        records, valid_bytes = scan(whole)
        self._torn = b""
        self.synced = self.position
        return Recovery(records, self._checkpoint, len(whole) - valid_bytes)
