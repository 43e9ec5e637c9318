"""Rows of Spark as messages of a group, each once.

Tasks hand their rows to the driver, which multicasts those of a batch when all of them are there: in the order of the
partitions, and of the rows of each. Every row has a key of its own: the query, the batch, its number. So a batch that
is written again, because the query or a node has died in the middle, multicasts what is missing and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from ordercast.core.errors import UsageError
from ordercast.node.keys import KEYS_OF_OWNER_MAX
from ordercast.spark.source.members import Members, find_members

PAYLOAD: Final = "payload"
CHUNK_ROWS: Final = KEYS_OF_OWNER_MAX
"""Rows that are multicast together. Each such chunk is an owner of keys: of one owner, so many are remembered."""


@dataclass(frozen=True)
class Rows(WriterCommitMessage):
    """What a task has."""

    partition: int
    payloads: list[bytes]


@dataclass(frozen=True)
class SinkOptions:
    """What was asked for."""

    config: str
    group: str
    process: str | None
    query: str
    """Whose rows they are: a query that is started again has the same name."""
    timeout: float

    def members(self) -> Members:
        """Whom to ask."""
        return find_members(self.config, self.group, self.process, self.timeout)


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
        multicast_rows(self._options, messages, str(batchId))


class GroupWriter(DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Nothing leaves before everything is there."""
        return take_rows(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Multicast what is not in the group yet."""
        multicast_rows(self._options, messages, "")


def take_rows(batches: Iterator[pa.RecordBatch]) -> Rows:
    """The payloads of a task, and which of them it is."""
    from pyspark import TaskContext

    payloads: list[bytes] = []
    for batch in batches:
        column = batch.column(batch.schema.get_field_index(PAYLOAD))
        if column.null_count:
            raise UsageError("a row for a group has no payload: leave such rows out, or give them an empty one")
        payloads += column.cast(pa.binary()).to_pylist()
    context = TaskContext.get()
    return Rows(0 if context is None else context.partitionId(), payloads)


def multicast_rows(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch: str) -> None:
    """Those of all tasks, in the order of their partitions."""
    told = sorted((message for message in messages if isinstance(message, Rows)), key=lambda rows: rows.partition)
    payloads = [payload for rows in told for payload in rows.payloads]
    chunks = [payloads[at : at + CHUNK_ROWS] for at in range(0, len(payloads), CHUNK_ROWS)]
    members = options.members()
    name = f"spark/{options.query}/{batch}"
    for number in range(find_begun(members, name, chunks), len(chunks)):
        members.send(chunks[number], "row", f"{name}/{number}")


def find_begun(members: Members, name: str, chunks: Sequence[Sequence[bytes]]) -> int:
    """The last chunk of which something is in the group already; 0 where there is none.

    They were multicast one after the other, so all before it are there as a whole. A group remembers the keys of some
    ten thousand messages: of a large batch, perhaps only those of the last chunks.
    """
    for number in reversed(range(len(chunks))):
        if members.used(f"{name}/{number}", ["row/1"])[0]:
            return number
    return 0
