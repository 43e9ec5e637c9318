"""Traces for the tests of this folder, and the command line in this process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ordercast.cli import main
from ordercast.trace import Run, write_trace
from ordercast.trace.write import Format
from tests.check.build import describe, events

Traced = tuple[Run, pa.Table]


def by_hand(folder: Path, text: str, groups: str = "g:a,b,c", claims: Sequence[str] = (), **more: Any) -> Path:
    """A trace of one run, called `run`, with rows as in tests/check/build.py."""
    form: Format = more.pop("form", "parquet")
    write_trace(folder, [(describe(groups, tuple(claims), **more), events(text))], form)
    return folder


def write_runs(folder: Path, runs: Iterable[Run]) -> None:
    """Only runs.jsonl."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runs.jsonl").write_bytes(b"".join(msgspec.json.encode(run) + b"\n" for run in runs))


def write_scattered(folder: Path, traced: Sequence[Traced], files: int) -> Path:
    """Every run is spread over all files, and sorted nowhere: what other tools may leave."""
    write_runs(folder, (run for run, _ in traced))
    (folder / "events").mkdir()
    for number in range(files):
        parts = []
        for _, table in traced:
            rows = [row for row in range(len(table)) if row % files == number]
            parts.append(table.take(pa.array(rows[::-1], pa.int64())))
        pq.write_table(pa.concat_tables(parts), folder / "events" / f"any-{number}.parquet")
    return folder


def write_per_site(folder: Path, traced: Sequence[Traced]) -> Path:
    """As a live cluster does: one trace a process, all with the same runs."""
    sites = sorted({site for _, table in traced for site in table.column("site").to_pylist()})
    for site in sites:
        own = [
            (run, table.filter(pa.array([name == site for name in table.column("site").to_pylist()], pa.bool_())))
            for run, table in traced
        ]
        write_trace(folder / site, own)
    return folder


def verify_json(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, dict[str, Any], str]:
    """Exit code, document and standard error of `ordercast verify … --json`."""
    capfd.readouterr()
    code = main(["verify", *map(str, arguments), "--json"])
    captured = capfd.readouterr()
    return code, json.loads(captured.out), captured.err


def refused(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line with which `ordercast verify …` refuses, with exit code 2 and nothing on standard output."""
    capfd.readouterr()
    code = main(["verify", *map(str, arguments)])
    captured = capfd.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.count("\n") == 1, captured.err
    return captured.err
