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

_ARROW = "parquet-cpp-arrow"
"""Writers that call themselves so, the project's own among them, write no text twice into a dictionary. Others may, and
to find that out takes a seventh of the time of judging an order."""


class EventFile:
    """One file of events of either format. Its columns conform to the schema, or are refused."""

    def __init__(self, file: str | Path) -> None:
        self.file = Path(file)
        self._columns: dict[str, pa.ChunkedArray] = {}
        self._doubtful: list[str] = []
        self.exact = False
        """Whether the columns have exactly the types of the schema, so that Spark's own reader can take them."""
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
            plain = metadata.schema.to_arrow_schema()
            coded = [name for name in _TEXTS if name in plain.names]
            self._parquet = pq.ParquetFile(self.file, metadata=metadata, read_dictionary=coded)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.file, error) from error
        schema = self._parquet.schema_arrow
        # Says what is wrong with the columns, before any is read.
        conform(schema.empty_table(), str(self.file))
        self.names = set(schema.names) & set(COLUMNS)
        self.exact = all(plain.field(name).type == EVENTS.field(name).type for name in self.names)
        # Whether numbers fit a narrower type shows only when they are read.
        self._doubtful = [
            name
            for name in sorted(self.names)
            if pa.types.is_integer(schema.field(name).type) and schema.field(name).type != EVENTS.field(name).type
        ]
        self.length = metadata.num_rows
        self._by_arrow = str(metadata.created_by).startswith(_ARROW)

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
            coded = column.combine_chunks()
            return pa.chunked_array([coded if self._by_arrow else _distinct(coded)])
        conformed = conform_column(table, name, str(self.file))
        return conformed if isinstance(conformed, pa.ChunkedArray) else pa.chunked_array([conformed])

    def count_runs(self) -> dict[str, int]:
        """Run -> number of its rows; the values of other columns have not been looked at."""
        run = self._runs()
        if run.null_count:
            _ = self.rows_of_runs  # which says where the null stands
        counts = np.bincount(run.indices.to_numpy(), minlength=len(run.dictionary)).tolist()
        return {name: count for name, count in zip(run.dictionary.to_pylist(), counts, strict=True) if count}

    def _runs(self) -> pa.DictionaryArray:
        run = self.column("run").combine_chunks()
        return run if pa.types.is_dictionary(run.type) else run.dictionary_encode()

    @cached_property
    def rows_of_runs(self) -> dict[str, slice | pa.Array]:
        """Run -> where its rows stand; the values of every row have been checked."""
        for name in self._doubtful:
            self.column(name)
        wanted = [*REQUIRED, "message"]
        check_values(pa.table([self.column(name) for name in wanted], names=wanted), str(self.file))
        run = self._runs()
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
    codes, values = array.indices, array.dictionary
    absent = codes.is_null().to_numpy(zero_copy_only=False) if codes.null_count else None
    # Null has a code of its own here, the last.
    numbers = (codes if absent is None else codes.fill_null(len(values))).to_numpy(zero_copy_only=False)
    first = _first_rows(numbers, len(values) + 1)[: len(values)]
    appearing = numbers[np.sort(first[first < len(numbers)])]
    if len(appearing) == len(values) and (appearing == np.arange(len(values))).all():
        return array
    place = np.zeros(len(values) + 1, dtype=np.int32)
    place[appearing] = np.arange(len(appearing), dtype=np.int32)
    anew = pa.array(place.take(numbers), mask=absent)
    return pa.DictionaryArray.from_arrays(anew, values.take(pa.array(appearing)))


_FEW = 16
"""So many codes are sooner found one by one."""


def _first_rows(numbers: np.ndarray, count: int) -> np.ndarray:
    """Of each number below `count` where it appears first; behind the end where it does not."""
    first = np.full(count, len(numbers), dtype=np.int32)
    if not len(numbers):
        return first
    if count > _FEW:
        np.minimum.at(first, numbers.astype(np.intp), np.arange(len(numbers), dtype=np.int32))
        return first
    for number in range(count):
        found = numbers == number
        row = int(found.argmax())
        if found[row]:
            first[number] = row
    return first


def _distinct(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same with every text once in its dictionary, which a file is free to break."""
    if len(pc.unique(array.dictionary)) == len(array.dictionary):
        return array
    return array.dictionary.take(array.indices).dictionary_encode()


def _is_coded_text(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type)


def _unreadable(file: Path, error: Exception) -> UsageError:
    reason = " ".join(str(error).split())
    return UsageError(f"{file}: is not a readable Parquet file, cut short perhaps: {reason}")
