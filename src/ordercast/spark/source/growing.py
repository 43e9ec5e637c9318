"""Traces that are still being written, as a stream: the lines that processes have added since the last look.

The offset of a stream says of each file how many of its bytes have been read, always up to the end of a line. So a
query that is started again goes on with the next line, and a line that a process is just writing waits until it is
whole. A file of Parquet is there as a whole when it is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyarrow import fs
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from ordercast.core.errors import UsageError
from ordercast.spark.source.trace import BATCH_ROWS, check_names, file_system, find_files_of, find_folders, read_file
from ordercast.trace.json_lines import parse_json_events

BYTES_OF_A_BATCH: Final = 64 << 20
"""Of lines that a micro-batch reads unless `maxBytesPerTrigger` says otherwise: some hundred thousand events."""
_LOOK_BYTES: Final = 1 << 16

Sizes = dict[str, int]


@dataclass(frozen=True)
class Stretch(InputPartition):
    """Some lines of a file, or a whole file of Parquet."""

    uri: str
    start: int
    stop: int


class TraceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on in all files of a trace, and in those that come."""

    def __init__(self, path: str, names: Sequence[str], max_bytes: int | None) -> None:
        check_names(names)
        self._path = path
        self._names = list(names)
        self._max_bytes = BYTES_OF_A_BATCH if max_bytes is None else max_bytes
        self._last: Sizes | None = None
        """Where a query ends that was asked to stop at what there is now."""

    def initialOffset(self) -> Sizes:  # noqa: N802 - Spark's names
        """Nothing is read yet."""
        self._sizes()
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """So much at a time."""
        return ReadMaxBytes(self._max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember where everything ends."""
        self._last = self._sizes()

    def latestOffset(self, start: Sizes, limit: ReadLimit) -> Sizes:  # noqa: N802
        """How far the next batch goes: each file has its share, and what one does not need the next ones have."""
        files, _ = file_system(self._path)
        sizes = self._sizes() if self._last is None else self._last
        left = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        upto = dict(start)
        for number, (uri, size) in enumerate(sorted(sizes.items())):
            begin = start.get(uri, 0)
            if size < begin:
                raise UsageError(f"{uri}: is shorter than what has been read of it; start with a new checkpoint")
            end = size
            if left is not None:
                end = min(size, begin + -(-left // (len(sizes) - number)))
            if uri.endswith(".jsonl"):
                end = _end_of_lines(files, file_system(uri)[1], begin, end, size)
            elif end < size and begin < size:
                end = size
            if end > begin:
                upto[uri] = end
                left = None if left is None else max(0, left - (end - begin))
        return upto

    def reportLatestOffset(self) -> Sizes | None:  # noqa: N802
        """For whoever looks at the query: how large the files are."""
        return self._sizes()

    def partitions(self, start: Sizes, end: Sizes) -> Sequence[InputPartition]:
        """One a file in which there is something new."""
        return [Stretch(uri, start.get(uri, 0), stop) for uri, stop in sorted(end.items()) if start.get(uri, 0) < stop]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one."""
        if not isinstance(partition, Stretch):
            return
        if not partition.uri.endswith(".jsonl"):
            yield from read_file(partition.uri, self._names)
            return
        files, path = file_system(partition.uri)
        try:
            with files.open_input_file(path) as file:
                file.seek(partition.start)
                lines = file.read(partition.stop - partition.start).splitlines()
        except OSError as error:
            raise UsageError(f"{partition.uri}: cannot be read on: {' '.join(str(error).split())}") from error
        where = f"{partition.uri}, from byte {partition.start}"
        yield from parse_json_events(lines, where).select(self._names).to_batches(BATCH_ROWS)

    def _sizes(self) -> Sizes:
        """Of all files that there are. A process that has just begun may have none."""
        files, folders = find_folders(self._path)
        found: Sizes = {}
        for folder in folders:
            for uri in find_files_of(self._path, files, folder, may_be_missing=True):
                found[uri] = files.get_file_info(file_system(uri)[1]).size
        return found


def _end_of_lines(files: fs.FileSystem, path: str, begin: int, end: int, size: int) -> int:
    """Where the last line ends that ends before that place; of a line that is longer than this, its own end; the
    beginning where none is whole."""
    with files.open_input_file(path) as file:
        at = end
        while at > begin:
            low = max(begin, at - _LOOK_BYTES)
            file.seek(low)
            found = file.read(at - low).rfind(b"\n")
            if found >= 0:
                return low + int(found) + 1
            at = low
        at = end
        while at < size:
            file.seek(at)
            read = file.read(min(_LOOK_BYTES, size - at))
            found = read.find(b"\n")
            if found >= 0:
                return at + int(found) + 1
            at += len(read)
    return begin
