"""Rows on their way to the part in which they are judged.

Row by row, Spark would write each of them, sort all by part, and hand them to Python again. So they are packed where
they are read, those of one part together as one value, and Spark moves values that are few and large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from ordercast.check.facts.columns import Ints, stable_order

PACK_ROWS: Final = 1 << 18
"""Rows of a DataFrame that a task packs at a time; some ten MB."""

_FEW: Final = ("site", "kind", "reason", "service", "source", "view")
"""Columns with few different texts."""
_PACKS: Final = pa.schema([("part", pa.int32()), ("rows", pa.binary())])

Cut = Callable[[pa.Table], Iterable[tuple[int, pa.Table]]]
"""From rows to the parts that they belong to, each with its number. Tables of one part have the same columns."""
Find = Callable[[int, pa.Table], pa.Table]
"""From the number of a part and its rows to what is found in it."""


def ask_packs(packs: DataFrame, find: Find, schema: pa.Schema) -> DataFrame:
    """What is found in each part, in this schema."""

    def unpack(of_part: pa.Table) -> pa.Table:
        tables = [pa.ipc.open_stream(pack.as_buffer()).read_all() for pack in of_part.column("rows")]
        table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
        return find(of_part.column("part")[0].as_py(), table)

    return packs.groupBy("part").applyInArrow(unpack, from_arrow_schema(schema))


def ask_parts(rows: DataFrame, find: Find, schema: pa.Schema) -> DataFrame:
    """The same, of rows that have the number of their part in the column `part`."""
    packs = rows.mapInArrow(_packing(by_number), from_arrow_schema(_PACKS))
    return ask_packs(packs, find, schema)


def by_number(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each part; the column `part` has its number, which goes no further."""
    yield from split(table.drop_columns(["part"]), table.column("part").to_numpy())


def split(table: pa.Table, part: Ints) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each part, of each row the number of its part given."""
    if not len(part):
        return
    number = part - part.min()
    order = stable_order(number)
    table = table.take(pa.array(order))
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(part)], strict=True):
        yield int(part[order[start]]), table.slice(start, end - start)


def _packing(cut: Cut) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(map(len, held)) >= PACK_ROWS:
                yield from _packs(cut(_encoded(held)))
                held = []
        if any(map(len, held)):
            yield from _packs(cut(_encoded(held)))

    return pack


def _packs(parts: Iterable[tuple[int, pa.Table]]) -> Iterator[pa.RecordBatch]:
    packed = [(part, _as_bytes(table)) for part, table in parts]
    if packed:
        numbers, values = zip(*packed, strict=True)
        yield pa.record_batch([pa.array(numbers, pa.int32()), pa.array(values, pa.binary())], schema=_PACKS)


def _encoded(batches: list[pa.RecordBatch]) -> pa.Table:
    """With texts of which there are few as codes; the judges make codes of them anyway."""
    table = pa.Table.from_batches(batches).combine_chunks()
    for place, name in enumerate(table.schema.names):
        if name in _FEW:
            table = table.set_column(place, name, table.column(name).dictionary_encode())
    return table


def _as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
