"""The stable log on a disk: one instance's records, written by group commit.

The log belongs to the event loop. What is to be written is handed over whole (`write_out`) to whoever commits it,
usually a thread (`storage/commit.py`): that one touches the files and what it was given, nothing else, so that records
can be appended while a commit runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import msgspec

from ordercast.core import InvariantViolation, Record, StorageError, UsageError, encode
from ordercast.core.memory import Memory
from ordercast.storage import disk
from ordercast.storage.checkpoint_file import StoredCheckpoint, read_checkpoint
from ordercast.storage.end import EndFile, read_end
from ordercast.storage.framing import HEADER_BYTES, RECORD_BYTES_MAX, frame, frame_into
from ordercast.storage.log import Recovery
from ordercast.storage.marks import CommitMark, MemoryMark
from ordercast.storage.segments import StoredRecords, missing, read_segments, segment_path

END = "end"
RETAIN_BYTES = 1 << 27
"""History that is kept for a restarted application: 128 MiB are read back in about a second."""
SEGMENT_BYTES = 1 << 26
"""Half of that: whole segments are deleted, so up to one more than needed stays on the disk."""

BUFFER_BYTES_MIN = 1 << 16
"""One bundle of the largest size."""
SPARE_BYTES_MAX = 1 << 23
"""A buffer that a slow moment of the disk has made larger is given back to the system."""

Attachment = Callable[[], bytes | None]

_encode_into = msgspec.msgpack.Encoder().encode_into


class Pending(msgspec.Struct, frozen=True):
    """What a log has handed over to be written: one commit."""

    head: bytes
    """The marks that stand before the records; nothing where nothing is to be written."""
    buffer: bytearray
    """Belongs to whoever commits until that is done, and then to the log again."""
    length: int
    """How much of it is to be written."""
    segment: int
    """The position of the first record of the segment to which they go."""
    offset: int
    """Where in it; 0 for a segment that is begun."""
    position: int
    """The log is stable up to here when this is committed."""
    checkpoint: StoredCheckpoint | None
    obsolete: tuple[int, ...]
    """Segments that nobody needs when this is committed and the checkpoint is in its place."""


class FileLog:
    """One instance's log in a folder of its own. Positions count the records ever appended."""

    def __init__(
        self,
        folder: Path,
        *,
        retain_bytes: int = RETAIN_BYTES,
        segment_bytes: int = SEGMENT_BYTES,
        attachment: Attachment | None = None,
        memory: Memory | None = None,
        end_path: Path | None = None,
        starts: int = 1,
    ) -> None:
        """Open the log and read what it holds; `attachment` is asked for what to keep with each checkpoint.

        The end of the log is noted in `end_path`, in its own folder where nobody says otherwise, with the number of
        `starts` of the process. The `memory` gets back what the log knows of it, and each commit makes stable what
        has changed in it.
        """
        if end_path is None:
            end_path = folder / END
        end = read_end(end_path)
        checkpoint = read_checkpoint(folder)
        stored = read_segments(folder, 0 if checkpoint is None else checkpoint.position)
        if end is not None and stored.end < end.position:
            raise missing(folder, stored.end, end.position)
        disk.make_folder(folder)
        self._folder = folder
        self._retain_bytes = retain_bytes
        self._segment_bytes = segment_bytes
        self._attach = attachment
        self._memory = Memory() if memory is None else memory
        self._remember(folder, b"" if checkpoint is None else checkpoint.memory, *stored.remembered)
        self.position = self.synced = stored.end
        self._needed_from = stored.begin
        """Records before this position are forgotten, or a checkpoint stands for them."""
        self._firsts = stored.firsts
        self._offset = stored.last_bytes
        """Where in the last segment the next commit will stand."""
        self._scratch = bytearray()
        self._buffer = bytearray(BUFFER_BYTES_MIN)
        self._length = 0
        """How much of the buffer is used."""
        self._commit_position = self.position
        """Of the first record in it."""
        self._handed_over: deque[bytearray] = deque()
        """In the order of their commits."""
        self._reclaimed = 0
        self._spare: bytearray | None = None
        self._since_checkpoint_bytes = stored.counted_bytes
        self._checkpoint: StoredCheckpoint | None = None
        self._recovery: Recovery | None = Recovery(
            records=StoredRecords(folder, list(stored.firsts), stored.begin, stored.end),
            checkpoint=None if checkpoint is None else checkpoint.state,
            dropped_bytes=stored.dropped_bytes,
            attachment=None if checkpoint is None else checkpoint.attachment,
        )
        self._make_clean(stored.obsolete)
        # Noted when it is stable, and not before.
        self._writer = _Writer(folder, stored.end, EndFile(end_path, stored.end, starts))

    def _remember(self, folder: Path, *pieces: bytes) -> None:
        try:
            self._memory.restore(piece for piece in pieces if piece)
        except msgspec.DecodeError as error:
            raise UsageError(f"{folder}: was written by a newer version of ordercast; install that one") from error

    def _make_clean(self, obsolete: list[int]) -> None:
        """Take away what a crash has left behind, and make stable what counts as stable from here on.

        (A process that was killed may have left records that are in the system's memory only. They are read back and
        acted upon; the machine loses its power; they are gone.)
        """
        if self._firsts:
            disk.cut_file(segment_path(self._folder, self._firsts[-1]), self._offset)
        for path in self._folder.glob(f"*{disk.TEMPORARY_SUFFIX}"):
            disk.remove_file(path)
        for first in obsolete:
            disk.remove_file(segment_path(self._folder, first))
        disk.sync_folder(self._folder)

    @property
    def unsynced_bytes(self) -> int:
        """What was appended and not handed over yet: what a slow disk lets grow, and what its owner has to bound."""
        return self._length

    # ------------------------------------------------------------------ the event loop's part
    def append(self, record: Record) -> None:
        """Write a record; it is stable when the commit that is handed over next has ended."""
        # Into memory that is used again: at hundreds of megabytes a second, asking the system for new pages each time
        # costs more than the checksums.
        body = self._scratch
        _encode_into(record, body)
        if len(body) > RECORD_BYTES_MAX:
            # It could be written but never read back.
            raise InvariantViolation(f"a record of {len(body)} bytes: at most {RECORD_BYTES_MAX} can be logged")
        if not self._length:
            self._begin_commit()
        self._put(body)
        self._since_checkpoint_bytes += HEADER_BYTES + len(body)
        self.position += 1

    def sync(self, position: int) -> None:
        """Take note that everything before `position` is stable."""
        if position > self._writer.committed:
            raise InvariantViolation(f"the log is stable up to {self._writer.committed}, not up to {position}")
        self.synced = max(self.synced, position)
        # By the count of commits and not by positions: two commits may end at the same position, when the second has
        # a checkpoint only, and be under way both.
        while self._handed_over and self._writer.commits > self._reclaimed:
            self._reclaimed += 1
            buffer = self._handed_over.popleft()
            if len(buffer) <= SPARE_BYTES_MAX:
                self._spare = buffer

    def checkpoint(self, state: Record, position: int) -> None:
        """Replace the records before that position by a state; ignored while the log is short.

        The records are the history that a restarted application gets back, so they are kept until there are more than
        `retain_bytes` since the last checkpoint. The commit that is handed over next takes the checkpoint with it:
        nothing waits for it to be stable, for until then the records are.
        """
        if self._since_checkpoint_bytes <= self._retain_bytes:
            return
        attachment = None if self._attach is None else self._attach()
        self._checkpoint = StoredCheckpoint(position, encode(state), attachment, self._memory.everything())
        self._since_checkpoint_bytes = 0
        self._needed_from = max(self._needed_from, position)

    def write_out(self) -> Pending:
        """Hand over everything that is not written yet; it goes to `commit` and then to `tidy`, in order."""
        return self._write_out(self._head() if self._length else b"")

    def _write_out(self, head: bytes) -> Pending:
        firsts = self._firsts
        obsolete = [first for first, end in pairwise(firsts) if end <= self._needed_from]
        pending = Pending(
            head=head,
            buffer=self._buffer,
            length=self._length,
            segment=firsts[-1] if firsts else self.position,
            offset=self._offset,
            position=self.position,
            checkpoint=self._checkpoint,
            obsolete=tuple(obsolete),
        )
        del firsts[: len(obsolete)]
        self._handed_over.append(self._buffer)
        self._buffer, self._spare = self._spare or bytearray(BUFFER_BYTES_MIN), None
        self._offset += len(head) + self._length
        self._length = 0
        self._checkpoint = None
        return pending

    @property
    def attachment(self) -> bytes | None:
        """What was kept with the checkpoint that the log held when it was opened; until that is recovered."""
        return None if self._recovery is None else self._recovery.attachment

    @property
    def dropped_bytes(self) -> int:
        """Torn records that were cut off when the log was opened; until it is recovered."""
        return 0 if self._recovery is None else self._recovery.dropped_bytes

    def recover(self) -> Recovery:
        """What the log held when it was opened. Once, before anything is appended: it may be deleted afterwards."""
        if self._recovery is None:
            raise InvariantViolation("the log was read already")
        recovery, self._recovery = self._recovery, None
        return recovery

    def _begin_commit(self) -> None:
        firsts = self._firsts
        # One with marks only is not full: the next would have its name.
        if not firsts or (self._offset >= self._segment_bytes and self.position > firsts[-1]):
            firsts.append(self.position)
            self._offset = 0
        self._commit_position = self.position

    def _head(self) -> bytes:
        """How the commit begins: what was heard stands before the records that rely on it.

        (Behind them: a crash leaves the records and tears what follows; they are read back and acted upon, and if the
        process on which they rely has lost its log, nobody knows.)
        A segment begins with all that is remembered, so that the segments before it can be deleted.
        """
        head = frame(CommitMark(self._offset, self._commit_position).encode())
        changes = self._memory.take_changes()
        remembered = changes if self._offset else self._memory.everything()
        return head + frame(MemoryMark(remembered).encode()) if remembered else head

    def _put(self, body: bytearray) -> None:
        at = self._length
        end = at + HEADER_BYTES + len(body)
        if end > len(self._buffer):
            # At least doubled, so that growing costs a fixed share of what is appended.
            self._buffer.extend(bytes(end))
        frame_into(self._buffer, at, body)
        self._length = end

    # ------------------------------------------------------------------ the part of whoever commits
    def commit(self, pending: Pending) -> None:
        """Write a commit and make it stable; `StorageError` when the disk refuses, now and ever after."""
        self._writer.commit(pending)

    def tidy(self, pending: Pending) -> None:
        """After its commit: put the checkpoint in its place, and delete what nobody needs then."""
        self._writer.tidy(pending)

    def flush(self) -> None:
        """Make everything stable at once, where no one else commits."""
        self._flush(self.write_out())

    def keep_memory(self) -> None:
        """Make stable what was heard since the last commit, though no record relies on it; where no one else commits.

        A log that has no record yet stays empty.
        """
        if self._firsts and self._memory.has_changed:
            if not self._length:
                self._commit_position = self.position
            self._flush(self._write_out(self._head()))

    def _flush(self, pending: Pending) -> None:
        self.commit(pending)
        self.sync(pending.position)
        self.tidy(pending)

    def close(self) -> None:
        """Give the files back. What was not committed is lost, as in a crash."""
        self._writer.close()

    def disown(self) -> None:
        """Never write again: this is a fork of the process to which the log belongs."""
        self._writer.disown()


class _Writer:
    """The files of a log that are written to. One thread commits and one tidies at a time, never the event loop's while
    another does: a commit touches the last segment, tidying the checkpoint and what lies before it."""

    def __init__(self, folder: Path, committed: int, end: EndFile) -> None:
        self.committed = committed
        """The position up to which everything is stable."""
        self.commits = 0
        """How many commits were made. Others may read these two: each assignment is one step in Python."""
        self._folder = folder
        self._descriptor: int | None = None
        self._segment: int | None = None
        self._end: EndFile | None = end
        self._error: StorageError | None = None

    def commit(self, pending: Pending) -> None:
        self._refuse_after_error()
        if pending.head:
            path = segment_path(self._folder, pending.segment)
            try:
                descriptor = self._open(pending, path)
                disk.write_all(descriptor, pending.head)
                disk.write_all(descriptor, memoryview(pending.buffer)[: pending.length])
                disk.sync_data(descriptor)
                begun = pending.offset == 0
                if begun:
                    disk.sync_folder(self._folder)
                if self._end is not None:
                    self._end.note(pending.position, sync=begun)
            except OSError as error:
                raise self._fail(path, error) from error
        self.committed = pending.position
        self.commits += 1

    def tidy(self, pending: Pending) -> None:
        self._refuse_after_error()
        try:
            if pending.checkpoint is not None:
                pending.checkpoint.write(self._folder)
            for first in pending.obsolete:
                disk.remove_file(segment_path(self._folder, first))
        except OSError as error:
            raise self._fail(self._folder, error) from error

    def close(self) -> None:
        self._close_segment()
        if self._end is not None:
            end, self._end = self._end, None
            # A disk that refuses now has lost nothing: what is noted was stable before.
            with suppress(OSError):
                end.close()

    def disown(self) -> None:
        self._error = StorageError(
            f"{self._folder}: this process is a fork of the one that opened the log, and cannot write to it; open "
            f"nodes after the fork, each under a name of its own"
        )
        # The thread that commits may have been about to open or close them when the process was forked.
        with suppress(OSError):
            self._close_segment()
        if self._end is not None:
            with suppress(OSError):
                self._end.disown()
            self._end = None

    def _close_segment(self) -> None:
        if self._descriptor is not None:
            disk.close(self._descriptor)
            self._descriptor = None
            self._segment = None

    def _open(self, pending: Pending, path: Path) -> int:
        if self._descriptor is None or self._segment != pending.segment:
            self._close_segment()
            self._descriptor = disk.open_to_append(path)
            self._segment = pending.segment
            length = disk.length(self._descriptor)
            if length != pending.offset:
                raise InvariantViolation(f"{path}: has {length} bytes where {pending.offset} were written")
        return self._descriptor

    def _fail(self, path: Path, error: OSError) -> StorageError:
        self._error = disk.disk_error(path, error)
        return self._error

    def _refuse_after_error(self) -> None:
        """Never try again.

        (A sync fails, and the system marks the pages as clean; the next sync succeeds; what was acknowledged then was
        never on the disk.)
        """
        if self._error is not None:
            raise self._error
