"""Group commit: appends go on while a commit runs, and what could not be logged is never acknowledged."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, current_thread
from typing import Any

import pytest

from ordercast.core import InvariantViolation, Record, StorageError
from ordercast.storage import disk
from ordercast.storage.commit import TIDYING_MAX, GroupCommit
from ordercast.storage.file import FileLog
from tests.hand_loop import DEADLINE_SECONDS, HandLoop


class Note(Record, frozen=True):
    number: int


class Gate:
    """Something that the disk does, which waits until it is let through."""

    def __init__(self, then: Callable[..., None]) -> None:
        self.entered = Event()
        self.open = Event()
        self._then = then

    def __call__(self, *arguments: Any) -> None:
        self.entered.set()
        assert self.open.wait(DEADLINE_SECONDS)
        self._then(*arguments)


def broken(*_arguments: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


class Site:
    """A log, who commits it, and what came back."""

    def __init__(self, folder: Path) -> None:
        self.loop = HandLoop()
        self.log = FileLog(folder)
        self.synced: list[int] = []
        self.errors: list[Exception] = []
        self.commit = GroupCommit(self.loop.call_soon, self.loop.call_soon_threadsafe, self.errors.append)

    def append(self, *numbers: int) -> None:
        for number in numbers:
            self.log.append(Note(number))

    def retain_nothing(self, folder: Path) -> None:
        """From now on another log, which takes every checkpoint."""
        self.log = FileLog(folder / "retaining-nothing", retain_bytes=-1)

    def start_sync(self) -> None:
        self.commit.start_sync(self.log, self.on_synced)

    def commit_with_a_checkpoint(self, folder: Path) -> None:
        """One record is stable, and behind it a checkpoint is being written."""
        self.retain_nothing(folder)
        self.append(1)
        self.log.checkpoint(Note(2), 0)
        self.start_sync()
        self.loop.wait()

    def on_synced(self, position: int) -> None:
        self.log.sync(position)
        self.synced.append(position)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.commit.close()
    made.log.close()


def test_a_sync_takes_along_what_is_appended_before_the_loop_comes_round(site: Site) -> None:
    site.append(1)
    site.start_sync()
    site.append(2, 3)
    site.loop.wait()
    assert site.synced == [3]
    assert site.log.synced == 3


def test_records_are_appended_while_a_commit_runs_and_go_into_the_next_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(os.fdatasync)
    monkeypatch.setattr(disk, "sync_data", gate)
    site.append(1)
    site.start_sync()
    site.loop.run_due()
    assert gate.entered.wait(DEADLINE_SECONDS)
    site.append(2, 3)
    assert site.synced == []
    assert site.loop.nothing_came()
    gate.open.set()
    site.loop.wait()
    assert site.synced == [1]
    assert (site.log.synced, site.log.position) == (1, 3)
    site.start_sync()
    site.loop.wait()
    assert site.synced == [1, 3]


def test_nothing_but_the_thread_touches_the_files(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()
    real = disk.write_all

    def write_all(descriptor: int, data: memoryview) -> None:
        threads.add(current_thread().name)
        real(descriptor, data)

    monkeypatch.setattr(disk, "write_all", write_all)
    for number in range(3):
        site.append(number)
        site.start_sync()
        site.loop.wait()
    assert threads == {"ordercast-log"}


def test_several_logs_share_the_thread(site: Site, tmp_path: Path) -> None:
    other = FileLog(tmp_path / "other")
    stable: list[int] = []
    site.append(1)
    other.append(Note(1))
    other.append(Note(2))
    site.start_sync()
    site.commit.start_sync(other, stable.append)
    site.loop.wait()
    site.loop.wait()
    assert (site.synced, stable) == ([1], [2])
    other.close()


def test_a_full_disk_is_told_and_nothing_is_acknowledged_any_more(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.append(1)
    site.start_sync()
    site.loop.wait()

    def refuse(descriptor: int, data: memoryview) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk, "write_all", refuse)
    site.append(2)
    site.start_sync()
    site.loop.wait()
    assert site.synced == [1]
    assert [type(error) for error in site.errors] == [StorageError]
    assert "No space left on device; the process stops" in str(site.errors[0])
    monkeypatch.undo()
    site.append(3)
    site.start_sync()
    site.loop.run_due()
    site.commit.close()
    assert site.loop.nothing_came(), "there is room again, but a record before is missing"
    assert site.synced == [1]


def test_a_broken_disk_is_told_when_the_checkpoint_fails_too(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ordercast.storage.checkpoint_file.replace_file", broken)
    site.commit_with_a_checkpoint(tmp_path)
    assert site.synced == [1], "the records are stable, with or without a checkpoint"
    site.loop.wait()
    assert "Input/output error" in str(site.errors[0])


def test_commits_go_on_while_a_checkpoint_is_written(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(disk.replace_file)
    monkeypatch.setattr("ordercast.storage.checkpoint_file.replace_file", gate)
    site.commit_with_a_checkpoint(tmp_path)
    assert gate.entered.wait(DEADLINE_SECONDS)
    site.append(2)
    site.start_sync()
    site.loop.wait()
    assert site.synced == [1, 2]
    gate.open.set()


def test_a_broken_disk_does_not_keep_anybody_from_closing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though more checkpoints wait to be written than the queue holds."""
    gate = Gate(broken)
    monkeypatch.setattr("ordercast.storage.checkpoint_file.replace_file", gate)
    site.retain_nothing(tmp_path)
    for number in range(TIDYING_MAX + 3):
        site.append(number)
        site.log.checkpoint(Note(number), number)
        site.start_sync()
        site.loop.run_due()
    assert gate.entered.wait(DEADLINE_SECONDS)
    gate.open.set()
    site.commit.close()
    while not site.loop.nothing_came():
        site.loop.wait()
    assert "Input/output error" in str(site.errors[0])


def test_closing_waits_for_what_was_asked_for(site: Site) -> None:
    site.append(1)
    site.start_sync()
    site.commit.close()
    site.loop.wait()
    assert site.synced == [1]
    with pytest.raises(InvariantViolation):
        site.start_sync()


def test_a_loop_that_is_closed_first_does_not_make_the_thread_scream(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    def closed(*_arguments: object) -> None:
        raise RuntimeError("Event loop is closed")

    log = FileLog(tmp_path)
    due: list[Callable[[], None]] = []
    commit = GroupCommit(due.append, closed, lambda error: None)
    log.append(Note(1))
    commit.start_sync(log, lambda position: None)
    due.pop()()
    commit.close()
    log.close()
    assert not recwarn.list
