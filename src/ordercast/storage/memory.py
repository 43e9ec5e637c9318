"""A stable log in memory, for simulations: it can lose exactly what a disk can lose."""

from __future__ import annotations

from random import Random

import msgspec

from ordercast.storage.framing import frame, scan


class Recovery(msgspec.Struct, frozen=True):
    """What a log still holds after a crash."""

    records: list[bytes]
    checkpoint: bytes | None
    dropped_bytes: int
    """Bytes of torn records that were cut off."""


class MemoryLog:
    """One instance's log. Positions count the records ever appended; `synced` is the position up to which they are
    stable."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._base = 0
        self._checkpoint: bytes | None = None
        self.synced = 0

    @property
    def position(self) -> int:
        """How many records were ever appended."""
        return self._base + len(self._frames)

    @property
    def checkpointed(self) -> bool:
        """Whether there is a checkpoint to recover from."""
        return self._checkpoint is not None

    def append(self, record: bytes) -> None:
        """Write a record; it is stable after the next `sync`."""
        self._frames.append(frame(record))

    def sync(self, position: int | None = None) -> None:
        """Make everything before `position` stable (everything, when None)."""
        self.synced = max(self.synced, self.position if position is None else position)

    def truncate(self, before: int) -> None:
        """Forget the records before that position."""
        surplus = before - self._base
        if surplus > 0:
            del self._frames[:surplus]
            self._base = before
            self.synced = max(self.synced, before)

    def checkpoint(self, state: bytes, position: int) -> None:
        """Replace the records before that position by a state, atomically (on a disk: write, sync, rename)."""
        self._checkpoint = state
        self.truncate(position)

    def crash(self) -> None:
        """Lose what was not synced."""
        del self._frames[self.synced - self._base :]

    def crash_torn(self, random: Random) -> int:
        """Lose a random part of what was not synced, the first lost record perhaps torn in the middle; bytes lost."""
        stable = self.synced - self._base
        tail = b"".join(self._frames[stable:])
        keep = random.randint(0, len(tail))
        kept_records, kept_bytes = scan(tail[:keep])
        del self._frames[stable:]
        self._frames.extend(frame(record) for record in kept_records)
        if kept_bytes < keep:
            self._frames.append(tail[kept_bytes:keep])
        return len(tail) - keep

    def recover(self) -> Recovery:
        """Read the log after a crash; the torn tail is cut off, and what is left counts as stable."""
        whole = b"".join(self._frames)
        records, valid_bytes = scan(whole)
        self._frames = [frame(record) for record in records]
        self.synced = self.position
        return Recovery(records, self._checkpoint, len(whole) - valid_bytes)
