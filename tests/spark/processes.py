"""Processes that tests start, wait for, interrupt and clean up after."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DEADLINE_SECONDS = 240.0
"""Against hanging, not a measure of speed: a loaded machine takes half a minute to start Java alone."""


def wait_for(condition: Callable[[], object], what: str, seconds_max: float = DEADLINE_SECONDS) -> None:
    """Return when the condition holds; fail when it does not by the deadline."""
    clock = threading.Event()
    for _ in range(int(seconds_max / 0.05)):
        if condition():
            return
        clock.wait(0.05)
    raise AssertionError(f"not within {seconds_max:.0f} s: {what}")


@contextmanager
def process_group(arguments: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, like one that a terminal started; killed with all its children at the end."""
    process = subprocess.Popen(arguments, start_new_session=True, **options)
    try:
        yield process
    finally:
        for pid in living(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()


def living(session: int) -> list[int]:
    """The processes of that session that have not ended, wherever their parents are now."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended while we looked
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found
