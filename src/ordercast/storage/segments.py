"""The files of one instance's log: numbered segments, read back and checked after a crash."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path

import msgspec

from ordercast.core import UsageError
from ordercast.storage import disk
from ordercast.storage.framing import HEADER_BYTES, read_frames, scan
from ordercast.storage.marks import COMMIT_BYTES, COMMIT_PREFIX, CommitMark, MemoryMark, TruncationMark, read_mark

SUFFIX = ".log"
WHAT_TO_DO = "nothing was deleted; see docs/log.md, 'When a log is refused'"


def segment_path(folder: Path, first: int) -> Path:
    """The segment whose first record has that position."""
    return folder / f"{first:020d}{SUFFIX}"


def list_segments(folder: Path) -> list[int]:
    """The positions of the segments' first records, in order."""
    firsts = []
    for path in folder.glob(f"*{SUFFIX}"):
        if not (path.stem.isascii() and path.stem.isdigit() and path == segment_path(folder, int(path.stem))):
            raise UsageError(f"{path}: is no segment of a log; move it elsewhere")
        firsts.append(int(path.stem))
    return sorted(firsts)


class _Segment(msgspec.Struct):
    """What one pass over a segment tells."""

    first: int
    end: int
    """The position after its last whole record."""
    valid_bytes: int
    file_bytes: int
    forgotten: int
    """The highest position before which records are forgotten, 0 for none."""
    counted_bytes: int
    """Of the records that were asked for."""
    remembered: list[bytes]


class StoredRecords(Collection[bytes]):
    """The records of a log, read from the disk as one goes through them, from a position to where it ends."""

    def __init__(self, folder: Path, firsts: list[int], begin: int, end: int) -> None:
        self._folder = folder
        self._firsts = firsts
        self._begin = begin
        self._end = end

    def __len__(self) -> int:
        return self._end - self._begin

    def __contains__(self, record: object) -> bool:
        return any(record == stored for stored in self)

    def __iter__(self) -> Iterator[bytes]:
        for first in self._firsts:
            position = first
            with disk.open_to_read(segment_path(self._folder, first)) as file:
                for _, body in read_frames(file):
                    if read_mark(body) is None:
                        if position >= self._begin:
                            yield body
                        position += 1


class StoredLog(msgspec.Struct):
    """What the segments of a log hold."""

    firsts: list[int]
    """The segments that are needed; the last one is written on."""
    obsolete: list[int]
    """Those that a crash kept from being deleted."""
    begin: int
    """The position of the first record that counts."""
    end: int
    last_bytes: int
    """How much of the last segment is whole."""
    dropped_bytes: int
    counted_bytes: int
    """What the records since the checkpoint take."""
    remembered: list[bytes]
    """What was heard of others, in the order in which it was written."""


def read_segments(folder: Path, checkpoint_position: int) -> StoredLog:
    """Go through the segments once and check them; `UsageError` when what was stable is damaged or missing."""
    firsts = list_segments(folder)
    needed = _from(firsts, checkpoint_position)
    segments = [_read_segment(folder, first, checkpoint_position, first == firsts[-1]) for first in needed]
    begin = max([checkpoint_position, *(segment.forgotten for segment in segments)])
    # Names are removed in any order by a crash: of the segments that nobody needs, some in the middle may be missing.
    needed = _from(needed, begin)
    segments = [segment for segment in segments if segment.first in needed]
    if segments and segments[0].first > begin:
        raise missing(folder, begin, segments[0].first)
    for segment, following in pairwise(segments):
        if segment.valid_bytes < segment.file_bytes:
            path = segment_path(folder, segment.first)
            raise UsageError(f"{path}: is damaged at byte {segment.valid_bytes}, before its end; {WHAT_TO_DO}")
        if segment.end != following.first:
            raise missing(folder, segment.end, following.first)
    dropped_bytes = segments[-1].file_bytes - segments[-1].valid_bytes if segments else 0
    end = segments[-1].end if segments else begin
    if end < begin:
        # What was torn is covered by the checkpoint: go on in a new segment, as if all of these had been deleted.
        needed, end = [], begin
    return StoredLog(
        firsts=needed,
        obsolete=[first for first in firsts if first not in needed],
        begin=begin,
        end=end,
        last_bytes=segments[-1].valid_bytes if needed else 0,
        dropped_bytes=dropped_bytes,
        counted_bytes=sum(segment.counted_bytes for segment in segments),
        remembered=[piece for segment in segments for piece in segment.remembered],
    )


def _from(firsts: list[int], position: int) -> list[int]:
    """Without the segments that lie before the position as a whole."""
    return [first for first, following in pairwise(firsts) if following > position] + firsts[-1:]


def _read_segment(folder: Path, first: int, count_from: int, is_last: bool) -> _Segment:
    path = segment_path(folder, first)
    segment = _Segment(first=first, end=first, valid_bytes=0, file_bytes=0, forgotten=0, counted_bytes=0, remembered=[])
    with disk.open_to_read(path) as file:
        for end, body in read_frames(file):
            try:
                mark = read_mark(body)
            except ValueError as error:
                raise UsageError(f"{path}: was written by a newer version of ordercast; install that one") from error
            if segment.valid_bytes == 0 and not isinstance(mark, CommitMark):
                raise UsageError(f"{path}: does not begin as a segment does; {WHAT_TO_DO}")
            if mark is None:
                if segment.end >= count_from:
                    segment.counted_bytes += end - segment.valid_bytes
                segment.end += 1
            elif isinstance(mark, TruncationMark):
                segment.forgotten = max(segment.forgotten, mark.before)
            elif isinstance(mark, MemoryMark):
                segment.remembered.append(mark.content)
            elif mark != CommitMark(segment.valid_bytes, segment.end):
                raise UsageError(f"{path}: has records that belong elsewhere at byte {end}; {WHAT_TO_DO}")
            segment.valid_bytes = end
        segment.file_bytes = file.seek(0, 2)
        if is_last and segment.valid_bytes < segment.file_bytes:
            file.seek(segment.valid_bytes)
            # Bounded: a segment, and the commit that made it full.
            if _holds_commit(file.read(), segment.valid_bytes):
                raise UsageError(
                    f"{path}: is damaged at byte {segment.valid_bytes}, which was stable when what follows "
                    f"was written; {WHAT_TO_DO}"
                )
    return segment


def _holds_commit(tail: bytes, offset: int) -> bool:
    """Whether a commit begins anywhere in the bytes that stand from an offset on."""
    at = tail.find(COMMIT_PREFIX)
    while at >= 0:
        start = max(at - HEADER_BYTES, 0)
        bodies, _ = scan(tail[start : at + COMMIT_BYTES])
        mark = read_mark(bodies[0]) if bodies else None
        if isinstance(mark, CommitMark) and mark.offset == offset + start:
            return True
        at = tail.find(COMMIT_PREFIX, at + 1)
    return False


def missing(folder: Path, begin: int, end: int) -> UsageError:
    """Records that were stable once are not there."""
    return UsageError(f"{folder}: the records {begin} to {end - 1} are missing from the log; {WHAT_TO_DO}")
