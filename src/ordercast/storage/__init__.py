"""Stable storage: the log that survives a crash (on a disk: `folder.open_log`, `commit.GroupCommit`)."""

from ordercast.storage.log import Recovery, StableLog
from ordercast.storage.memory import MemoryLog

__all__ = ["MemoryLog", "Recovery", "StableLog"]
