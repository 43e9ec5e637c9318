"""Work on several processes, which end when the work does, or the user has enough."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

import pyarrow as pa

from ordercast.core import StorageError

CHUNK = 8
"""Jobs that a worker takes at a time: a tenth of a second's work, so that an interruption waits no longer."""

Job = TypeVar("Job")
Result = TypeVar("Result")


def work(function: Callable[[Job], Result], jobs: Sequence[Job], workers: int | None = None) -> Iterator[Result]:
    """The results of all jobs, as they come; on so many processes (by default one for each processor)."""
    chunks = [jobs[start : start + CHUNK] for start in range(0, len(jobs), CHUNK)]
    workers = min(workers or os.cpu_count() or 1, len(chunks))
    if workers <= 1:
        yield from map(function, jobs)
        return
    waiting = iter(chunks)
    # Spawned, not forked: a fork of a process in which pyarrow has threads may never come to life.
    executor = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin)

    def submit(count: int) -> set[Future[list[Result]]]:
        return {executor.submit(_work, function, chunk) for chunk in islice(waiting, count)}

    try:
        with _born_deaf():
            running = submit(2 * workers)
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= submit(len(done))
            for future in done:
                yield from future.result()
    except BrokenProcessPool as error:
        raise StorageError("a worker process died (out of memory?); what was done is kept: run it again") from error
    finally:
        # Also after an interruption: the chunks under way end within a moment, and no process is left.
        executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _born_deaf() -> Iterator[None]:
    """Processes that are started within do not hear Ctrl-C, which goes to the whole process group: what it means the
    parent decides. (Deafened later, by themselves: one that is still importing dies, loudly.)"""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin() -> None:
    """In a worker: there is one processor for each."""
    pa.set_cpu_count(1)


def _work(function: Callable[[Job], Result], jobs: Sequence[Job]) -> list[Result]:
    return [function(job) for job in jobs]
