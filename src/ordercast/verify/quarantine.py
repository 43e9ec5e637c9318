"""Rows that do not fit the schema, set aside with the reason, so that the rest of a trace can still be judged.

    with sift(gather, "trace", "set-aside") as sifted:
        ...                                     # sifted.trace: without them

`set-aside/rows.jsonl` then has one object for each: the file, the row (of a JSON file: the line), the reason, and the
row itself. A file that cannot be read at all, or whose columns have other types, is set aside whole: one object without
a row.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ordercast.core.errors import UsageError
from ordercast.trace.conform import conform, conform_column
from ordercast.trace.json_lines import Event
from ordercast.trace.pieces import Gather, Trace, find_trace
from ordercast.trace.read import event_files, read_runs
from ordercast.trace.schema import COLUMNS, EVENTS, KINDS, KINDS_WITH_MESSAGE, REQUIRED
from ordercast.trace.write import make_hidden

ROWS_NAME = "rows.jsonl"

_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_OUTCOME = pa.schema([("file", pa.string()), ("kept", pa.string()), ("rows", pa.int64()), ("files", pa.int64())])


@dataclass(frozen=True)
class Sifted:
    """What is left, and how much is not."""

    trace: Trace
    rows: int
    files: int
    """Files that were set aside whole."""


@contextlib.contextmanager
def sift(gather: Gather, folder: str | Path, quarantine: str | Path) -> Iterator[Sifted]:
    """The trace without what does not fit it. Cleaned copies of files last as long as the block."""
    target = Path(quarantine)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target}: exists already; remove it or choose another folder")
    runs, files = read_runs(folder), [str(file.resolve()) for file in event_files(Path(folder))]
    # Workers have working folders of their own.
    hidden = make_hidden(target).resolve()
    try:
        (hidden / "runs.json").write_bytes(msgspec.json.encode([run.run for run in runs]))
        pieces = [msgspec.json.encode((number, file, str(hidden))) for number, file in enumerate(files)]
        rows = gather(pieces, _sift_file, _OUTCOME).to_pylist()
        kept = {row["file"]: row["kept"] for row in rows}
        left = [kept[file] for file in files if kept[file] is not None]
        if not left:
            raise UsageError(f"{folder}: no file of it is readable; nothing is left to judge")
        trace = find_trace(gather, folder, left)
        _publish(hidden, target)
        yield Sifted(trace, sum(row["rows"] for row in rows), sum(row["files"] for row in rows))
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _publish(hidden: Path, target: Path) -> None:
    """The rows that were set aside, in the order of the files; nothing at all when there are none."""
    parts = sorted(hidden.glob("aside-*.jsonl"))
    if not parts:
        return
    whole = hidden / "whole"
    whole.mkdir()
    with (whole / ROWS_NAME).open("wb") as output:
        for part in parts:
            output.write(part.read_bytes())
    whole.rename(target)


# ---------------------------------------------------------------------- on a worker
def _sift_file(piece: bytes) -> Iterator[pa.RecordBatch]:
    number, file, hidden = msgspec.json.decode(piece, type=tuple[int, str, str])
    known = set(msgspec.json.decode((Path(hidden) / "runs.json").read_bytes(), type=list[str]))
    aside: list[dict[str, Any]] = []
    kept: str | None = file
    whole_files = 0
    try:
        if file.endswith(".jsonl"):
            table, rows, aside = _decode_good_lines(file)
        else:
            table = _fit_types(file, aside)
            rows = table.column(_ROW).to_numpy()
            table = table.drop_columns([_ROW])
        good, more = _good_rows(table, rows, known, file)
        aside += more
        if aside:
            clean = Path(hidden) / f"clean-{number:05d}.parquet"
            pq.write_table(conform(good, file), clean, compression="zstd")
            kept = str(clean)
    except UsageError as error:
        reason = str(error).removeprefix(f"{file}: ")
        aside, kept, whole_files = [{"file": file, "row": None, "reason": reason}], None, 1
    if aside:
        lines = sorted(aside, key=lambda entry: entry["row"] or 0)
        text = "".join(json.dumps(entry, ensure_ascii=False, default=str) + "\n" for entry in lines)
        (Path(hidden) / f"aside-{number:05d}.jsonl").write_text(text)
    rows_aside = len(aside) - whole_files
    yield pa.RecordBatch.from_pylist(
        [{"file": file, "kept": kept, "rows": rows_aside, "files": whole_files}], schema=_OUTCOME
    )


_ROW = "\0row"


def _decode_good_lines(file: str) -> tuple[pa.Table, npt.NDArray[np.int64], list[dict[str, Any]]]:
    decoder = msgspec.json.Decoder(Event)
    events: list[Event] = []
    numbers: list[int] = []
    aside: list[dict[str, Any]] = []
    try:
        lines = Path(file).read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror or error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = decoder.decode(line)
            reason = _number_out_of_range(event)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            reason = str(error)
        if reason is None:
            events.append(event)
            numbers.append(number)
        else:
            aside.append({"file": file, "row": number, "reason": reason, "line": line.decode(errors="replace")})
    columns = [pa.array([getattr(event, field.name) for event in events], field.type) for field in EVENTS]
    return pa.table(columns, schema=EVENTS), np.array(numbers, dtype=np.int64), aside


def _number_out_of_range(event: Event) -> str | None:
    for name, kind in COLUMNS.items():
        low, high = _RANGES.get(kind.removeprefix("list<").removesuffix(">"), (None, None))
        value = getattr(event, name)
        if low is None or high is None or value is None:
            continue
        for number in value if isinstance(value, list) else [value]:
            if not low <= number <= high:
                return f"{name} {number} does not fit {COLUMNS[name]}"
    return None


def _fit_types(file: str, aside: list[dict[str, Any]]) -> pa.Table:
    """The file with the schema's types, and each row's number; rows with numbers out of range are left out."""
    try:
        with pq.ParquetFile(file) as parquet:
            table = parquet.read()
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{file}: is not a readable Parquet file, cut short perhaps: {reason}") from error
    conform(table.schema.empty_table(), file)
    fits = np.ones(len(table), dtype=bool)
    for name in set(table.schema.names) & set(COLUMNS):
        column, wanted = table.column(name), EVENTS.field(name).type
        if not pa.types.is_integer(column.type) or column.type == wanted:
            continue
        loose = column.cast(wanted, safe=False).cast(column.type, safe=False)
        wrong = pc.fill_null(pc.not_equal(loose, column), False).to_numpy() & fits
        reason = f"{name} does not fit {COLUMNS[name]}"
        aside += [_entry(file, row + 1, reason, table.slice(row, 1)) for row in np.flatnonzero(wrong).tolist()]
        fits &= ~wrong
    numbers = pa.array(np.flatnonzero(fits) + 1)
    table = table.filter(pa.array(fits))
    return pa.table([*(conform_column(table, name, file) for name in COLUMNS), numbers], names=[*COLUMNS, _ROW])


def _good_rows(
    table: pa.Table, rows: npt.NDArray[np.int64], known: set[str], file: str
) -> tuple[pa.Table, list[dict[str, Any]]]:
    """The rows that mean something, and the others with the reason why not."""
    reasons = np.full(len(table), "", dtype=object)

    def refuse(wrong: npt.NDArray[np.bool_], reason: str) -> None:
        reasons[wrong & (reasons == "")] = reason

    def truth(values: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        result: npt.NDArray[np.bool_] = pc.fill_null(values, False).to_numpy()
        return result

    for name in REQUIRED:
        refuse(truth(table.column(name).is_null()), f"no {name!r}, which every event needs")
    for kind in pc.unique(table.column("kind")).to_pylist():
        if kind is not None and kind not in KINDS:
            refuse(truth(pc.equal(table.column("kind"), kind)), f"unknown kind {kind!r}")
    refuse(~truth(pc.is_finite(table.column("time"))), "the time is not finite")
    about_one = truth(pc.is_in(table.column("kind"), value_set=pa.array(KINDS_WITH_MESSAGE)))
    refuse(about_one & truth(table.column("message").is_null()), "no 'message': name the message it is about")
    for run in pc.unique(table.column("run")).to_pylist():
        if run is not None and run not in known:
            refuse(truth(pc.equal(table.column("run"), run)), f"run {run!r} is not described in runs.jsonl")
    wrong = reasons != ""
    aside = [_entry(file, int(rows[at]), str(reasons[at]), table.slice(at, 1)) for at in np.flatnonzero(wrong).tolist()]
    return table.filter(pa.array(~wrong)), aside


def _entry(file: str, row: int, reason: str, event: pa.Table) -> dict[str, Any]:
    values = {name: value for name, value in event.to_pylist()[0].items() if value is not None and name in COLUMNS}
    return {"file": file, "row": row, "reason": reason, "event": values}
