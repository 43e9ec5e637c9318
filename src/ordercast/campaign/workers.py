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
from typing import Any, TypeVar

import pyarrow as pa

from ordercast.core import StorageError

CHUNK = 8
"""Jobs that a worker takes at a time: a tenth of a second's work, so that an interruption waits no longer."""
LOOK_SECONDS = 0.2
"""How often to look for an interruption while nothing is done."""

Job = TypeVar("Job")
Result = TypeVar("Result")


def work(
    function: Callable[[Job], Result], jobs: Sequence[Job], workers: int | None = None, chunk: int = CHUNK
) -> Iterator[Result]:
    """The results of all jobs, as they come; on so many processes (by default one for each processor)."""
    chunks = [jobs[start : start + chunk] for start in range(0, len(jobs), chunk)]
    workers = min(workers or os.cpu_count() or 1, len(chunks))
    if workers <= 1:
        yield from map(function, jobs)
        return
    waiting = iter(chunks)
    # Spawned, not forked: a fork of a process in which pyarrow has threads may never come to life.
    executor = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin)

    def submit(count: int) -> set[Future[list[Result]]]:
        return {executor.submit(_work, function, taken) for taken in islice(waiting, count)}

    interruption = _Interruption()
    try:
        with _born_deaf():
            running = submit(2 * workers)
        interruption.listen()
        while running:
            done, running = wait(running, LOOK_SECONDS, return_when=FIRST_COMPLETED)
            interruption.check()
            running |= submit(len(done))
            for future in done:
                yield from future.result()
    except BrokenProcessPool as error:
        raise StorageError("a worker process died (out of memory?); what was done is kept: run it again") from error
    finally:
        # Also after an interruption: the chunks under way end within a moment, and no process is left.
        executor.shutdown(wait=True, cancel_futures=True)
        interruption.forget()


class _Interruption:
    """Ctrl-C, taken note of at once and raised where it does no harm.

    Raised wherever it happens to strike, it may leave the executor with a lock that nobody gives back: it strikes while
    a chunk is submitted, and the executor's shutdown waits for ever.
    """

    def __init__(self) -> None:
        self._before: Any = None
        self._struck = False

    def listen(self) -> None:
        """From here on, where signals can be heard."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)

    def forget(self) -> None:
        """As it was before."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """Raise it, if it has struck."""
        if self._struck:
            raise KeyboardInterrupt

    def _note(self, _signal: int, _frame: object) -> None:
        self._struck = True


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
