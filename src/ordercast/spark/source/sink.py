"""Rows of Spark as messages of a group, each once.

Tasks hand their rows to the driver, which multicasts those of a batch when all of them are there: in the order of the
partitions, and of the rows of each. They go in runs, whose numbers are made of the batch and of how many of its rows
there are up to their ends; the group takes each number of a query once, in ascending order. So a batch that is written
again, because the query or a node has died in the middle, multicasts what is missing and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from ordercast.core.errors import UsageError
from ordercast.node.bundles import MESSAGE_OVERHEAD, encode_bundle
from ordercast.node.run_posting import PackedRun
from ordercast.node.runs import decode_messages
from ordercast.node.serving.packets import RUN_BYTES_MAX
from ordercast.spark.source.members import Members, find_members
from ordercast.spark.source.trace import file_system

PAYLOAD: Final = "payload"
_ROWS_BITS: Final = 32
"""Of a run's number: how many rows of its batch there are up to its end. The others are the number of the batch."""


@dataclass(frozen=True)
class Rows(WriterCommitMessage):
    """What a task has."""

    partition: int
    packs: list[tuple[int, bytes]]
    """Of each run of it how many rows, and these, packed."""


@dataclass(frozen=True)
class SinkOptions:
    """What was asked for."""

    config: str
    group: str
    process: str | None
    query: str
    """Whose rows they are: a query that is started again has the same name."""
    timeout: float

    @property
    def client(self) -> str:
        """By which name the group knows the query. (Its own may be a path, and longer than such names are.)"""
        return f"spark/{hashlib.blake2b(self.query.encode(), digest_size=16).hexdigest()}"

    def members(self) -> Members:
        """Whom to ask."""
        return find_members(self.config, self.group, self.process, self.timeout)


def name_of_checkpoint(checkpoint: str) -> str:
    """What Spark calls the query: another name when it begins anew in a folder of the same name. (Else its rows would
    look like those that were written before.)"""
    try:
        files, folder = file_system(checkpoint)
        with files.open_input_stream(f"{folder}/metadata") as file:
            return str(msgspec.json.decode(file.read(), type=dict[str, str])["id"])
    except (UsageError, OSError, pa.ArrowException, msgspec.DecodeError, KeyError):
        return checkpoint


def check_columns(schema: StructType) -> None:
    """`UsageError` unless there is a payload."""
    if PAYLOAD not in schema.names:
        raise UsageError(f"rows for a group need a column payload (binary or string); these have: {schema.names}")
    if not isinstance(schema[PAYLOAD].dataType, BinaryType | StringType):
        raise UsageError(f"the column payload is binary or string, not {schema[PAYLOAD].dataType.simpleString()}")


class GroupStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a query."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Nothing leaves before the whole batch is there."""
        return take_rows(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Multicast what of a batch is not in the group yet."""
        multicast_rows(self._options, messages, batchId)


class GroupWriter(DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Nothing leaves before everything is there."""
        return take_rows(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Multicast what is not in the group yet."""
        multicast_rows(self._options, messages, 0)


def take_rows(batches: Iterator[pa.RecordBatch]) -> Rows:
    """The payloads of a task, packed, and which of them it is."""
    from pyspark import TaskContext

    payloads: list[bytes] = []
    for batch in batches:
        column = batch.column(batch.schema.get_field_index(PAYLOAD))
        if column.null_count:
            raise UsageError("a row for a group has no payload: leave such rows out, or give them an empty one")
        payloads += column.cast(pa.binary()).to_pylist()
    context = TaskContext.get()
    return Rows(0 if context is None else context.partitionId(), pack(payloads))


def pack(payloads: Sequence[bytes]) -> list[tuple[int, bytes]]:
    """These in runs, each as large as it may be."""
    ends = np.cumsum([len(payload) + MESSAGE_OVERHEAD for payload in payloads])
    packs: list[tuple[int, bytes]] = []
    start, size = 0, 0
    while start < len(payloads):
        stop = max(start + 1, int(np.searchsorted(ends, size + RUN_BYTES_MAX - MESSAGE_OVERHEAD, "right")))
        packs.append((stop - start, encode_bundle(payloads[start:stop])))
        start, size = stop, int(ends[stop - 1])
    return packs


def multicast_rows(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
    """Those of all tasks, in the order of their partitions."""
    told = sorted((message for message in messages if isinstance(message, Rows)), key=lambda rows: rows.partition)
    members = options.members()
    last_batch, done = divmod(members.last_run(options.client), 1 << _ROWS_BITS)
    if last_batch > batch:
        raise UsageError(
            f"group {options.group!r} has batch {last_batch} of query {options.query!r} already, and this is batch "
            f"{batch}: a query that begins anew needs another name, with the option query"
        )
    packs = [pack for rows in told for pack in rows.packs]
    members.send(options.client, number_runs(packs, batch, done if last_batch == batch else 0))


def number_runs(packs: Iterable[tuple[int, bytes]], batch: int, done: int) -> list[PackedRun]:
    """What follows behind the first rows of a batch, which are in the group already."""
    runs: list[PackedRun] = []
    rows = 0
    for count, packed in packs:
        rows += count
        if rows <= done:
            continue
        if rows - count < done:
            # These were others when the batch was written first.
            payloads = decode_messages(packed, count)[done - rows :]
            count, packed = len(payloads), encode_bundle(payloads)
        runs.append(PackedRun((batch << _ROWS_BITS) + rows, count, packed))
    return runs
