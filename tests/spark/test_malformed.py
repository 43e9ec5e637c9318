"""Traces that are not: refused in one line, or set aside row by row."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ordercast.trace import EVENTS, Run
from tests.check.build import events
from tests.spark.traces import by_hand, refused, verify_json, write_runs

pytestmark = pytest.mark.usefixtures("place")

TEXT = "a multicast m g\na deliver m\nb deliver m"
DESCRIBED = Run("run", groups={"g": ["a", "b"]}, guarantees=["integrity", "no-duplication"])


def parquet(folder: Path, table: pa.Table, *others: pa.Table) -> Path:
    write_runs(folder, [DESCRIBED])
    (folder / "events").mkdir()
    for number, part in enumerate([table, *others]):
        pq.write_table(part, folder / "events" / f"part-{number:05d}.parquet")
    return folder


def json_lines(folder: Path, *lines: str) -> Path:
    write_runs(folder, [DESCRIBED])
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def row(**changes: Any) -> dict[str, Any]:
    plain = {"run": "run", "site": "b", "seq": 9, "time": 4.0, "kind": "deliver", "message": "m"}
    return {**plain, **changes}


def with_column(name: str, values: pa.Array) -> pa.Table:
    table = events(TEXT)
    return table.set_column(table.schema.get_field_index(name), name, values)


def empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def file(folder: Path) -> Path:
    folder.write_text("")
    return folder


def without_events(folder: Path) -> Path:
    write_runs(folder, [DESCRIBED])
    return folder


def truncated(folder: Path) -> Path:
    file = parquet(folder, events(TEXT)) / "events" / "part-00000.parquet"
    file.write_bytes(file.read_bytes()[:-40])
    return folder


def leading_nowhere(folder: Path) -> Path:
    """Nobody can open it, not even root."""
    file = parquet(folder, events(TEXT)) / "events" / "part-00000.parquet"
    file.unlink()
    file.symlink_to(folder / "gone")
    return folder


def damaged_inside(folder: Path) -> Path:
    """The end of the file, which is read first, is whole; a page of values is not."""
    file = parquet(folder, events(TEXT)) / "events" / "part-00000.parquet"
    content = bytearray(file.read_bytes())
    content[4:60] = b"\xff" * 56
    file.write_bytes(content)
    return folder


MALFORMED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no folder": (lambda folder: folder, "no such folder"),
    "an empty folder": (empty, "runs.jsonl"),
    "a file": (file, "a trace is a folder"),
    "no events": (without_events, "neither events.jsonl nor"),
    "a missing column": (lambda folder: parquet(folder, events(TEXT).drop_columns(["site"])), "'site' is missing"),
    "a misspelt column": (
        lambda folder: parquet(folder, events(TEXT).rename_columns(["run", "sites", *EVENTS.names[2:]])),
        "is it 'sites' there?",
    ),
    "a column of another type": (
        lambda folder: parquet(folder, with_column("time", pa.array(["1", "2", "3"]))),
        "column 'time' has type string",
    ),
    "a number that is too large": (
        lambda folder: parquet(folder, with_column("size", pa.array([1, 2, 2**40]))),
        "column 'size'",
    ),
    "an unknown kind": (
        lambda folder: parquet(folder, with_column("kind", pa.array(["multicast", "deliver", "delivers"]))),
        "did you mean 'deliver'?",
    ),
    "a time that is none": (
        lambda folder: parquet(folder, with_column("time", pa.array([1.0, float("nan"), 2.0]))),
        "row 2 has the time nan",
    ),
    "a required value that is null": (
        lambda folder: parquet(folder, with_column("run", pa.array(["run", None, "run"]))),
        "row 2 has no 'run'",
    ),
    "a delivery of nothing": (
        lambda folder: parquet(folder, with_column("message", pa.array(["m", "m", None]))),
        "without 'message'",
    ),
    "a run that nobody described": (
        lambda folder: parquet(folder, with_column("run", pa.array(["run", "run", "other"]))),
        "run 'other', which runs.jsonl does not describe",
    ),
    "a Parquet file cut short": (truncated, "cut short"),
    "a file that cannot be opened": (leading_nowhere, "is not a readable Parquet file"),
    "a Parquet file damaged inside": (damaged_inside, "part-00000.parquet"),
    "broken JSON": (lambda folder: json_lines(folder, json.dumps(row()), '{"run": "run",'), "line 2"),
    "a line that is no event": (lambda folder: json_lines(folder, json.dumps(row(seq="0"))), "line 1"),
    "an unknown kind in JSON": (lambda folder: json_lines(folder, json.dumps(row(kind="x"))), "line 1"),
    "an unknown claim": (lambda folder: by_hand(folder, TEXT, claims=["acyclic"]), "nearest known one"),
}


@pytest.mark.parametrize(("make", "words"), MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_trace_is_refused_in_one_line(
    make: Callable[[Path], Path], words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line = refused(capfd, make(tmp_path / "trace"))
    assert line.startswith("ordercast verify: ")
    assert words in line
    assert "Traceback" not in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_an_unreadable_file_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = parquet(tmp_path / "trace", events(TEXT))
    (folder / "events" / "part-00000.parquet").chmod(0)
    assert "part-00000.parquet" in refused(capfd, folder)


def test_nothing_is_left_behind_by_a_refusal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = truncated(tmp_path / "trace")
    refused(capfd, folder, "--quarantine", tmp_path / "aside", "--report", tmp_path / "page")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["page", "trace"]
    assert list((tmp_path / "page").iterdir()) == []


def set_aside(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def test_rows_that_do_not_fit_are_set_aside_with_the_reason(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good = events(TEXT)
    changes: list[dict[str, Any]] = [
        {"kind": "delivers"},
        {"time": float("inf")},
        {"site": None},
        {"message": None},
        {"run": "other"},
        {"size": 2**40},
    ]
    schema = good.schema.set(good.schema.get_field_index("size"), pa.field("size", pa.int64()))
    bad = pa.Table.from_pylist([row(**change) for change in changes], schema=schema)
    folder = parquet(tmp_path / "trace", pa.concat_tables([good.cast(schema), bad, good.cast(schema).slice(2)]), good)
    code, document, errors = verify_json(capfd, folder, "--quarantine", tmp_path / "aside")
    assert errors == f"note: 6 rows set aside in {tmp_path}/aside/rows.jsonl; verdicts are without them\n"
    entries = set_aside(tmp_path / "aside")
    assert [entry["row"] for entry in entries] == [4, 5, 6, 7, 8, 9]
    assert {entry["file"] for entry in entries} == {str(folder / "events" / "part-00000.parquet")}
    reasons = ["unknown kind", "not finite", "no 'site'", "no 'message'", "not described", "size does not fit int32"]
    for entry, reason in zip(entries, reasons, strict=True):
        assert reason in entry["reason"]
    assert entries[0]["event"]["kind"] == "delivers"
    # All the good rows of both files were judged: each message was delivered twice at each site, once thrice.
    assert code == 1
    assert document["runs"]["run"]["integrity"]["verdict"] == "holds"
    assert document["runs"]["run"]["no-duplication"]["witnesses"] == 3
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["aside", "trace"]


def test_lines_that_do_not_fit_are_set_aside_as_they_stand(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sent = row(site="a", seq=0, time=1.0, kind="multicast", groups=["g"])
    lines = [
        json.dumps(sent),
        "{broken",
        json.dumps(row()),
        "",
        json.dumps(row(seq=2**70)),
        json.dumps(row(size=2**33)),
    ]
    folder = json_lines(tmp_path / "trace", *lines)
    code, document, _ = verify_json(capfd, folder, "--quarantine", tmp_path / "aside")
    assert code == 0
    assert document["runs"]["run"]["integrity"]["verdict"] == "holds"
    entries = set_aside(tmp_path / "aside")
    assert [(entry["row"], entry["line"]) for entry in entries] == [(2, lines[1]), (5, lines[4]), (6, lines[5])]


def test_a_file_that_cannot_be_read_is_set_aside_whole(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = parquet(tmp_path / "trace", events(TEXT), with_column("time", pa.array(["1", "2", "3"])))
    code, document, errors = verify_json(capfd, folder, "--quarantine", tmp_path / "aside")
    assert code == 0
    assert document["runs"]["run"]["integrity"]["verdict"] == "holds"
    assert "0 rows and 1 whole files set aside" in errors
    (entry,) = set_aside(tmp_path / "aside")
    assert entry["row"] is None
    assert "column 'time' has type string" in entry["reason"]


def test_where_everything_fits_nothing_is_set_aside(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = parquet(tmp_path / "trace", events(TEXT))
    code, _, errors = verify_json(capfd, folder, "--quarantine", tmp_path / "aside")
    assert (code, errors) == (0, "")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["trace"]


def test_a_quarantine_that_exists_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "aside").mkdir()
    (tmp_path / "aside" / "mine").write_text("")
    folder = parquet(tmp_path / "trace", events(TEXT))
    assert "exists already" in refused(capfd, folder, "--quarantine", tmp_path / "aside")
