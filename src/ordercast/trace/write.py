"""Write traces: whole or not at all, and byte for byte the same for the same runs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ordercast.core.errors import UsageError
from ordercast.trace.conform import conform
from ordercast.trace.json_lines import encode_events
from ordercast.trace.schema import COLUMNS, EVENTS, Run

Format = Literal["parquet", "jsonl"]

_ROWS_PER_FILE = 1 << 20
"""A part is closed with the run that brings it to this many rows: big enough to compress well, small enough that a
reader on a small machine holds one part with ease."""

_ROWS_PER_GROUP = 1 << 21
"""Each group of rows has its own lists of distinct texts, which a reader has to bring together: so a part is one group,
unless it is a single run of many millions of rows, of which readers want a share each."""

_DICTIONARY_BYTES_MAX = 1 << 26
"""The names of the messages of a whole group, 30 bytes each. Beyond that they are written out row by row, and whoever
wants them as codes has to look up each: with pyarrow's limit of 1 MiB that was most of the time of judging an order."""

_ENCODINGS = {
    "seq": "DELTA_BINARY_PACKED",
    "time": "BYTE_STREAM_SPLIT",
    "source_seq": "DELTA_BINARY_PACKED",
    "packet_id": "PLAIN",
    "order_key": "DELTA_BINARY_PACKED",
}
"""Columns in which hardly two rows are alike: a dictionary of their values would be as long as they are."""


def make_hidden(target: Path) -> Path:
    """A new folder beside the target, for what takes the target's name when it is whole. Readers do not look there."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror or error}") from error


class TraceWriter:
    """Writes one trace folder, run by run.

    Everything goes to a hidden folder beside the target, which takes the target's name when the writer is closed:
    whoever looks sees the whole trace or none. Leaving the `with` block by an exception leaves nothing behind.
    """

    def __init__(self, folder: str | Path, format: Format = "parquet") -> None:  # noqa: A002 - the word for it
        if format not in ("parquet", "jsonl"):
            raise UsageError(f"unknown trace format {format!r}: it is 'parquet' or 'jsonl'")
        self.folder = Path(folder)
        self._format = format
        self._runs: dict[str, Run] = {}
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._parts = 0
        self._check_target()
        self._hidden: Path | None = make_hidden(self.folder)

    def write(self, run: Run, events: pa.Table) -> None:
        """Add one run with all its events."""
        if self._hidden is None:
            raise UsageError(f"{self.folder}: the trace is closed; write all runs before closing it")
        if run.run in self._runs:
            raise UsageError(f"{self.folder}: run {run.run!r} was written already; each has its own name")
        table = sort_events(conform(events, f"run {run.run!r}"))
        names = table.column("run").unique().to_pylist()
        if names not in ([], [run.run]):
            other = next(name for name in names if name != run.run)
            raise UsageError(f"run {run.run!r}: it has events of run {other!r}; split the table by its column 'run'")
        self._runs[run.run] = run
        self._pending.append(table)
        self._pending_rows += len(table)
        if self._format == "parquet" and self._pending_rows >= _ROWS_PER_FILE:
            self._write_part(self._hidden)

    def close(self) -> None:
        """Finish the files and let the folder appear."""
        if self._hidden is None:
            return
        try:
            if self._format == "jsonl":
                self._write_json(self._hidden)
            elif self._pending_rows or not self._parts:
                self._write_part(self._hidden)
            encoder = msgspec.json.Encoder(order="deterministic")
            with (self._hidden / "runs.jsonl").open("wb") as file:
                for name in sorted(self._runs):
                    # The struct's own order of fields for the object, sorted keys inside it.
                    file.write(_encode_run(encoder, self._runs[name]) + b"\n")
            # mkdtemp makes it private; the trace gets the permissions of any other new folder.
            umask = os.umask(0)
            os.umask(umask)
            self._hidden.chmod(0o777 & ~umask)
            self._check_target()
            # Renaming onto an empty folder replaces it.
            os.rename(self._hidden, self.folder)
            self._hidden = None
        except OSError as error:
            raise UsageError(f"{self.folder}: cannot be written: {error.strerror or error}") from error
        finally:
            self.discard()

    def discard(self) -> None:
        """Forget what was written; does nothing after `close`."""
        if self._hidden is not None:
            shutil.rmtree(self._hidden, ignore_errors=True)
            self._hidden = None

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _check_target(self) -> None:
        try:
            taken = self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir()))
        except OSError as error:
            raise UsageError(f"{self.folder}: cannot be written: {error.strerror or error}") from error
        if taken:
            raise UsageError(f"{self.folder}: exists already; remove it or choose another folder")

    def _take_pending(self) -> list[pa.Table]:
        tables = sorted((table for table in self._pending if len(table)), key=lambda table: table["run"][0].as_py())
        self._pending = []
        self._pending_rows = 0
        return tables

    def _write_part(self, folder: Path) -> None:
        part = folder / "events" / f"part-{self._parts:05d}.parquet"
        part.parent.mkdir(exist_ok=True)
        tables = self._take_pending()
        # One chunk a column: the pages of the file must not depend on how the caller's tables were chunked.
        table = pa.concat_tables(tables).combine_chunks() if tables else EVENTS.empty_table()
        write_part(table, part)
        self._parts += 1

    def _write_json(self, folder: Path) -> None:
        with (folder / "events.jsonl").open("wb") as file:
            for table in self._take_pending():
                file.writelines(encode_events(table))


def write_part(table: pa.Table, file: Path) -> None:
    """One Parquet file of events, encoded for those who read a few columns and want texts as codes."""
    pq.write_table(
        table.replace_schema_metadata(None),
        file,
        compression="zstd",
        row_group_size=_ROWS_PER_GROUP,
        dictionary_pagesize_limit=_DICTIONARY_BYTES_MAX,
        use_dictionary=[_path(name) for name in table.schema.names if name not in _ENCODINGS],
        column_encoding={_path(name): _ENCODINGS[name] for name in table.schema.names if name in _ENCODINGS},
    )


def _path(name: str) -> str:
    """What Parquet calls the values of a column."""
    return f"{name}.list.element" if COLUMNS[name].startswith("list") else name


def write_trace(
    folder: str | Path,
    runs_with_tables: Iterable[tuple[Run, pa.Table]],
    format: Format = "parquet",  # noqa: A002
) -> None:
    """Write a trace folder with these runs and their events."""
    with TraceWriter(folder, format) as writer:
        for run, events in runs_with_tables:
            writer.write(run, events)


def sort_events(events: pa.Table) -> pa.Table:
    """The events of one run, by site and seq. Equal numbers at a site keep the order they came in."""
    sites = events.column("site").combine_chunks().dictionary_encode()
    names = sites.dictionary.to_pylist()
    rank = np.empty(len(names), dtype=np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    site = rank[sites.indices.to_numpy()]
    seq = events.column("seq").to_numpy()
    step = np.diff(site)
    if bool(((step > 0) | ((step == 0) & (np.diff(seq) >= 0))).all()):
        return events
    return events.take(pa.array(np.lexsort((seq, site))))


def _encode_run(encoder: msgspec.json.Encoder, run: Run) -> bytes:
    parts = (msgspec.json.encode(field) + b":" + encoder.encode(getattr(run, field)) for field in run.__struct_fields__)
    return b"{" + b",".join(parts) + b"}"
