"""Do the numbers that sources give their messages ascend where these are multicast, and wherever they are delivered?

If they do, and deliveries tell the numbers of the multicasts, every site delivers every source in its sending order.
Each piece of a run tells from where to where it goes for each site and source; so nothing else needs to move.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ordercast.spark.verify.large.packs import Rows, ask_packs

_READ: Final = ("site", "seq", "kind", "source", "source_seq")
_STREAM: Final = ("delivers", "site", "source")
_ENDS: Final = ("first_seq", "last_seq", "first", "last")
_PIECES: Final = pa.schema(
    [
        ("delivers", pa.bool_()),
        ("site", pa.string()),
        ("source", pa.string()),
        *((name, pa.int64()) for name in _ENDS),
        ("ascends", pa.bool_()),
    ]
)
_SAID: Final = pa.schema([("ascends", pa.bool_())])


def sending_ascends(rows: Rows) -> bool:
    """Whether they do; False also where services are activated, which let sites begin anew."""
    said = ask_packs(rows.pack(_READ, _summaries), _put_together, _SAID).toArrow().to_pylist()
    return bool(said) and all(row["ascends"] for row in said)


def _summaries(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    kind = table.column("kind")
    if pc.any(pc.equal(kind, "activate")).as_py():
        yield 0, pa.Table.from_pylist([{"ascends": False}], schema=_PIECES)
    of_messages = pc.is_in(kind.cast(pa.string()), value_set=pa.array(["multicast", "deliver"]))
    chosen = table.filter(of_messages).combine_chunks()
    if not len(chosen):
        return
    delivers = pc.equal(chosen.column("kind"), "deliver").to_numpy()
    site, source = (chosen.column(name).cast(pa.string()) for name in ("site", "source"))
    # A multicast is its site's own, whatever else it says.
    source = pc.if_else(pa.array(delivers), source, site)
    codes = [column.combine_chunks().dictionary_encode() for column in (site, source)]
    number = chosen.column("source_seq")
    if number.null_count or codes[1].null_count:
        yield 0, pa.Table.from_pylist([{"ascends": False}], schema=_PIECES)
        return
    seq, numbers = chosen.column("seq").to_numpy(), number.to_numpy()
    site_code, source_code = (each.indices.to_numpy() for each in codes)
    stream = (site_code.astype(np.int64) * len(codes[1].dictionary) + source_code) * 2 + delivers
    order = np.lexsort((seq, stream))
    stream, seq, numbers = stream[order], seq[order], numbers[order]
    begins = np.flatnonzero(np.diff(stream, prepend=-1))
    ends = np.append(begins[1:], len(stream)) - 1
    rises = (np.diff(numbers, prepend=0) > 0) & (np.diff(seq, prepend=0) > 0)
    rises[begins] = True
    columns: dict[str, Any] = {
        "delivers": pa.array(delivers[order[begins]]),
        "site": codes[0].dictionary.take(pa.array(site_code[order[begins]])),
        "source": codes[1].dictionary.take(pa.array(source_code[order[begins]])),
        "first_seq": seq[begins],
        "last_seq": seq[ends],
        "first": numbers[begins],
        "last": numbers[ends],
        "ascends": np.logical_and.reduceat(rises, begins),
    }
    yield 0, pa.table(columns, schema=_PIECES)


def _put_together(_: int, pieces: pa.Table) -> pa.Table:
    ascends = bool(pc.all(pieces.column("ascends")).as_py())
    ordered = pieces.sort_by([(name, "ascending") for name in (*_STREAM, "first_seq")]).to_pylist()
    for before, after in pairwise(ordered):
        if all(before[name] == after[name] for name in _STREAM):
            ascends = ascends and before["last_seq"] < after["first_seq"] and before["last"] < after["first"]
    return pa.Table.from_pylist([{"ascends": bool(ascends)}], schema=_SAID)
