"""What a lock protects: a register that refuses whoever comes with a smaller fencing number than the greatest that it
has seen. Its users are processes that may be killed or stopped at any moment, also while they write to it."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

_CONTENT = struct.Struct("!QQ")


class Register:
    """The same file for all processes."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, fence: int) -> tuple[bool, int] | None:
        """Write with this number; whether it was taken, and the how manieth write that was. None while another one
        writes: it may be stopped in the middle, and is not waited for."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        try:
            content = os.pread(self._file, _CONTENT.size, 0)
            greatest, writes = _CONTENT.unpack(content) if content else (0, 0)
            if fence < greatest:
                return False, writes
            os.pwrite(self._file, _CONTENT.pack(fence, writes + 1), 0)
            return True, writes + 1
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
