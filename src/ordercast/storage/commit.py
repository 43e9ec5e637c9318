"""Group commit: one thread writes and syncs while the event loop goes on appending for the next commit, and one tidies
up behind it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Queue, SimpleQueue
from threading import Thread

import msgspec

from ordercast.core import InvariantViolation
from ordercast.storage.file import FileLog, Pending

SWITCH_SECONDS = 0.0001
"""How long a thread waits for the interpreter before it asks for it. A commit waits three times: when it comes, after
the write, and after the sync. Next to a busy event loop a megabyte took 16 ms with Python's own 5 ms, 1.4 ms with
this, and the loop lost nothing by it."""

TIDYING_MAX = 4
"""Commits whose tidying waits: so many segments more than needed may lie on the disk. Then commits wait too."""

Schedule = Callable[..., object]
"""Runs a function with arguments on the event loop, soon: `loop.call_soon`, `loop.call_soon_threadsafe`."""


class _Commit(msgspec.Struct, frozen=True):
    log: FileLog
    pending: Pending
    on_synced: Callable[[int], None]


class GroupCommit:
    """Commits the logs of a process, in the order in which that was asked for.

    `start_sync` belongs to the event loop, and so do the calls that come back. After an error nothing is committed any
    more and no `on_synced` comes: what waits for the log never leaves the process.
    """

    def __init__(
        self, call_soon: Schedule, call_soon_threadsafe: Schedule, on_error: Callable[[Exception], None]
    ) -> None:
        """`on_error` gets a `StorageError` when the disk refuses (full, broken): stop the node then."""
        self._call_soon = call_soon
        self._call_soon_threadsafe = call_soon_threadsafe
        self._on_error = on_error
        self._asked: dict[FileLog, Callable[[int], None]] = {}
        self._commits: SimpleQueue[_Commit | None] = SimpleQueue()
        self._tidying: Queue[_Commit | None] = Queue(TIDYING_MAX)
        self._closed = False
        self._failed = False
        self.sync_seconds = 0.0
        """What a commit takes, on average of the last ones."""
        self.sync_seconds_max = 0.0
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        # A daemon: a program that forgets to close the node can still end. What was not synced was not acknowledged.
        self._committer = Thread(
            target=self._work, args=(self._commits, self._commit), name="ordercast-log", daemon=True
        )
        self._tidier = Thread(
            target=self._work, args=(self._tidying, self._tidy), name="ordercast-log-tidy", daemon=True
        )
        self._committer.start()
        self._tidier.start()

    def start_sync(self, log: FileLog, on_synced: Callable[[int], None]) -> None:
        """Make the log stable, then call `on_synced` with the position up to which it is.

        The commit is handed over when the event loop has done what is due now: a sync is asked for at the first record
        of a step, and the step's other records, and those of the datagrams that came with it, go in the same commit.
        """
        if self._closed:
            raise InvariantViolation("a sync after the log was closed")
        if not self._asked:
            self._call_soon(self._hand_over)
        self._asked[log] = on_synced

    def close(self) -> None:
        """Wait for the commits that were handed over, then end the threads. Their calls come back on the loop still."""
        if not self._closed:
            self._hand_over()
            self._closed = True
            self._commits.put(None)
            self._committer.join()
            self._tidying.put(None)
            self._tidier.join()

    def _hand_over(self) -> None:
        if self._closed:
            return
        asked, self._asked = self._asked, {}
        for log, on_synced in asked.items():
            self._commits.put(_Commit(log, log.write_out(), on_synced))

    # ------------------------------------------------------------------ in the threads
    def _work(self, queue: SimpleQueue[_Commit | None] | Queue[_Commit | None], do: Callable[[_Commit], None]) -> None:
        # To the end after an error too: else who waits for room in the queue would wait for ever.
        while (commit := queue.get()) is not None:
            if not self._failed:
                try:
                    do(commit)
                except Exception as error:  # whatever it is, the node must not wait for the log for ever
                    self._failed = True
                    with suppress(RuntimeError):  # the loop is closed: there is nobody left who waits
                        self._call_soon_threadsafe(self._on_error, error)

    def _commit(self, commit: _Commit) -> None:
        began = time.monotonic()
        commit.log.commit(commit.pending)
        took = time.monotonic() - began
        self.sync_seconds += (took - self.sync_seconds) / 8 if self.sync_seconds else took
        self.sync_seconds_max = max(self.sync_seconds_max, took)
        self._call_soon_threadsafe(commit.on_synced, commit.pending.position)
        if commit.pending.checkpoint is not None or commit.pending.obsolete:
            # A checkpoint takes a while, and the system 25 ms to forget a segment: the next commit must not wait.
            self._tidying.put(commit)

    def _tidy(self, commit: _Commit) -> None:
        commit.log.tidy(commit.pending)
