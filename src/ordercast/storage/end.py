"""Where a log ends, kept apart from its segments: a log that has lost its end looks like a shorter one.

(The last segment is deleted, cut between two records, overwritten with zeros, or comes back from a backup: what is left
is a whole log, which has forgotten what the process promised to others.)
"""

from __future__ import annotations

import struct
import time
from pathlib import Path

import msgspec

from ordercast.core import UsageError
from ordercast.storage import disk
from ordercast.storage.framing import frame, scan
from ordercast.storage.segments import WHAT_TO_DO

SYNC_SECONDS = 1.0
"""How long the file may wait for a sync of its own. A sync with each commit would make a small commit take 240 µs
instead of 140 µs."""

_RECORD = struct.Struct("<BQQ")
_FORMAT = 1
_SLOT_BYTES = 512
"""A sector: a disk that loses its power while it writes one slot leaves the other as it was."""
_SLOTS = 2


class LogEnd(msgspec.Struct, frozen=True, order=True):
    """How far a log had come."""

    position: int
    """Everything before it was stable."""
    starts: int
    """How many times the process had been started then."""


def read_end(path: Path) -> LogEnd | None:
    """Where the log ended at least; None where nothing was noted yet, `UsageError` where that cannot be read."""
    try:
        with disk.open_to_read(path) as file:
            content = file.read(_SLOTS * _SLOT_BYTES)
    except FileNotFoundError:
        return None
    ends = []
    for at in range(0, _SLOTS * _SLOT_BYTES, _SLOT_BYTES):
        bodies, _ = scan(content[at : at + _SLOT_BYTES])
        if bodies and bodies[0][0] > _FORMAT:
            raise UsageError(f"{path}: was written by a newer version of ordercast; install that one")
        if bodies and len(bodies[0]) == _RECORD.size:
            _, position, starts = _RECORD.unpack(bodies[0])
            ends.append(LogEnd(position, starts))
    if not ends:
        raise UsageError(f"{path}: is damaged, and with it the end of the log; {WHAT_TO_DO}")
    return max(ends)


class EndFile:
    """Notes the end of one log after each commit, in two slots by turns.

    What is noted outlives the process at once, and a loss of power when it is synced: when the log is opened and
    closed, when a segment is begun, and with the first commit after `SYNC_SECONDS`.
    """

    def __init__(self, path: Path, position: int, starts: int) -> None:
        """Everything before the position is stable."""
        self._starts = starts
        self._slot = 0
        disk.make_folder(path.parent)
        # As a whole, so that no crash leaves two slots of which none is whole.
        disk.replace_file(path, [self._slot_content(position) * _SLOTS])
        self._descriptor = disk.open_to_change(path)
        self._synced_at = time.monotonic()

    def note(self, position: int, sync: bool) -> None:
        """Everything before the position is stable now. Never earlier: a torn tail would be taken for a loss."""
        self._slot = 1 - self._slot
        disk.write_at(self._descriptor, self._slot_content(position), self._slot * _SLOT_BYTES)
        now = time.monotonic()
        if sync or now - self._synced_at >= SYNC_SECONDS:
            disk.sync_data(self._descriptor)
            self._synced_at = now

    def close(self) -> None:
        """Make it stable and give the file back."""
        try:
            disk.sync_data(self._descriptor)
        finally:
            disk.close(self._descriptor)

    def disown(self) -> None:
        """Give the file back as it is: this is a fork of the process that writes it."""
        disk.close(self._descriptor)

    def _slot_content(self, position: int) -> bytes:
        return frame(_RECORD.pack(_FORMAT, position, self._starts)).ljust(_SLOT_BYTES, b"\0")
