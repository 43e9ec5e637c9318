"""Events as JSON lines, one object a line: for small traces, tests and cases written by hand. An absent key is null."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa

from ordercast.core.errors import UsageError
from ordercast.trace.conform import conform
from ordercast.trace.schema import COLUMNS, EVENTS, Event

Row = TypeVar("Row")


def encode_events(events: pa.Table) -> Iterator[bytes]:
    """The lines of a table that conforms to the schema, newline included."""
    encoder = msgspec.json.Encoder()
    columns = [events.column(name).to_pylist() for name in COLUMNS]
    for values in zip(*columns, strict=True):
        yield encoder.encode(Event(*values)) + b"\n"


def read_json_events(path: Path) -> pa.Table:
    """All events of one file; a line that cannot be understood is refused with its number."""
    return _as_table(decode_lines(path, Event), str(path))


def parse_json_events(lines: Iterable[bytes], where: str) -> pa.Table:
    """The same of lines that come from somewhere else."""
    return _as_table(_decode(lines, where, Event), where)


def _as_table(rows: Sequence[Event], where: str) -> pa.Table:
    try:
        columns = [pa.array([getattr(row, field.name) for row in rows], field.type) for field in EVENTS]
    except (pa.ArrowInvalid, OverflowError) as error:
        raise UsageError(f"{where}: a number is too large for its column: {error}") from error
    return conform(pa.table(columns, schema=EVENTS), where)


def decode_lines(path: Path, row_type: type[Row]) -> list[Row]:
    """One struct a line; blank lines are skipped."""
    try:
        with path.open("rb") as file:
            return _decode(file, str(path), row_type)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error


def _decode(lines: Iterable[bytes], where: str, row_type: type[Row]) -> list[Row]:
    decoder = msgspec.json.Decoder(row_type)
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            # A validation error is a decode error too: both say where in the line.
            raise UsageError(f"{where}, line {number}: {error}; correct or remove the line") from error
    return rows
