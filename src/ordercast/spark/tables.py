"""Traces as Spark sees them: which file holds which runs, all events as one DataFrame, and a layout fit for both.

trace = open_trace(spark, "trace")          # a trace, the folder of a live cluster, or a folder of traces
events = read_events(spark, trace)          # DataFrame: every event, in the columns of docs/trace.md
compact(spark, trace, "compacted")          # a run never spans files; sorted by run, site and seq; zstd
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from ordercast.core.errors import InvariantViolation, UsageError
from ordercast.spark.internals import has_format
from ordercast.spark.tasks import gather, plain_errors, spread
from ordercast.trace.event_file import EventFile
from ordercast.trace.pieces import Trace, find_trace
from ordercast.trace.schema import EVENTS, Run
from ordercast.trace.write import TraceWriter, make_hidden, write_part

BATCH_ROWS = 100_000


# ---------------------------------------------------------------------- looking through
def open_trace(spark: SparkSession, folder: str | Path, files: Sequence[str] | None = None) -> Trace:
    """Find out, on the workers, which file holds which runs; files that do not fit the schema are refused.

    `files` overrules which files of the folder are read.
    """
    return find_trace(partial(gather, spark), folder, files)


# ---------------------------------------------------------------------- as a DataFrame
def check_format(spark: SparkSession, form: str) -> None:
    """`UsageError` where Spark has no tables of that kind."""
    if not has_format(spark, form):
        raise UsageError(
            f"Spark has no format {form!r}: put its package on the class path (spark.jars.packages), or use parquet"
        )


def events_schema(names: Sequence[str] = EVENTS.names) -> StructType:
    """The columns of docs/trace.md in Spark's types."""
    return from_arrow_schema(pa.schema([EVENTS.field(name) for name in names]))


def read_events(
    spark: SparkSession, trace: Trace, runs: Iterable[str] | None = None, columns: Sequence[str] = EVENTS.names
) -> DataFrame:
    """The events of these runs, or of all; the rows are in no particular order."""
    wanted = None if runs is None else set(runs)
    files = sorted({piece.file for piece in trace.pieces if wanted is None or piece.run in wanted})
    inexact = {piece.file for piece in trace.pieces if not piece.exact}
    if files and not inexact.intersection(files) and all(map(_is_plain_path, files)):
        frame = spark.read.schema(events_schema()).parquet(*files).select(*columns)
    else:
        pieces = [msgspec.json.encode((file, list(columns))) for file in files]
        frame = spread(spark, pieces, _read_file, pa.schema([EVENTS.field(name) for name in columns]))
    if wanted is None or wanted == set(trace.runs):
        return frame
    return frame.where(frame["run"].isin(sorted(wanted)))


def _is_plain_path(file: str) -> bool:
    """Spark takes *, [ and { for patterns and skips names that begin with a dot or a line."""
    return re.fullmatch(r"(/\w[\w.=@+-]*)+", file) is not None and not os.path.basename(file).startswith("_")


def _read_file(piece: bytes) -> Iterator[pa.RecordBatch]:
    file, names = msgspec.json.decode(piece, type=tuple[str, list[str]])
    events = EventFile(file)
    _ = events.rows_of_runs  # checks the values
    schema = pa.schema([EVENTS.field(name) for name in names])
    columns = [events.column(name).cast(schema.field(name).type) for name in names]
    yield from pa.table(columns, schema=schema).to_batches(BATCH_ROWS)


# ---------------------------------------------------------------------- the layout
def compact(spark: SparkSession, trace: Trace, folder: str | Path) -> Trace:
    """Write the trace anew so that no run spans files; the folder appears whole or not at all."""
    target = Path(folder)
    if target.exists():
        raise UsageError(f"{target}: exists already; remove it or choose another folder")
    # Workers have working folders of their own.
    hidden = make_hidden(target).resolve()
    try:
        written = _write_runs(spark, trace, hidden)
        _assemble(hidden, written, trace.runs.values())
        umask = os.umask(0)
        os.umask(umask)
        hidden.chmod(0o777 & ~umask)
        os.rename(hidden, target)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return open_trace(spark, target)


def _write_runs(spark: SparkSession, trace: Trace, hidden: Path) -> list[Path]:
    """Every task writes whole runs to a trace of its own."""
    schema = EVENTS.append(_ORIGIN)
    pieces = [msgspec.json.encode((number, file)) for number, file in enumerate(trace.files)]
    # A part holds about a million rows; fewer tasks than cores would leave some idle.
    tasks = max(spark.sparkContext.defaultParallelism, trace.rows >> 20)
    ordered = (
        spread(spark, pieces, _read_with_origin, schema)
        .repartition(min(tasks, len(trace.runs)), "run")
        .sortWithinPartitions("run", "site", "seq", _ORIGIN.name)
        .drop(_ORIGIN.name)
    )

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is None:
            raise InvariantViolation("a part is written outside of any task")
        # A task that was given up may still be writing: each attempt has its own folder, and only one is told about.
        folder = hidden / f"task-{context.partitionId():05d}-{context.taskAttemptId()}"
        parts = 0
        with TraceWriter(folder) as writer:
            for run, table in _whole_runs(batches):
                writer.write(Run(run), table)
                parts += 1
        if parts:
            yield pa.RecordBatch.from_pydict({"folder": [folder.name]})

    with plain_errors():
        rows = ordered.mapInArrow(write, "folder string").collect()
    return [hidden / row.folder for row in sorted(rows)]


_ORIGIN = pa.field("origin", pa.int64())
"""File and row: equal numbers at a site keep the order they came in."""


def _read_with_origin(piece: bytes) -> Iterator[pa.RecordBatch]:
    number, file = msgspec.json.decode(piece, type=tuple[int, str])
    row = number << 40
    for batch in _read_file(msgspec.json.encode((file, EVENTS.names))):
        origin = pa.array(range(row, row + len(batch)), pa.int64())
        row += len(batch)
        yield pa.RecordBatch.from_arrays([*batch.columns, origin], schema=EVENTS.append(_ORIGIN))


def _whole_runs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """Runs, one after the other, from batches that are sorted by run."""
    held: list[pa.RecordBatch] = []
    current: str | None = None
    for batch in batches:
        names = batch.column(0).dictionary_encode()
        counts = {entry["values"]: entry["counts"] for entry in names.value_counts().to_pylist()}
        start = 0
        for name in names.dictionary.to_pylist():
            if current is not None and name != current:
                yield current, pa.Table.from_batches(held).cast(EVENTS)
                held = []
            current = name
            held.append(batch.slice(start, counts[name]))
            start += counts[name]
    if current is not None:
        yield current, pa.Table.from_batches(held).cast(EVENTS)


def _assemble(hidden: Path, written: Sequence[Path], runs: Iterable[Run]) -> None:
    """The tasks' traces become one."""
    events = hidden / "events"
    events.mkdir()
    parts = [part for folder in written for part in sorted((folder / "events").iterdir())]
    for number, part in enumerate(parts):
        part.rename(events / f"part-{number:05d}.parquet")
    if not parts:
        write_part(EVENTS.empty_table(), events / "part-00000.parquet")
    lines = [msgspec.json.encode(run, order="deterministic") + b"\n" for run in runs]
    (hidden / "runs.jsonl").write_bytes(b"".join(lines))
    for folder in hidden.glob("task-*"):
        shutil.rmtree(folder)
