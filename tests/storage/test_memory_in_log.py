"""What a process has heard of others is as stable as the records that rely on it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest

from ordercast.core import Record, UsageError
from ordercast.core.memory import Memory
from ordercast.storage import disk
from ordercast.storage.file import FileLog
from ordercast.storage.framing import frame
from ordercast.storage.marks import CommitMark, MemoryMark
from ordercast.storage.segments import list_segments, segment_path
from tests.storage.crashing_disk import Crash, CrashingDisk


class Reliance(Record, frozen=True):
    """A record that relies on what was heard of b up to a position."""

    position: int


def open_with_memory(folder: Path, segment_bytes: int = 256) -> tuple[FileLog, Memory]:
    memory = Memory()
    return FileLog(folder, retain_bytes=-1, segment_bytes=segment_bytes, memory=memory), memory


def rely(log: FileLog, memory: Memory, position: int) -> None:
    """Hear of a position, and write something down because of that."""
    memory.note("b", position)
    log.append(Reliance(position))


def read_back(folder: Path) -> tuple[list[int], int]:
    """The positions on which the records rely, and the one that is remembered."""
    log, memory = open_with_memory(folder)
    records = [msgspec.msgpack.decode(record, type=Reliance).position for record in log.recover().records]
    log.close()
    return records, memory.heard.get("b", 0)


def test_what_was_heard_before_a_commit_is_remembered_after_a_crash(tmp_path: Path) -> None:
    log, memory = open_with_memory(tmp_path / "log")
    log.append(Reliance(0))
    memory.meet("b", 3, incarnation=2, boot=b"boot")
    memory.note("b", 7)
    log.flush()
    memory.note("b", 8)
    log.close()
    log, memory = open_with_memory(tmp_path / "log")
    assert memory.heard == {"b": 7}
    assert memory.has_met_later("b", 2, b"another")
    log.close()


def test_a_log_that_is_closed_in_good_order_keeps_what_was_heard_last(tmp_path: Path) -> None:
    log, memory = open_with_memory(tmp_path / "log")
    rely(log, memory, 7)
    log.flush()
    memory.note("b", 8)
    log.keep_memory()
    log.close()
    assert read_back(tmp_path / "log") == ([7], 8)
    # And it can be written on, from where the marks end.
    log, memory = open_with_memory(tmp_path / "log")
    rely(log, memory, 9)
    log.flush()
    log.close()
    assert read_back(tmp_path / "log") == ([7, 9], 9)


def test_a_log_without_records_is_not_begun_for_what_was_heard(tmp_path: Path) -> None:
    log, memory = open_with_memory(tmp_path / "log")
    memory.note("b", 8)
    log.keep_memory()
    log.close()
    assert list_segments(tmp_path / "log") == []


def test_what_was_heard_outlives_the_records_that_a_checkpoint_replaces(tmp_path: Path) -> None:
    log, memory = open_with_memory(tmp_path / "log")
    memory.note("c", 5)
    for position in range(1, 100):
        rely(log, memory, position)
        log.flush()
    log.checkpoint(Reliance(99), log.position)
    log.flush()
    assert list_segments(tmp_path / "log") != [0]
    log.close()
    log, memory = open_with_memory(tmp_path / "log")
    assert memory.heard == {"b": 99, "c": 5}
    log.close()


def test_a_segment_begins_with_all_that_is_remembered(tmp_path: Path) -> None:
    log, memory = open_with_memory(tmp_path / "log")
    memory.note("c", 5)
    for position in range(1, 30):
        rely(log, memory, position)
        log.flush()
    log.close()
    last = list_segments(tmp_path / "log")[-1]
    assert last > 0
    content = segment_path(tmp_path / "log", last).read_bytes()
    everything = Memory()
    everything.note("c", 5)
    everything.note("b", last + 1)
    begin = frame(CommitMark(0, last).encode()) + frame(MemoryMark(everything.everything()).encode())
    assert content.startswith(begin)


def test_a_commit_without_news_is_no_longer_than_before(tmp_path: Path) -> None:
    log, memory = open_with_memory(tmp_path / "log", segment_bytes=1 << 20)
    rely(log, memory, 7)
    log.flush()
    log.append(Reliance(7))
    assert log.write_out().head == frame(CommitMark(log_bytes(tmp_path / "log"), 1).encode())
    log.close()


def log_bytes(folder: Path) -> int:
    return segment_path(folder, 0).stat().st_size


def test_however_a_commit_is_torn_a_record_that_is_left_has_what_it_relies_on(tmp_path: Path) -> None:
    log, memory = open_with_memory(tmp_path / "log", segment_bytes=1 << 20)
    rely(log, memory, 1)
    log.flush()
    for position in (2, 3, 4):
        rely(log, memory, position)
    pending = log.write_out()
    path = segment_path(tmp_path / "log", 0)
    whole = path.read_bytes()
    longer = whole + pending.head + pending.buffer[: pending.length]
    log.close()
    for length in range(len(whole), len(longer) + 1):
        path.write_bytes(longer[:length])
        records, heard = read_back(tmp_path / "log")
        assert records == [1, 2, 3, 4][: len(records)]
        assert heard >= records[-1]


def use(folder: Path) -> None:
    """Commits, checkpoints and segments that are deleted, each record relying on something new."""
    log, memory = open_with_memory(folder)
    position = memory.heard.get("b", 0)
    for step in range(12):
        position += 1
        rely(log, memory, position)
        if step % 4 == 3:
            log.checkpoint(Reliance(position), log.position)
        log.flush()
    log.keep_memory()
    log.close()


@pytest.mark.parametrize("seed", range(3))
def test_wherever_the_machine_stops_a_log_that_is_read_back_has_what_it_relies_on(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_at, crashed = 0, True
    while crashed:
        folder = tmp_path / str(crash_at)
        machine = CrashingDisk(crash_at)
        monkeypatch.setattr(disk, "os", machine)
        try:
            use(folder)
            crashed = False
        except Crash:
            pass
        monkeypatch.undo()
        machine.lose(Random(f"{seed} {crash_at}"))
        log, memory = open_with_memory(folder)
        recovery = log.recover()
        relied_on = [msgspec.msgpack.decode(record, type=Reliance).position for record in recovery.records]
        if recovery.checkpoint is not None:
            relied_on.append(msgspec.msgpack.decode(recovery.checkpoint, type=Reliance).position)
        assert memory.heard.get("b", 0) >= max(relied_on, default=0)
        log.close()
        crash_at += 1


def test_memory_of_a_later_version_is_refused_in_one_line(tmp_path: Path) -> None:
    log, _ = open_with_memory(tmp_path / "log")
    log.append(Reliance(0))
    log.flush()
    log.close()
    with segment_path(tmp_path / "log", 0).open("ab") as file:
        file.write(frame(MemoryMark(b"\x01").encode()))
    with pytest.raises(UsageError, match="was written by a newer version of ordercast; install that one"):
        open_with_memory(tmp_path / "log")
