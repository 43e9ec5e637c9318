"""What a process and all its descendants use: Spark is a Java process and several Python ones."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PARENT, _USER, _SYSTEM, _ENDED_USER, _ENDED_SYSTEM, _RESIDENT = 1, 11, 12, 13, 14, 21
"""Places in /proc/PID/stat, counted from the state of the process on."""


def resident_bytes(root: int) -> int:
    """In memory now; pages that processes share count for each of them."""
    return sum(int(fields[_RESIDENT]) for fields in _tree(root)) * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(root: int) -> float:
    """Time on a core so far, that of children which have ended included."""
    ticks = sum(int(fields[at]) for fields in _tree(root) for at in (_USER, _SYSTEM, _ENDED_USER, _ENDED_SYSTEM))
    return ticks / os.sysconf("SC_CLK_TCK")


def kill_tree(root: int) -> None:
    """The process and all its descendants, which have no time to notice."""
    for process in sorted(_descendants(root), reverse=True):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _tree(root: int) -> Iterator[list[str]]:
    yield from _descendants(root).values()


def _descendants(root: int) -> dict[int, list[str]]:
    """Process -> what is known of it; with the process itself."""
    children: dict[int, list[int]] = {}
    known: dict[int, list[str]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[_PARENT]), []).append(int(entry))
            known[int(entry)] = fields
    found: dict[int, list[str]] = {}
    waiting = [root]
    while waiting:
        process = waiting.pop()
        if process in known:
            found[process] = known[process]
        waiting += children.get(process, [])
    return found
