"""What else the machine was doing while something was measured.

Work of the idle scheduling class (`chrt --idle 0`) does not count: it gives way.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType

LOOK_SECONDS = 0.5
SCHED_IDLE = 5
# Positions in /proc/PID/stat behind the name, which may have blanks.
USER_TIME, SYSTEM_TIME, START_TIME, POLICY = 11, 12, 19, 38

PROCESSES = Path("/proc")


def busy_seconds() -> float:
    """CPU time that all processes of the machine have used so far."""
    try:
        words = (PROCESSES / "stat").read_text(encoding="ascii").split(maxsplit=8)[1:8]
    except OSError:  # not Linux
        return own_seconds()
    user, nice, system, _idle, _wait, interrupts, soft_interrupts = map(int, words)
    return (user + nice + system + interrupts + soft_interrupts) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def idle_class_seconds() -> dict[tuple[str, str], float]:
    """CPU time of every process that runs only when nobody else wants to."""
    used = {}
    for file in PROCESSES.glob("[0-9]*/stat"):
        try:
            words = file.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(words[POLICY]) == SCHED_IDLE:
            ticks = int(words[USER_TIME]) + int(words[SYSTEM_TIME])
            used[file.parent.name, words[START_TIME]] = ticks / os.sysconf("SC_CLK_TCK")
    return used


class OtherWork:
    """`with OtherWork() as other: …`, then `other.cores`: how many processors strangers used meanwhile."""

    cores = 0.0

    def __enter__(self) -> OtherWork:
        self._began = time.monotonic()
        self._idle_class = idle_class_seconds()
        self._before = busy_seconds() - own_seconds()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        used = busy_seconds() - own_seconds() - self._before
        used -= sum(after - self._idle_class.get(key, 0.0) for key, after in idle_class_seconds().items())
        self.cores = max(0.0, used / (time.monotonic() - self._began))


def wait_until_quiet(cores_max: float, patience_seconds: float) -> bool:
    """Wait until others use no more than so many processors, for so long at most; whether they left off."""
    until = time.monotonic() + patience_seconds
    while True:
        with OtherWork() as other:
            time.sleep(LOOK_SECONDS)
        if other.cores <= cores_max:
            return True
        if time.monotonic() >= until:
            return False
