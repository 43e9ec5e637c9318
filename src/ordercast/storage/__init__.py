"""Stable storage: the log that survives a crash."""

from ordercast.storage.memory import MemoryLog, Recovery

__all__ = ["MemoryLog", "Recovery"]
