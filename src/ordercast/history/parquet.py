"""The table as a folder of Parquet files: each addition is a file of its own, which is there whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ordercast.core.errors import UsageError
from ordercast.history.rows import HISTORY


def append(folder: str | Path, rows: Sequence[dict[str, Any]]) -> None:
    """Add rows; the folder is made where there is none."""
    target = Path(folder)
    # Readers, Spark's among them, pass over names that begin with a dot.
    name = f"part-{uuid.uuid4()}.parquet"
    hidden = target / f".{name}"
    try:
        target.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(list(rows), schema=HISTORY), hidden, compression="zstd")
        os.rename(hidden, target / name)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror or error}") from error


def read(folder: str | Path) -> pa.Table:
    """All rows, by time."""
    target = Path(folder)
    if not target.is_dir():
        raise UsageError(f"{target}: there is no such table; `ordercast history TABLE --add FILE` begins one")
    tables = []
    for file in sorted(target.glob("[!.]*.parquet")):
        try:
            tables.append(pq.read_table(file).select(HISTORY.names).cast(HISTORY))
        except (KeyError, pa.ArrowException, OSError) as error:
            raise UsageError(f"{file}: is not a file of a history: {str(error).splitlines()[0]}") from error
    whole = pa.concat_tables(tables) if tables else HISTORY.empty_table()
    return whole.sort_by([("time", "ascending"), ("name", "ascending"), ("of", "ascending"), ("unit", "ascending")])
