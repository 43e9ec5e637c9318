"""What every stable log offers, in memory or on a disk."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import msgspec

from ordercast.core import Record


class Recovery(msgspec.Struct, frozen=True):
    """What a log still holds after a crash."""

    records: Collection[bytes]
    """In order. A log on a disk reads them as one goes through them: a long history is in memory once, decoded."""
    checkpoint: bytes | None
    dropped_bytes: int
    """Bytes of torn records that were cut off."""
    attachment: bytes | None = None
    """What was handed in with the checkpoint: where the application stood, and perhaps its snapshot."""


class StableLog(Protocol):
    """One instance's log as the interpreter of effects uses it."""

    position: int
    """How many records were ever appended."""
    synced: int
    """The position up to which they are stable."""

    def append(self, record: Record) -> None:
        """Write a record; it is stable when a sync that began later has ended."""

    def sync(self, position: int) -> None:
        """Everything before `position` is stable now."""

    def checkpoint(self, state: Record, position: int) -> None:
        """The records before that position may be replaced by a state, atomically."""

    def recover(self) -> Recovery:
        """Read the log after a crash."""
