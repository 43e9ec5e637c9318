"""Processes of their own, so many at a time, each for one trial and each with limits.

They are forked, because what takes a second to import is then there already. That is only sound before threads have
begun, so this process imports libraries and none of ordercast, and does no work of its own.
"""

from __future__ import annotations

import os
import resource
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

MEMORY_BYTES = 4 << 30
WALL_FACTOR = 20
"""Seconds of the clock to each of the processor before a process counts as one that hangs: the machine may be busy."""
HANGS = "limit: takes for ever"
DIES = "limit: dies"

Job = TypeVar("Job")


class _Child(NamedTuple):
    process: int
    reader: int
    deadline: float


def preload() -> None:
    """Import what every trial needs, on one thread."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "ARROW_NUM_THREADS"):
        os.environ[variable] = "1"
    for name in (
        "msgspec",
        "networkx",
        "numpy",
        "scipy.sparse.csgraph",
        "pyarrow",
        "pyarrow.compute",
        "pytest",
        "hypothesis",
    ):
        __import__(name)


def run_each(
    jobs: Iterable[Job], trial: Callable[[Job], str | None], seconds: float, processes: int
) -> Iterator[tuple[Job, str | None, float]]:
    """Each job with what its trial gave and the processor seconds that it took, as they come."""
    waiting = iter(jobs)
    running: dict[int, tuple[Job, _Child]] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while True:
                while len(running) < processes and (job := next(waiting, None)) is not None:
                    child = _begin(job, trial, seconds)
                    running[child.reader] = job, child
                    selector.register(child.reader, selectors.EVENT_READ)
                if not running:
                    return
                ready = {key.fd for key, _ in selector.select(1.0)}
                for reader, (job, child) in list(running.items()):
                    if reader in ready or time.monotonic() > child.deadline:
                        selector.unregister(reader)
                        del running[reader]
                        yield (job, *_end(child, hung=reader not in ready))
        finally:
            for _, child in running.values():
                _end(child, hung=True)


def _begin(job: Job, trial: Callable[[Job], str | None], seconds: float) -> _Child:
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            os.close(reader)
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            os.write(writer, (trial(job) or "").encode()[:4000])
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    return _Child(process, reader, time.monotonic() + WALL_FACTOR * seconds)


def _end(child: _Child, hung: bool) -> tuple[str | None, float]:
    """What a process says when it has ended, which it has or is made to."""
    if hung:
        os.kill(child.process, signal.SIGKILL)
    said = b""
    while block := os.read(child.reader, 4096):
        said += block
    os.close(child.reader)
    _, status, usage = os.wait4(child.process, 0)
    seconds = usage.ru_utime + usage.ru_stime
    if os.WIFSIGNALED(status):
        return HANGS, seconds
    return (said.decode() or None) if os.WEXITSTATUS(status) == 0 else DIES, seconds
