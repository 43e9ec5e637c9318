"""The log on a disk behaves as the one in memory, whatever a crash leaves of the files."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.core import InvariantViolation, Record, StorageError, UsageError, encode
from ordercast.storage import MemoryLog, disk
from ordercast.storage.file import FileLog, Pending
from ordercast.storage.framing import RECORD_BYTES_MAX, frame
from ordercast.storage.marks import TruncationMark
from ordercast.storage.segments import list_segments, segment_path
from tests.storage.crashing_disk import Crash, CrashingDisk

SEGMENT_BYTES = 256
"""A handful of records: everything that happens between segments happens often."""


class Note(Record, frozen=True):
    number: int
    text: str = ""


def open_file_log(folder: Path, retain_bytes: int = -1) -> FileLog:
    """With less than nothing to retain, every checkpoint is taken."""
    return FileLog(folder, retain_bytes=retain_bytes, segment_bytes=SEGMENT_BYTES)


def note(number: int) -> Note:
    return Note(number, "x" * (number * 7 % 40))


def numbers(records: object) -> list[int]:
    return [msgspec.msgpack.decode(record, type=Note).number for record in records]  # type: ignore[attr-defined]


def filled(folder: Path, count: int) -> FileLog:
    """A log with so many records, each in a commit of its own."""
    log = open_file_log(folder)
    for number in range(count):
        log.append(note(number))
        log.flush()
    return log


# ---------------------------------------------------------------------- against the log in memory
class Step(msgspec.Struct, frozen=True):
    kind: str
    amount: int = 0
    seed: int = 0


STEPS = st.lists(
    st.one_of(
        st.builds(Step, st.just("append"), st.integers(1, 6)),
        st.builds(Step, st.just("flush")),
        st.builds(Step, st.just("checkpoint"), st.integers(0, 8)),
        st.builds(Step, st.just("crash")),
        st.builds(Step, st.just("torn crash"), st.integers(0, 1 << 30), st.integers(0, 1 << 30)),
    ),
    max_size=30,
)


class Pair:
    """A log on the disk and the one in memory that shows what it should hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = open_file_log(folder)
        self.model = MemoryLog(instant=False)
        self.checkpoint_position = 0

    def append(self, step: Step) -> None:
        for _ in range(step.amount):
            self.log.append(note(self.log.position))
            self.model.append(note(self.model.position))

    def flush(self, step: Step) -> None:
        self.log.flush()
        self.model.sync(self.model.position)

    def checkpoint(self, step: Step) -> None:
        # As a protocol would: it sums up what is stable, and the next commit makes that so.
        self.checkpoint_position = max(self.checkpoint_position, self.log.synced - step.amount)
        state = Note(1000 + self.checkpoint_position)
        self.log.checkpoint(state, self.checkpoint_position)
        self.model.checkpoint(state, self.checkpoint_position)
        self.flush(step)

    def crash(self, step: Step) -> None:
        self.model.crash()
        self.reopen()

    def torn_crash(self, step: Step) -> None:
        """The commit of what is not stable was under way: some of its bytes are there, some are garbage."""
        random = Random(step.seed)
        pending = self.log.write_out()
        data = pending.head + pending.buffer[: pending.length]
        kept = step.amount % (len(data) + 1)
        tail = bytearray(data[:kept])
        for _ in range(random.choice((0, 0, 1, 3))):
            if tail:
                tail[random.randrange(len(tail))] ^= random.randint(1, 255)
        if data:
            with segment_path(self.folder, pending.segment).open("ab") as file:
                file.write(tail)
        unsynced = [note(number) for number in range(self.model.synced, self.model.position)]
        self.model.crash()
        self.log.close()
        self.log = open_file_log(self.folder)
        survivors = self.log.position - self.model.position
        assert 0 <= survivors <= len(unsynced)
        for record in unsynced[:survivors]:
            self.model.append(record)
        self.compare()

    def reopen(self) -> None:
        self.log.close()
        self.log = open_file_log(self.folder)
        self.compare()

    def compare(self) -> None:
        assert (self.log.position, self.log.synced) == (self.model.position, self.log.position)
        expected, found = self.model.recover(), self.log.recover()
        assert found.checkpoint == expected.checkpoint
        assert list(found.records) == expected.records
        assert len(found.records) == len(expected.records)


@given(STEPS)
@settings(max_examples=100)
def test_it_holds_what_the_log_in_memory_holds(steps: list[Step]) -> None:
    with TemporaryDirectory() as name:
        pair = Pair(Path(name) / "log")
        for step in steps:
            getattr(pair, step.kind.replace(" ", "_"))(step)
        pair.flush(Step("flush"))
        pair.crash(Step("crash"))
        pair.log.close()


# ---------------------------------------------------------------------- a crash at every step
class Witness:
    """What was asked of a log, and what it has acknowledged."""

    def __init__(self) -> None:
        self.appended: list[bytes] = []
        self.states: dict[bytes | None, int] = {None: 0}
        """Checkpoint -> its position."""
        self.stable = 0
        self.checkpoint_stable = 0

    def check(self, log: FileLog, folder: Path) -> None:
        """Whether a log that was opened after a crash holds nothing but what it may hold, and all that it must."""
        recovery = log.recover()
        records = list(recovery.records)
        begin = log.position - len(records)
        assert self.stable <= log.position <= len(self.appended)
        assert records == self.appended[begin : log.position]
        position = self.states[recovery.checkpoint]
        assert position >= self.checkpoint_stable
        assert begin == position
        assert all(first > begin for first in list_segments(folder)[1:]), "what nobody needs is deleted"
        assert recovery.attachment == (None if recovery.checkpoint is None else b"taken at %d" % position)


def live(folder: Path, witness: Witness) -> None:
    """A life of a log: several segments, several checkpoints, and a restart in between."""
    for _ in range(2):
        log = FileLog(
            folder,
            retain_bytes=200,
            segment_bytes=SEGMENT_BYTES,
            attachment=lambda: b"taken at %d" % witness.stable,
        )
        for number in range(24):
            record = note(len(witness.appended))
            witness.appended.append(encode(record))
            log.append(record)
            if number % 3 == 2:
                pending = log.write_out()
                log.commit(pending)
                log.sync(pending.position)
                witness.stable = pending.position
                log.tidy(pending)
                if pending.checkpoint is not None:
                    witness.checkpoint_stable = pending.checkpoint.position
                state = Note(1000 + witness.stable)
                witness.states[encode(state)] = witness.stable
                log.checkpoint(state, witness.stable)
        log.close()
        assert log.synced == len(witness.appended)


def count_steps(monkeypatch: pytest.MonkeyPatch, folder: Path) -> int:
    whole = CrashingDisk()
    monkeypatch.setattr(disk, "os", whole)
    live(folder, Witness())
    monkeypatch.undo()
    return whole.steps


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_any_step_loses_nothing_that_was_acknowledged(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    steps = count_steps(monkeypatch, tmp_path / "whole")
    assert steps > 100
    taken = 0
    for crash_at in range(steps):
        folder = tmp_path / f"{crash_at}"
        crashing = CrashingDisk(crash_at)
        witness = Witness()
        monkeypatch.setattr(disk, "os", crashing)
        with pytest.raises(Crash):
            live(folder, witness)
        monkeypatch.undo()
        crashing.lose(random)
        log = open_file_log(folder)
        taken += witness.checkpoint_stable > 0
        witness.check(log, folder)
        # It goes on from there.
        end = log.position
        log.append(note(end))
        log.flush()
        log.close()
        log = open_file_log(folder)
        assert numbers(log.recover().records)[-1:] == [end]
        log.close()
    assert taken > steps // 4


def test_a_crash_in_a_recovery_from_a_crash_loses_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(7)
    steps = count_steps(monkeypatch, tmp_path / "whole")
    for crash_at in range(5, steps, 7):
        folder = tmp_path / f"{crash_at}"
        crashing = CrashingDisk(crash_at)
        witness = Witness()
        monkeypatch.setattr(disk, "os", crashing)
        with pytest.raises(Crash):
            live(folder, witness)
        crashing.lose(random)
        for again_at in range(20):
            crashing = CrashingDisk(again_at)
            monkeypatch.setattr(disk, "os", crashing)
            try:
                open_file_log(folder).close()
                break
            except Crash:
                crashing.lose(random)
        monkeypatch.undo()
        log = open_file_log(folder)
        witness.check(log, folder)
        log.close()


def test_what_a_killed_process_has_left_is_made_stable_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is killed between a write and its sync; the next one reads the record and acts upon it; then the
    machine loses its power."""
    survived = 0
    for crash_at in range(count_steps(monkeypatch, tmp_path / "whole")):
        folder = tmp_path / f"{crash_at}"
        machine = CrashingDisk(crash_at)
        monkeypatch.setattr(disk, "os", machine)
        with pytest.raises(Crash):
            live(folder, Witness())
        machine.restart_process()
        if folder.exists():
            log = open_file_log(folder)
            position = log.position
            survived += position > 0
            machine.lose(Random(crash_at))
            assert open_file_log(folder).position == position
        monkeypatch.undo()
    assert survived > 50


# ---------------------------------------------------------------------- torn tails, and worse
def last_segment(folder: Path) -> Path:
    return segment_path(folder, list_segments(folder)[-1])


def test_a_torn_tail_is_cut_off_at_any_byte_and_the_log_says_how_much(tmp_path: Path) -> None:
    filled(tmp_path / "log", 3).close()
    path = last_segment(tmp_path / "log")
    whole = path.read_bytes()
    log = open_file_log(tmp_path / "log")
    log.append(note(3))
    pending = log.write_out()
    longer = whole + pending.head + pending.buffer[: pending.length]
    log.close()
    for length in range(len(whole), len(longer)):
        path.write_bytes(longer[:length])
        log = open_file_log(tmp_path / "log")
        recovery = log.recover()
        assert numbers(recovery.records) == [0, 1, 2]
        mark_bytes = len(longer) - len(whole) - len(frame(encode(note(3))))
        assert (
            recovery.dropped_bytes == (length - len(whole)) % mark_bytes
            or recovery.dropped_bytes == length - len(whole) - mark_bytes
        )
        log.close()
        assert path.stat().st_size == length - recovery.dropped_bytes


@pytest.mark.parametrize("tail", [bytes(8), bytes(4096), b"\xff" * 100, frame(b"x")[:-1]])
def test_zeros_and_garbage_behind_the_last_record_are_no_records(tail: bytes, tmp_path: Path) -> None:
    filled(tmp_path / "log", 3).close()
    with last_segment(tmp_path / "log").open("ab") as file:
        file.write(tail)
    log = open_file_log(tmp_path / "log")
    recovery = log.recover()
    assert numbers(recovery.records) == [0, 1, 2]
    assert recovery.dropped_bytes == len(tail)
    log.close()


def refused(folder: Path) -> str:
    """The one line with which a log is refused; nothing is changed by the attempt."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(UsageError) as caught:
        open_file_log(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    text = str(caught.value)
    assert "\n" not in text
    assert "nothing was deleted; see docs/log.md" in text
    return text


def test_a_damaged_record_in_an_earlier_segment_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    path = segment_path(tmp_path, list_segments(tmp_path)[1])
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert re.search(rf"{path}: is damaged at byte \d+, before its end", refused(tmp_path))


def test_a_short_earlier_segment_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    path = segment_path(tmp_path, list_segments(tmp_path)[1])
    path.write_bytes(path.read_bytes()[:-1])
    assert "is damaged at byte" in refused(tmp_path)


def test_a_missing_segment_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    _, second, third, *_ = list_segments(tmp_path)
    segment_path(tmp_path, second).unlink()
    assert f"the records {second} to {third - 1} are missing" in refused(tmp_path)


def test_a_missing_first_segment_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    first, second, *_ = list_segments(tmp_path)
    segment_path(tmp_path, first).unlink()
    assert f"the records 0 to {second - 1} are missing" in refused(tmp_path)


def test_damage_before_a_later_commit_is_no_torn_tail_and_is_refused(tmp_path: Path) -> None:
    """The later commit was begun when the damaged one was stable: cutting both off would forget what was promised."""
    log = FileLog(tmp_path)
    for number in range(4):
        log.append(note(number))
        log.flush()
    log.close()
    path = last_segment(tmp_path)
    whole = path.read_bytes()
    last_commit = whole.rindex(b"\xc1ordercast") - 8
    for at in range(last_commit):
        content = bytearray(whole)
        content[at] ^= 0x40
        path.write_bytes(content)
        assert "which was stable when what follows was written" in refused(tmp_path)
    # Behind the last commit nothing tells that it was stable, but its end was noted.
    path.write_bytes(whole[:last_commit] + b"\0" + whole[last_commit + 1 :])
    assert "the records 3 to 3 are missing" in refused(tmp_path)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    log = filled(tmp_path, 5)
    log.checkpoint(note(5), 5)
    log.flush()
    log.close()
    path = tmp_path / "checkpoint"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert f"{path}: is damaged" in refused(tmp_path)
        path.write_bytes(whole[:at])
        assert f"{path}: is damaged" in refused(tmp_path)


def test_a_foreign_file_among_the_segments_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    for name in ("notes.log", "7.log", "٧.log"):
        (tmp_path / name).write_text("dear diary")
        with pytest.raises(UsageError, match=f"{name}: is no segment of a log; move it elsewhere"):
            open_file_log(tmp_path)
        (tmp_path / name).unlink()


def test_a_segment_under_the_wrong_name_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    last_segment(tmp_path).rename(segment_path(tmp_path, 5))
    assert "has records that belong elsewhere" in refused(tmp_path)


# ---------------------------------------------------------------------- segments, checkpoints, bounds
def test_segments_follow_each_other_without_a_gap_and_are_about_as_large_as_they_should(tmp_path: Path) -> None:
    filled(tmp_path, 60).close()
    firsts = list_segments(tmp_path)
    assert len(firsts) > 5
    for first in firsts:
        assert segment_path(tmp_path, first).stat().st_size < 2 * SEGMENT_BYTES
    log = open_file_log(tmp_path)
    assert numbers(log.recover().records) == list(range(60))
    log.close()


@pytest.mark.parametrize("before", range(31))
def test_a_checkpoint_at_any_position_keeps_exactly_what_follows(before: int, tmp_path: Path) -> None:
    log = filled(tmp_path, 30)
    log.checkpoint(note(before), before)
    log.flush()
    log.close()
    firsts = list_segments(tmp_path)
    assert firsts[0] <= before
    assert all(first > before for first in firsts[1:]), "what nobody needs is deleted"
    log = open_file_log(tmp_path)
    assert numbers(log.recover().records) == list(range(before, 30))
    log.close()


@pytest.mark.parametrize("before", range(31))
def test_a_truncation_mark_that_a_log_has_keeps_exactly_what_follows(before: int, tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    with segment_path(tmp_path, list_segments(tmp_path)[-1]).open("ab") as file:
        file.write(frame(TruncationMark(before).encode()))
    log = open_file_log(tmp_path)
    assert numbers(log.recover().records) == list(range(before, 30))
    firsts = list_segments(tmp_path)
    assert firsts[0] <= before
    assert all(first > before for first in firsts[1:]), "what nobody needs is deleted"
    log.append(note(30))
    log.flush()
    log.close()
    log = open_file_log(tmp_path)
    assert numbers(log.recover().records) == list(range(before, 31))
    log.close()


def test_a_checkpoint_is_ignored_until_there_is_enough_to_retain(tmp_path: Path) -> None:
    log = FileLog(tmp_path, retain_bytes=10_000, segment_bytes=1000)
    taken = []
    for number in range(1000):
        log.append(note(number))
        pending = log.write_out()
        log.commit(pending)
        log.sync(log.position)
        log.tidy(pending)
        if pending.checkpoint is not None:
            taken.append(number)
        log.checkpoint(Note(number), log.position)
        held = sum(path.stat().st_size for path in tmp_path.iterdir())
        # What is retained, one segment more, one checkpoint, and a commit mark for each of these tiny commits.
        assert held < 2.5 * 10_000
    assert len(taken) == 3
    log.close()
    log = FileLog(tmp_path)
    recovery = log.recover()
    assert recovery.checkpoint == encode(Note(taken[-1] - 1))
    assert numbers(recovery.records) == list(range(taken[-1], 1000))
    log.close()


def test_what_is_retained_counts_again_after_a_restart(tmp_path: Path) -> None:
    for _ in range(10):
        log = FileLog(tmp_path, retain_bytes=1000)
        for _ in range(10):
            log.append(Note(1, "x" * 20))
        log.checkpoint(Note(0), log.position)
        log.flush()
        log.close()
    assert (tmp_path / "checkpoint").exists()


def test_the_attachment_is_asked_for_when_the_checkpoint_is_taken_and_comes_back_with_it(tmp_path: Path) -> None:
    offsets = {"taken": 0}

    def attach() -> bytes:
        offsets["taken"] += 1
        return msgspec.json.encode(offsets)

    log = FileLog(tmp_path, retain_bytes=50, attachment=attach)
    log.append(Note(1))
    log.checkpoint(Note(100), 1)
    assert offsets["taken"] == 0, "too short to be worth a checkpoint"
    log.append(Note(2, "x" * 100))
    log.checkpoint(Note(200), 2)
    log.flush()
    log.close()
    log = FileLog(tmp_path)
    before = log.attachment
    assert before == b'{"taken":1}'
    recovery = log.recover()
    assert (recovery.checkpoint, recovery.attachment) == (encode(Note(200)), b'{"taken":1}')
    assert list(recovery.records) == []
    assert log.attachment is None, "it is not held any longer"
    log.close()


def test_a_state_and_an_attachment_may_be_larger_than_any_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ordercast.storage.checkpoint_file._CHUNK_BYTES", 64)
    attachment = bytes(range(256)) * 3
    log = FileLog(tmp_path, retain_bytes=-1, attachment=lambda: attachment)
    state = Note(1, "y" * 640)
    log.checkpoint(state, 0)
    log.flush()
    log.close()
    log = FileLog(tmp_path)
    recovery = log.recover()
    assert (recovery.checkpoint, recovery.attachment) == (encode(state), attachment)
    log.close()


def test_records_are_read_back_one_at_a_time(tmp_path: Path) -> None:
    import tracemalloc

    log = FileLog(tmp_path)
    for _ in range(200):
        log.append(Note(1, "x" * 100_000))
        log.flush()
    log.close()
    tracemalloc.start()
    log = FileLog(tmp_path)
    total = sum(len(record) for record in log.recover().records)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    log.close()
    assert total > 20_000_000
    assert peak < 6_000_000


def test_a_record_that_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    with pytest.raises(InvariantViolation):
        log.append(Note(1, "x" * RECORD_BYTES_MAX))
    assert log.position == 0
    log.close()


def test_records_can_be_appended_while_a_commit_runs(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    log.append(note(0))
    first = log.write_out()
    log.append(note(1))
    log.commit(first)
    assert first.position == 1
    log.sync(1)
    assert (log.synced, log.position) == (1, 2)
    with pytest.raises(InvariantViolation, match="stable up to 1, not up to 2"):
        log.sync(2)
    log.flush()
    assert log.synced == 2
    log.close()


def test_a_buffer_is_used_again_and_only_when_its_commit_is_done(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    log.append(note(0))
    first = log.write_out()
    second = log.write_out()
    assert (first.position, second.position) == (1, 1), "the second has no records"
    log.commit(first)
    log.sync(1)
    log.append(note(1))
    third = log.write_out()
    fourth = log.write_out()
    assert third.buffer is not second.buffer
    assert fourth.buffer is first.buffer
    for pending in (second, third):
        log.commit(pending)
    log.sync(2)
    log.close()
    log = FileLog(tmp_path)
    assert numbers(log.recover().records) == [0, 1]
    log.close()


def test_a_buffer_that_grew_is_not_kept(tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    sizes = []
    for length in (1, 10_000_000, 1, 1, 1):
        log.append(Note(1, "x" * length))
        pending = log.write_out()
        sizes.append(len(pending.buffer))
        log.commit(pending)
        log.sync(pending.position)
    assert sizes[1] > 10_000_000
    assert max(sizes[2:]) < 1_000_000
    log.close()


@pytest.mark.parametrize("count", [1, 512, 3000])
def test_a_commit_may_have_any_number_of_records(count: int, tmp_path: Path) -> None:
    log = FileLog(tmp_path)
    for number in range(count):
        log.append(note(number))
    log.flush()
    log.close()
    log = FileLog(tmp_path)
    assert numbers(log.recover().records) == list(range(count))
    log.close()


def test_nobody_else_can_read_what_is_logged(tmp_path: Path) -> None:
    log = filled(tmp_path / "log", 3)
    log.checkpoint(note(3), 3)
    log.flush()
    log.close()
    assert (tmp_path / "log").stat().st_mode & 0o077 == 0
    for path in (tmp_path / "log").iterdir():
        assert path.stat().st_mode & 0o077 == 0


# ---------------------------------------------------------------------- a disk that refuses
class RefusingDisk:
    """Takes so many bytes, then none; or refuses to sync."""

    def __init__(self, room: int = 1 << 40, sync_error: int | None = None) -> None:
        self.room = room
        self.sync_error = sync_error

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def write(self, descriptor: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = os.write(descriptor, data[: self.room])
        self.room -= written
        return written

    def fdatasync(self, descriptor: int) -> None:
        if self.sync_error is not None:
            raise OSError(self.sync_error, os.strerror(self.sync_error))
        os.fdatasync(descriptor)


def commit_refused(log: FileLog, pending: Pending) -> str:
    with pytest.raises(StorageError) as caught:
        log.commit(pending)
    text = str(caught.value)
    assert "\n" not in text
    with pytest.raises(StorageError, match=re.escape(text)):
        log.commit(pending)
    return text


def test_a_full_disk_is_an_error_and_what_was_stable_is_there_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in range(0, 200, 3):
        folder = tmp_path / str(room)
        log = filled(folder, 3)
        monkeypatch.setattr(disk, "os", RefusingDisk(room))
        for number in range(3, 10):
            log.append(Note(number, "x" * 40))
        text = commit_refused(log, log.write_out())
        assert f"{folder}" in text
        assert "No space left on device" in text
        assert log.synced == 3
        log.close()
        monkeypatch.undo()
        log = open_file_log(folder)
        found = numbers(log.recover().records)
        assert found[:3] == [0, 1, 2]
        assert found == list(range(len(found)))
        assert len(found) < 10
        log.close()


def test_after_a_failed_sync_no_later_sync_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path, 3)
    refusing = RefusingDisk(sync_error=errno.EIO)
    monkeypatch.setattr(disk, "os", refusing)
    log.append(note(3))
    pending = log.write_out()
    assert "Input/output error" in commit_refused(log, pending)
    refusing.sync_error = None
    commit_refused(log, pending)
    assert log.synced == 3
    log.close()


def test_a_disk_that_is_full_when_a_checkpoint_is_due_keeps_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path, 12)
    log.checkpoint(Note(1000, "x" * 100), 12)
    pending = log.write_out()
    log.commit(pending)
    monkeypatch.setattr(disk, "os", RefusingDisk(room=50))
    with pytest.raises(StorageError, match="No space left on device"):
        log.tidy(pending)
    monkeypatch.undo()
    log.close()
    log = open_file_log(tmp_path)
    recovery = log.recover()
    assert recovery.checkpoint is None
    assert numbers(recovery.records) == list(range(12))
    log.close()
    assert not list(tmp_path.glob("*.new")), "half a checkpoint is taken away"
