"""Events as the judges read them: a column is read from its file when somebody asks for it, and not before.

A judge of order looks at five of the 27 columns; reading the others would take most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ordercast.core.errors import UsageError
from ordercast.trace.conform import check_values, conform, conform_column
from ordercast.trace.json_lines import read_json_events
from ordercast.trace.schema import COLUMNS, EVENTS, REQUIRED

_TEXTS = [name for name, kind in COLUMNS.items() if kind == "string"]


class EventFile:
    """One file of events of either format. Its columns conform to the schema, or are refused."""

    def __init__(self, file: str | Path) -> None:
        self.file = Path(file)
        self._columns: dict[str, pa.ChunkedArray] = {}
        self._doubtful: list[str] = []
        if self.file.suffix == ".jsonl":
            table = read_json_events(self.file)
            self._columns.update(zip(table.schema.names, table.columns, strict=True))
            self.names = set(table.schema.names)
            self.length = len(table)
        else:
            self._open()

    def _open(self) -> None:
        try:
            # Texts are read as codes and a list of the distinct ones, which is what the judges make of them anyway.
            metadata = pq.read_metadata(self.file)
            present = set(metadata.schema.to_arrow_schema().names)
            coded = [name for name in _TEXTS if name in present]
            self._parquet = pq.ParquetFile(self.file, metadata=metadata, read_dictionary=coded)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.file, error) from error
        schema = self._parquet.schema_arrow
        # Says what is wrong with the columns, before any is read.
        conform(schema.empty_table(), str(self.file))
        self.names = set(schema.names) & set(COLUMNS)
        # Whether numbers fit a narrower type shows only when they are read.
        self._doubtful = [
            name
            for name in sorted(self.names)
            if pa.types.is_integer(schema.field(name).type) and schema.field(name).type != EVENTS.field(name).type
        ]
        self.length = self._parquet.metadata.num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        """A column; texts may be dictionary-encoded."""
        if name not in self._columns:
            self._columns[name] = self._read(name)
        return self._columns[name]

    def _read(self, name: str) -> pa.ChunkedArray:
        if name not in self.names:
            return pa.chunked_array([pa.nulls(self.length, EVENTS.field(name).type)])
        try:
            table = self._parquet.read(columns=[name])
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.file, error) from error
        column = table.column(name)
        if EVENTS.field(name).type == pa.string() and _is_coded_text(column.type):
            return column
        conformed = conform_column(table, name, str(self.file))
        return conformed if isinstance(conformed, pa.ChunkedArray) else pa.chunked_array([conformed])

    @cached_property
    def rows_of_runs(self) -> dict[str, slice | pa.Array]:
        """Run -> where its rows stand; the values of every row have been checked."""
        for name in self._doubtful:
            self.column(name)
        wanted = [*REQUIRED, "message"]
        check_values(pa.table([self.column(name) for name in wanted], names=wanted), str(self.file))
        run = self.column("run").combine_chunks()
        if not pa.types.is_dictionary(run.type):
            run = run.dictionary_encode()
        codes, names = run.indices.to_numpy(), run.dictionary.to_pylist()
        changes = np.flatnonzero(np.diff(codes)) + 1
        starts = [0, *changes.tolist()] if len(codes) else []
        ends = [*changes.tolist(), len(codes)]
        rows: dict[str, slice | pa.Array] = {}
        if len(set(codes[starts].tolist())) == len(starts):
            for start, end in zip(starts, ends, strict=False):
                rows[names[codes[start]]] = slice(start, end)
            return rows
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(names) + 1))
        for code, name in enumerate(names):
            if bounds[code] < bounds[code + 1]:
                rows[name] = pa.array(order[bounds[code] : bounds[code + 1]])
        return rows

    def column_of_run(self, name: str, run: str) -> pa.Array:
        """The run's part of a column."""
        column, rows = self.column(name), self.rows_of_runs[run]
        part = column.slice(rows.start, rows.stop - rows.start) if isinstance(rows, slice) else column.take(rows)
        return part.chunk(0) if part.num_chunks == 1 else part.combine_chunks()

    def length_of_run(self, run: str) -> int:
        """How many rows the run has here."""
        rows = self.rows_of_runs[run]
        return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


class RunEvents:
    """The events of one run. As much of a `pyarrow.Table` as the judges use, and a whole one on request."""

    def __init__(self, run: str, files: Sequence[EventFile], order: pa.Array | None = None) -> None:
        self._run = run
        self._files = files
        self._order = order
        self.length = sum(file.length_of_run(run) for file in files)
        present = {name for file in files for name in file.names}
        self.schema = pa.schema([field for field in EVENTS if field.name in present])

    def __len__(self) -> int:
        return self.length

    def column(self, name: str) -> pa.ChunkedArray:
        """A column, in the order of the files and their rows, or in the order taken."""
        parts = [file.column_of_run(name, self._run) for file in self._files]
        if len(parts) == 1:
            array = parts[0] if self._order is None else parts[0].take(self._order)
            return pa.chunked_array([tidy(array) if pa.types.is_dictionary(array.type) else array])
        kind = EVENTS.field(name).type
        column = pa.chunked_array([part.cast(kind) for part in parts], type=kind)
        return column if self._order is None else column.take(self._order)

    def take(self, order: pa.Array) -> RunEvents:
        """The same events in another order."""
        if self._order is not None:
            order = self._order.take(order)
        return RunEvents(self._run, self._files, order)

    def table(self, names: Sequence[str] = EVENTS.names) -> pa.Table:
        """These columns, as the schema has them."""
        columns = [self.column(name) for name in names]
        wanted = pa.schema([EVENTS.field(name) for name in names])
        return pa.table([column.cast(wanted.field(at).type) for at, column in enumerate(columns)], schema=wanted)


def tidy(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Coded anew, in the order in which the values appear here.

    The codes of a file count what other runs have, too: their sites would become sites of this run. And which of
    several witnesses is the first depends on the codes: it must not depend on what else is in the file.
    """
    coded = array.indices.dictionary_encode()
    values = array.dictionary.take(coded.dictionary)
    if len(pc.unique(values)) != len(values):
        return values.take(coded.indices).dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices, values)


def _is_coded_text(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type)


def _unreadable(file: Path, error: Exception) -> UsageError:
    reason = " ".join(str(error).split())
    return UsageError(f"{file}: is not a readable Parquet file, cut short perhaps: {reason}")
