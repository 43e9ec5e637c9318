"""Traces as a data source: one partition a file, Arrow batches, conditions and columns handed down to the files."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ordercast.core.errors import UsageError
from ordercast.spark.source.filters import joined, split
from ordercast.trace.conform import conform
from ordercast.trace.json_lines import parse_json_events
from ordercast.trace.schema import COLUMNS, EVENTS

BATCH_ROWS = 100_000


@dataclass(frozen=True)
class FilePartition(InputPartition):
    """One file of events."""

    uri: str


class TraceReader(DataSourceReader):
    """Reads the events of a trace folder, or of a folder of them."""

    def __init__(self, path: str, names: Sequence[str], skip_corrupt: bool) -> None:
        check_names(names)
        self._path = path
        self._names = list(names)
        self._skip_corrupt = skip_corrupt
        self.filters: list[Filter] = []
        """What rows must fulfil to be handed over."""

    def partitions(self) -> Sequence[InputPartition]:
        """One a file."""
        return [FilePartition(uri) for uri in find_files(self._path)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one file. A file that cannot be read is an error that names it, or skipped where that was asked
        for, which the log of the worker tells."""
        if not isinstance(partition, FilePartition):
            return
        if self._skip_corrupt:
            # Read to its end before anything of it is handed over: else rows before the damage would not be left out.
            try:
                deque(self._rows(partition.uri), maxlen=0)
            except UsageError as error:
                print(f"ordercast: a file is left out: {error}", file=sys.stderr)
                return
        try:
            yield from self._rows(partition.uri)
        except UsageError as error:
            raise UsageError(f"{error}; the option skipCorrupt leaves such files out") from error

    def _rows(self, uri: str) -> Iterator[pa.RecordBatch]:
        try:
            yield from read_file(uri, self._names, joined(self.filters))
        except (UsageError, pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise UsageError(reason if reason.startswith(uri) else f"{uri}: {reason}") from error


class FilteringTraceReader(TraceReader):
    """One that takes conditions upon itself."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name for it
        """Keep those that files can be read by; Spark sees to the others."""
        self.filters, left = split(filters)
        return left


def check_names(names: Sequence[str]) -> None:
    """`UsageError` where one is no column of a trace."""
    for name in names:
        if name not in COLUMNS:
            near = get_close_matches(name, COLUMNS, 1, cutoff=0.0)
            raise UsageError(f"a trace has no column {name!r}; the nearest is {near[0]!r} (docs/trace.md has all)")


def find_files(path: str) -> list[str]:
    """The files with events, each by a URI or path like the one given; what is no trace is said in one line."""
    files, folders = find_folders(path)
    if not folders:
        raise UsageError(f"{path}: no runs.jsonl here or one level below; name a folder that a run was traced to")
    return [uri for folder in folders for uri in find_files_of(path, files, folder)]


def find_folders(path: str) -> tuple[fs.FileSystem, list[str]]:
    """The traces in a folder: itself, or those one level below."""
    files, root = file_system(path)
    if files.get_file_info(root).type != fs.FileType.Directory:
        raise UsageError(f"{path}: there is no such folder")
    if _exists(files, f"{root}/runs.jsonl"):
        return files, [root]
    inside = files.get_file_info(fs.FileSelector(root))
    # Hidden folders are traces that are still being written.
    folders = sorted(info.path for info in inside if not info.base_name.startswith("."))
    return files, [folder for folder in folders if _exists(files, f"{folder}/runs.jsonl")]


def find_files_of(path: str, files: fs.FileSystem, folder: str, *, may_be_missing: bool = False) -> list[str]:
    """The files with events of one trace, each by a URI or path like the one given."""
    scheme = path.partition(":/")[0] + "://" if ":/" in path else ""
    if _exists(files, f"{folder}/events.jsonl"):
        return [f"{scheme}{folder}/events.jsonl"]
    if files.get_file_info(f"{folder}/events").type != fs.FileType.Directory:
        if may_be_missing:
            return []
        raise UsageError(f"{folder}: has neither events.jsonl nor a folder events/; the trace is incomplete")
    found = files.get_file_info(fs.FileSelector(f"{folder}/events"))
    return sorted(f"{scheme}{info.path}" for info in found if info.path.endswith(".parquet"))


def _exists(files: fs.FileSystem, path: str) -> bool:
    return bool(files.get_file_info(path).type == fs.FileType.File)


def file_system(path: str) -> tuple[fs.FileSystem, str]:
    """Where it is, and what it is called there."""
    if ":/" not in path:
        # Workers have working folders of their own.
        return fs.LocalFileSystem(), str(Path(path).resolve())
    try:
        files, root = fs.FileSystem.from_uri(path)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from error
    return files, root.rstrip("/")


def read_file(uri: str, names: Sequence[str], condition: ds.Expression | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a file that fulfil the condition, with these columns; row groups that it rules out are not read."""
    files, path = file_system(uri)
    if path.endswith(".jsonl"):
        with files.open_input_stream(path) as source:
            table = parse_json_events(source.read().splitlines(), uri)
        yield from _chosen(table, names, condition)
        return
    fragment = ds.ParquetFileFormat().make_fragment(path, files)
    physical = fragment.physical_schema
    # Says what is wrong with the columns, before any is read.
    conform(physical.empty_table(), uri)
    if all(physical.field(name).type == EVENTS.field(name).type for name in physical.names if name in COLUMNS):
        scanner = ds.Scanner.from_fragment(
            fragment, schema=EVENTS, columns=list(names), filter=condition, batch_size=BATCH_ROWS
        )
        yield from (batch for batch in scanner.to_batches() if len(batch))
        return
    yield from _chosen(conform(fragment.to_table(), uri), names, condition)


def _chosen(table: pa.Table, names: Sequence[str], condition: ds.Expression | None) -> Iterator[pa.RecordBatch]:
    chosen = table if condition is None else table.filter(condition)
    yield from chosen.select(list(names)).to_batches(BATCH_ROWS)
