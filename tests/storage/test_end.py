"""A log that has lost its end is not taken for a shorter one: it is refused, and the line says what is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ordercast.core import MAIN_INSTANCE, Record, UsageError, encode
from ordercast.storage import disk
from ordercast.storage.end import EndFile, LogEnd, read_end
from ordercast.storage.folder import ends_folder, open_log
from ordercast.storage.framing import frame
from ordercast.storage.segments import list_segments, segment_path
from tests.storage.crashing_disk import FastDisk
from tests.support import run_python

COUNT = 40
SEGMENT_BYTES = 256


class Note(Record, frozen=True):
    number: int


def run(folder: Path, count: int = COUNT) -> int:
    """A life of a process that logs so many records, each in a commit of its own; where its log began."""
    opened = open_log(folder, "bank", "main-1", segment_bytes=SEGMENT_BYTES)
    try:
        log = opened.log(MAIN_INSTANCE)
    except UsageError:
        opened.close()
        raise
    begin = log.position
    assert list(log.recover().records) == [encode(Note(number)) for number in range(begin)]
    for number in range(begin, begin + count):
        log.append(Note(number))
        log.flush()
    opened.close()
    return begin


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.parent.rglob("*") if path.is_file() and path.name != "lock"}


def refused(folder: Path) -> str:
    """The line with which a start is refused; but for the number of starts, nothing is changed by the attempt."""
    before = contents(folder)
    with pytest.raises(UsageError) as caught:
        run(folder)
    after = contents(folder)
    for known in (before, after):
        known.pop(folder / "identity.json", None)
    assert after == before
    text = str(caught.value)
    assert "\n" not in text
    assert "see docs/log.md, 'When a log is refused'" in text
    return text


def last_segment(folder: Path) -> Path:
    main = folder / MAIN_INSTANCE
    return segment_path(main, list_segments(main)[-1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "log" / "main-1"


def lose_the_last_segment(folder: Path) -> None:
    last_segment(folder).unlink()


def lose_the_last_three_segments(folder: Path) -> None:
    for _ in range(3):
        lose_the_last_segment(folder)


def cut_the_tail(folder: Path) -> None:
    path = last_segment(folder)
    path.write_bytes(path.read_bytes()[: -len(encode(Note(COUNT))) - 8])


def zero_the_tail(folder: Path) -> None:
    path = last_segment(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:-70] + bytes(70))


def empty_the_last_segment(folder: Path) -> None:
    last_segment(folder).write_bytes(b"")


def lose_the_log(folder: Path) -> None:
    shutil.rmtree(folder / MAIN_INSTANCE)


@pytest.mark.parametrize(
    "lose",
    [
        lose_the_last_segment,
        lose_the_last_three_segments,
        cut_the_tail,
        zero_the_tail,
        empty_the_last_segment,
        lose_the_log,
    ],
)
def test_a_log_that_lost_its_end_is_refused_and_told_which_records_are_missing(
    lose: Callable[[Path], None], folder: Path
) -> None:
    run(folder)
    lose(folder)
    assert f"to {COUNT - 1} are missing from the log" in refused(folder)
    assert f"to {COUNT - 1} are missing from the log" in refused(folder), "however often one tries"


def test_a_tail_that_is_cut_between_any_two_commits_is_refused(folder: Path) -> None:
    run(folder)
    path = last_segment(folder)
    whole = path.read_bytes()
    first = int(path.stem)
    cuts = [at - 8 for at in range(len(whole)) if whole.startswith(b"\xc1ordercast", at)]
    assert len(cuts) > 1
    for index, cut in enumerate(cuts):
        path.write_bytes(whole[:cut])
        assert f"the records {first + index} to {COUNT - 1} are missing from the log" in refused(folder)
    path.write_bytes(whole)
    assert run(folder) == COUNT, "with all of it back, it goes on"


@pytest.mark.parametrize("what", [MAIN_INSTANCE, "."])
def test_an_older_copy_of_the_folder_is_refused_though_it_is_whole(what: str, folder: Path, tmp_path: Path) -> None:
    """The copy is made while the process runs: its next start would be a new incarnation, which nobody refuses."""
    opened = open_log(folder, "bank", "main-1", segment_bytes=SEGMENT_BYTES)
    log = opened.log(MAIN_INSTANCE)
    for number in range(COUNT):
        if number == 15:
            shutil.copytree(folder / what, tmp_path / "backup")
        log.append(Note(number))
        log.flush()
    opened.close()
    shutil.rmtree(folder / what)
    shutil.copytree(tmp_path / "backup", folder / what)
    assert f"the records 15 to {COUNT - 1} are missing from the log" in refused(folder)


def test_an_older_copy_that_lacks_no_record_is_refused_for_its_starts(folder: Path, tmp_path: Path) -> None:
    run(folder)
    shutil.copytree(folder, tmp_path / "backup")
    for _ in range(2):
        run(folder, 0)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    for _ in range(4):
        assert "was started 1 times, but" in refused(folder)


def test_a_folder_that_is_gone_is_refused(folder: Path) -> None:
    run(folder)
    shutil.rmtree(folder)
    assert f"has no identity.json and no log, but {ends_folder(folder)} says that 'main' had 40 records" in refused(
        folder
    )


def test_an_identity_that_is_gone_is_refused_though_nothing_was_logged(folder: Path) -> None:
    run(folder, 0)
    (folder / "identity.json").unlink()
    assert "has no identity.json" in refused(folder)


def test_a_log_whose_end_is_not_known_any_more_is_refused(folder: Path) -> None:
    run(folder)
    shutil.rmtree(ends_folder(folder))
    assert f"{ends_folder(folder) / MAIN_INSTANCE}: is missing, and with it where the log of {folder} ends" in refused(
        folder
    )


def test_a_killed_process_has_noted_the_end_of_its_last_commit(folder: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from ordercast.core import Record\n"
        "from ordercast.storage.folder import open_log\n"
        "class Note(Record, frozen=True):\n    number: int\n"
        "log = open_log(Path(sys.argv[1]), 'bank', 'main-1').log('main')\n"
        "for number in range(9):\n    log.append(Note(number)); log.flush()\n"
        "log.append(Note(9)); os.kill(os.getpid(), 9)"
    )
    assert run_python(code, str(folder)).returncode == -9
    path = last_segment(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b"\xc1ordercast") - 8])
    assert "the records 8 to 8 are missing from the log" in refused(folder)
    path.write_bytes(whole + b"torn")
    assert run(folder) == 9, "what the crash tore was promised to nobody"


def test_a_log_of_an_earlier_version_is_taken_and_has_an_end_from_then_on(folder: Path) -> None:
    run(folder)
    shutil.rmtree(ends_folder(folder))
    identity = msgspec.json.decode((folder / "identity.json").read_bytes())
    del identity["logs"]
    (folder / "identity.json").write_bytes(msgspec.json.encode(identity))
    assert run(folder, 0) == COUNT
    lose_the_last_segment(folder)
    assert "are missing from the log" in refused(folder)


def test_a_crash_before_the_log_was_begun_is_no_loss(folder: Path) -> None:
    open_log(folder, "bank", "main-1").close()
    assert run(folder) == 0


def test_of_an_end_that_was_torn_the_other_half_counts(tmp_path: Path) -> None:
    end = EndFile(tmp_path / "end", 5, starts=2)
    for position in (6, 7, 8):
        end.note(position, sync=False)
    end.close()
    path = tmp_path / "end"
    whole = path.read_bytes()
    assert read_end(path) == LogEnd(8, 2)
    path.write_bytes(whole[:512] + bytes(512))
    assert read_end(path) == LogEnd(7, 2)
    path.write_bytes(bytes(512) + whole[512:])
    assert read_end(path) == LogEnd(8, 2)
    for damaged in (bytes(1024), b"", whole[:10]):
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match="end: is damaged, and with it the end of the log"):
            read_end(path)


def test_an_end_of_a_later_version_is_refused(tmp_path: Path) -> None:
    EndFile(tmp_path / "end", 5, starts=2).close()
    (tmp_path / "end").write_bytes(frame(b"\x02 something else"))
    with pytest.raises(UsageError, match="newer version of ordercast; install that one"):
        read_end(tmp_path / "end")


def test_commits_do_not_pay_for_a_second_sync_but_once_in_a_while(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    class CountingDisk(FastDisk):
        def fdatasync(self, descriptor: int) -> None:
            synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(disk, "os", CountingDisk())
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    opened = open_log(folder, "bank", "main-1")
    log = opened.log(MAIN_INSTANCE)
    for number in range(100):
        log.append(Note(number))
        log.flush()
        now[0] += 0.1
    of_the_end = [path for path in synced if "/_end." in path]
    assert len(synced) - len(of_the_end) == 100
    assert len(of_the_end) == 10, "once for the segment that is begun, then every second"
    opened.close()
    assert "/_end." in synced[-1], "and when the log is closed"
