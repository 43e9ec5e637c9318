"""Tables from anywhere become tables of the schema, or are refused in one line that says what is wrong."""

from __future__ import annotations

from difflib import get_close_matches

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ordercast.core.errors import UsageError
from ordercast.trace.schema import COLUMNS, EVENTS, KINDS, KINDS_WITH_MESSAGE, REQUIRED


def conform(table: pa.Table, where: str) -> pa.Table:
    """The table with exactly the columns of the schema; `where` begins the error message when that cannot be."""
    if table.schema.equals(EVENTS):
        conformed = table
    else:
        conformed = pa.table([conform_column(table, name, where) for name in COLUMNS], schema=EVENTS)
    check_values(conformed, where)
    return conformed


def conform_column(table: pa.Table, name: str, where: str) -> pa.ChunkedArray | pa.Array:
    """One column of the schema as the table has it; nulls where it may be missing and is."""
    wanted = EVENTS.field(name).type
    if name not in table.schema.names:
        if name in REQUIRED:
            hint = get_close_matches(name, table.schema.names, 1)
            called = f" (is it {hint[0]!r} there?)" if hint else ""
            raise UsageError(f"{where}: the required column {name!r} is missing{called}; docs/trace.md lists them all")
        return pa.nulls(len(table), wanted)
    column = table.column(name)
    if column.type.equals(wanted):
        return column
    if not _same_meaning(column.type, wanted):
        raise UsageError(f"{where}: column {name!r} has type {column.type}, it must be {COLUMNS[name]}")
    try:
        return column.cast(wanted)
    except pa.ArrowException as error:
        raise UsageError(f"{where}: column {name!r} does not fit {COLUMNS[name]}: {_one_line(error)}") from error


def _same_meaning(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast changes the representation only: 'long' for 'int' is, text for a number is not."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    if pa.types.is_null(given):
        return True
    if pa.types.is_list(wanted):
        is_list = pa.types.is_list(given) or pa.types.is_large_list(given) or pa.types.is_list_view(given)
        return is_list and _same_meaning(given.value_type, wanted.value_type)
    if pa.types.is_string(wanted):
        return pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given)
    if pa.types.is_integer(wanted):
        return pa.types.is_integer(given)
    return pa.types.is_floating(given) or pa.types.is_integer(given)


def check_values(table: pa.Table, where: str) -> None:
    """Refuse values that mean nothing; the table has the required columns and `message`, of the right types."""
    for name in REQUIRED:
        column = table.column(name)
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy()))
            raise UsageError(f"{where}: row {row + 1} has no {name!r}, which every event needs")
    for kind in pc.unique(table.column("kind")).to_pylist():
        if kind not in KINDS:
            hint = get_close_matches(kind, KINDS, 1)
            meant = f"did you mean {hint[0]!r}?" if hint else f"known are {', '.join(KINDS)}"
            raise UsageError(f"{where}: unknown kind {kind!r}; {meant}")
    times = table.column("time").to_numpy()
    if len(times) and not np.isfinite(times).all():
        row = int(np.argmin(np.isfinite(times)))
        raise UsageError(f"{where}: row {row + 1} has the time {times[row]}; times are finite seconds")
    if table.column("message").null_count:
        about_one = pc.is_in(table.column("kind"), value_set=pa.array(KINDS_WITH_MESSAGE))
        nameless = pc.and_(about_one, pc.is_null(table.column("message"))).to_numpy()
        if nameless.any():
            row = int(np.argmax(nameless))
            kind = table.column("kind")[row].as_py()
            raise UsageError(f"{where}: row {row + 1} is a {kind!r} without 'message': name the message it is about")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
