"""What a process and all its descendants use: Spark is a Java process and several Python ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
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


def _tree(root: int) -> Iterator[list[str]]:
    children: dict[int, list[int]] = {}
    found: dict[int, list[str]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[_PARENT]), []).append(int(entry))
            found[int(entry)] = fields
    waiting = [root]
    while waiting:
        process = waiting.pop()
        if process in found:
            yield found[process]
        waiting += children.get(process, [])
