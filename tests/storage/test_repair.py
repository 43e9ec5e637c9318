"""A log that is lost is set aside, and the next one counts for nothing until it has everything again."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from ordercast.core import MAIN_INSTANCE, Record, UsageError
from ordercast.storage.folder import IDENTITY, begin_anew, ends_folder, open_log

NOW = 1_800_000_000


class Note(Record, frozen=True):
    number: int


def used(folder: Path, records: int, settle: bool = False) -> tuple[int, int, bool, int]:
    """Start a process and let it log; its incarnation, that with which the log began, whether it is lost, and how many
    records it found."""
    with closing(open_log(folder, "bank", "a")) as opened:
        log = opened.log(MAIN_INSTANCE)
        found = log.position
        assert len(log.recover().records) == found
        for number in range(records):
            log.append(Note(number))
        log.flush()
        lost = opened.lost
        if settle:
            opened.settle()
        return opened.incarnation, opened.began, lost, found


def test_each_start_after_a_repair_begins_with_an_empty_log_until_everything_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    used(folder, 5)
    begin_anew(folder, "bank", "a", NOW)
    assert used(folder, 3) == (NOW, NOW, True, 0)
    assert used(folder, 4) == (NOW + 1, NOW + 1, True, 0)
    assert used(folder, 4, settle=True) == (NOW + 2, NOW + 2, True, 0)
    assert used(folder, 1) == (NOW + 3, NOW + 2, False, 4)
    assert used(folder, 0) == (NOW + 4, NOW + 2, False, 5)


def test_nothing_is_deleted_and_what_was_set_aside_can_be_put_back(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    used(folder, 5)
    aside = begin_anew(folder, "bank", "a", NOW)
    assert aside == tmp_path / f"_lost.a.{NOW}"
    used(folder, 1)
    again = begin_anew(folder, "bank", "a", NOW)
    assert again == tmp_path / f"_lost.a.{NOW + 2}"
    for path in (folder, ends_folder(folder)):
        if path.exists():
            path.rename(tmp_path / f"away {path.name}")
        (aside / path.name).rename(path)
    assert used(folder, 0) == (1, 0, False, 5)


def test_an_incarnation_is_larger_than_any_that_is_known(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    begin_anew(folder, "bank", "a", NOW)
    assert used(folder, 0)[0] == NOW
    # In the same second, and with a clock that was set back.
    begin_anew(folder, "bank", "a", NOW)
    assert used(folder, 0)[0] == NOW + 2
    begin_anew(folder, "bank", "a", 0)
    assert used(folder, 0)[0] == NOW + 4


def test_a_process_that_has_no_folder_gets_one(tmp_path: Path) -> None:
    assert begin_anew(tmp_path / "log" / "a", "bank", "a", NOW) is None
    assert used(tmp_path / "log" / "a", 1) == (NOW, NOW, True, 0)


@pytest.mark.parametrize("damage", ["identity", "no identity", "end", "no end", "segment", "no folder"])
def test_damage_of_any_kind_can_be_repaired(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "a"
    used(folder, 5)
    path = {
        "identity": folder / IDENTITY,
        "end": ends_folder(folder) / MAIN_INSTANCE,
        "segment": folder / MAIN_INSTANCE / f"{0:020d}.log",
    }.get(damage)
    if path is not None:
        path.write_bytes(b"garbage")
    elif damage == "no identity":
        (folder / IDENTITY).unlink()
    elif damage == "no end":
        (ends_folder(folder) / MAIN_INSTANCE).unlink()
    else:
        folder.rename(tmp_path / "away")
    with pytest.raises(UsageError):
        used(folder, 0)
    assert begin_anew(folder, "bank", "a", NOW) is not None
    assert used(folder, 1) == (NOW, NOW, True, 0)


def test_a_running_process_and_somebody_elses_folder_are_left_alone(tmp_path: Path) -> None:
    opened = open_log(tmp_path / "a", "bank", "a")
    with pytest.raises(UsageError, match="is in use by another process"):
        begin_anew(tmp_path / "a", "bank", "a", NOW)
    opened.close()
    with pytest.raises(UsageError, match="belongs to the process 'a' of the cluster 'bank'"):
        begin_anew(tmp_path / "a", "bank", "b", NOW)
    assert msgspec.json.decode((tmp_path / "a" / IDENTITY).read_bytes())["starts"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
