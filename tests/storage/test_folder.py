"""A log belongs to one process of one cluster, runs once at a time, and counts its incarnations."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from random import Random

import pytest

from ordercast.core import MAIN_INSTANCE, Record, StorageError, UsageError, encode
from ordercast.storage import disk
from ordercast.storage.folder import open_log
from ordercast.storage.segments import segment_path
from tests.storage.crashing_disk import Crash, CrashingDisk, FastDisk
from tests.support import run_python


class Note(Record, frozen=True):
    text: str


def start(folder: Path, cluster: str = "bank", process: str = "main-1") -> int:
    """Start and end a process; its incarnation."""
    opened = open_log(folder, cluster, process)
    opened.close()
    return opened.incarnation


def test_each_start_is_a_new_incarnation(tmp_path: Path) -> None:
    assert [start(tmp_path / "log" / "main-1") for _ in range(5)] == [0, 1, 2, 3, 4]


def test_a_crash_at_any_step_of_a_start_never_brings_an_incarnation_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for crash_at in range(100):
        folder = tmp_path / str(crash_at)
        seen = [start(folder)]
        crashing = CrashingDisk(crash_at)
        monkeypatch.setattr(disk, "os", crashing)
        try:
            seen.append(start(folder))
        except Crash:
            pass
        else:
            break
        finally:
            monkeypatch.undo()
        crashing.lose(Random(crash_at))
        seen.append(start(folder))
        assert len(set(seen)) == len(seen)
        assert seen == sorted(seen)
    else:
        pytest.fail("a start takes fewer steps than that")
    assert crash_at > 3


def test_records_come_back_in_the_next_incarnation(tmp_path: Path) -> None:
    opened = open_log(tmp_path, "bank", "main-1")
    log = opened.log(MAIN_INSTANCE)
    log.append(Note("deposit"))
    log.flush()
    control = opened.log("control")
    control.append(Note("view"))
    control.flush()
    opened.close()
    opened = open_log(tmp_path, "bank", "main-1")
    assert list(opened.log(MAIN_INSTANCE).recover().records) == [encode(Note("deposit"))]
    assert list(opened.log("control").recover().records) == [encode(Note("view"))]
    opened.close()


def test_a_second_process_with_the_same_log_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    opened = open_log(tmp_path, "bank", "main-1")
    with pytest.raises(UsageError) as caught:
        open_log(tmp_path, "bank", "main-1")
    assert str(caught.value).startswith(f"{tmp_path}: is in use by another process (pid {os.getpid()}); stop that one")
    opened.close()
    opened.close()
    assert start(tmp_path) == 1, "who was refused does not count as a start"


def test_a_killed_process_leaves_no_lock_behind(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from ordercast.storage.folder import open_log\n"
        "opened = open_log(Path(sys.argv[1]), 'bank', 'main-1'); os.kill(os.getpid(), 9)"
    )
    assert run_python(code, str(tmp_path)).returncode == -9
    assert start(tmp_path) == 1


@pytest.mark.parametrize(("cluster", "process"), [("bank", "main-2"), ("shop", "main-1")])
def test_a_log_of_another_process_or_cluster_is_refused(cluster: str, process: str, tmp_path: Path) -> None:
    start(tmp_path)
    with pytest.raises(UsageError) as caught:
        start(tmp_path, cluster, process)
    assert f"{tmp_path}: belongs to the process 'main-1' of the cluster 'bank'" in str(caught.value)
    assert "give each its own log_directory" in str(caught.value)
    assert start(tmp_path) == 1, "it is not locked, and nothing has changed"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is damaged"),
        (b"{}", "is damaged"),
        (b'{"format":1,"cluster":"bank","process":"main-1","starts":"many"}', "is damaged"),
        (b'{"format":2,"cluster":"bank","process":"main-1","starts":1}', "newer version of ordercast; install that"),
    ],
)
def test_an_identity_that_cannot_be_read_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    start(tmp_path)
    (tmp_path / "identity.json").write_bytes(content)
    with pytest.raises(UsageError, match=words):
        start(tmp_path)
    assert (tmp_path / "identity.json").read_bytes() == content


def test_records_without_an_identity_are_refused(tmp_path: Path) -> None:
    opened = open_log(tmp_path, "bank", "main-1")
    log = opened.log(MAIN_INSTANCE)
    log.append(Note("deposit"))
    log.flush()
    opened.close()
    (tmp_path / "identity.json").unlink()
    with pytest.raises(UsageError, match="has records but no identity"):
        start(tmp_path)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("not a folder")
    for folder in (tmp_path / "log", tmp_path / "log" / "main-1"):
        with pytest.raises(UsageError, match=r"cannot hold the log: .*; make room, change its permissions, or name"):
            start(folder)


def test_a_disk_without_room_for_the_start_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk, "write_all", refuse)
    with pytest.raises(UsageError, match="cannot hold the log: No space left on device; make room"):
        start(tmp_path)
    monkeypatch.undo()
    assert start(tmp_path) == 0


def test_a_file_that_may_not_grow_any_more_is_an_error_like_a_full_disk(tmp_path: Path) -> None:
    opened = open_log(tmp_path, "bank", "main-1")
    log = opened.log(MAIN_INSTANCE)
    log.append(Note("x" * 100))
    log.flush()
    log.append(Note("x" * 100_000))
    pending = log.write_out()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(StorageError, match="File too large; the process stops"):
            log.commit(pending)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    opened.close()
    opened = open_log(tmp_path, "bank", "main-1")
    log = opened.log(MAIN_INSTANCE)
    assert log.dropped_bytes > 9000
    assert list(log.recover().records) == [encode(Note("x" * 100))]
    opened.close()


# ---------------------------------------------------------------------- whose folder it is
def open_main(folder: Path) -> None:
    """Start and end a process that opens its log too."""
    opened = open_log(folder, "bank", "main-1")
    try:
        opened.log(MAIN_INSTANCE)
    finally:
        opened.close()


class DiskOfAnotherUser(FastDisk):
    """Everything on it belongs to somebody else."""

    def geteuid(self) -> int:
        return os.geteuid() + 1


def test_a_folder_of_another_owner_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(tmp_path / "main-1")
    monkeypatch.setattr(disk, "os", DiskOfAnotherUser())
    with pytest.raises(UsageError) as caught:
        start(tmp_path / "main-1")
    assert str(caught.value) == (
        f"{tmp_path / 'main-1'}: belongs to the user {os.geteuid()}, and the process runs as {os.geteuid() + 1}; "
        f"run it as its owner, or name another log_directory"
    )


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
@pytest.mark.parametrize("which", ["main-1", "main-1/main", "_end.main-1"])
def test_a_folder_that_others_can_write_to_is_refused(which: str, mode: int, tmp_path: Path) -> None:
    open_main(tmp_path / "main-1")
    (tmp_path / which).chmod(mode)
    with pytest.raises(UsageError) as caught:
        open_main(tmp_path / "main-1")
    assert str(caught.value) == (
        f"{tmp_path / which}: can be written by others (mode {mode:o}); chmod go-w {tmp_path / which}"
    )
    (tmp_path / which).chmod(mode & ~0o022)
    open_main(tmp_path / "main-1")


def test_a_folder_that_others_can_replace_is_refused(tmp_path: Path) -> None:
    start(tmp_path / "main-1")
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match=f"main-1: can be replaced by others; chmod o-w {tmp_path}"):
        start(tmp_path / "main-1")
    tmp_path.chmod(0o1777)
    assert start(tmp_path / "main-1") == 1, "as in /tmp: only owners replace things"


def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    start(tmp_path / "elsewhere")
    (tmp_path / "main-1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="main-1: is a link or a file; a log is a folder of its own"):
        start(tmp_path / "main-1")


@pytest.mark.parametrize("name", ["main-1/lock", "main-1/identity.json", "main-1/main/checkpoint", "_end.main-1/main"])
def test_a_link_in_the_place_of_a_file_is_not_followed(name: str, tmp_path: Path) -> None:
    open_main(tmp_path / "main-1")
    target = tmp_path / "target"
    target.write_bytes(b"something of mine")
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to(target)
    with pytest.raises(UsageError) as caught:
        open_main(tmp_path / "main-1")
    assert str(caught.value) == (
        f"{tmp_path / name}: is a link, which a log does not follow; put the file itself there"
    )
    assert target.read_bytes() == b"something of mine"


def test_a_link_in_the_place_of_the_last_segment_is_not_followed(tmp_path: Path) -> None:
    opened = open_log(tmp_path / "main-1", "bank", "main-1")
    opened.log(MAIN_INSTANCE)
    target = tmp_path / "target"
    target.write_bytes(b"something of mine")
    segment_path(tmp_path / "main-1" / "main", 0).symlink_to(target)
    with pytest.raises(UsageError, match="is a link, which a log does not follow"):
        opened.log(MAIN_INSTANCE)
    opened.close()
    assert target.read_bytes() == b"something of mine"
