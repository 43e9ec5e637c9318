"""Groups as a data source: what was delivered, by offset, once (`read`) or for as long as it goes on (`readStream`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ordercast.core.errors import UsageError
from ordercast.node.reading import HeldBatch
from ordercast.spark.source.members import Extent, Members, NoNews, OnLost, find_members

if TYPE_CHECKING:
    from ordercast.spark.source.at_rest import LogAtRest

DELIVERIES: Final = pa.schema(
    [
        ("group", pa.string()),
        ("offset", pa.int64()),
        ("message", pa.string()),
        ("source", pa.string()),
        ("source_seq", pa.int64()),
        ("payload", pa.binary()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("view", pa.string()),
    ]
)
BATCH_ROWS: Final = 20_000
EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True)
class GroupOptions:
    """What was asked for."""

    config: str
    groups: Sequence[str]
    process: str | None
    start: str
    """`earliest`, `latest`, or an offset."""
    stop: str
    max_offsets: int | None
    fail_on_data_loss: bool
    at_rest: bool
    """Whether the log of a process is read, and not a node."""
    timeout: float
    """Seconds for which nodes may be silent while something is wanted of them."""

    def members(self, group: str) -> Members:
        """Whom to ask about a group."""
        return find_members(self.config, group, self.process, self.timeout)

    def holder(self, group: str) -> Members | LogAtRest:
        """Who has what was delivered."""
        if not self.at_rest:
            return self.members(group)
        # Imported here: it runs protocols, and few ask for it.
        from ordercast.spark.source.at_rest import LogAtRest

        return LogAtRest(self.config, group, self.process)

    def on_lost(self, group: str) -> OnLost:
        """What to do about offsets of a group that nobody has any more: an error, or a line that counts them."""

        def refuse(start: int, first: int) -> None:
            raise UsageError(
                f"offset {start} of group {group!r} is no longer held; the lowest that is: {first} "
                f"(failOnDataLoss = false goes on there; history_bytes of the configuration is how much nodes hold)"
            )

        def count(start: int, first: int) -> None:
            lost = f"{first - start} messages of group {group!r} are lost: {start} to {first - 1}"
            print(f"ordercast: {lost}", file=sys.stderr)

        return refuse if self.fail_on_data_loss else count


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """Consecutive deliveries of one group."""

    group: str
    start: int
    stop: int


class GroupReader(DataSourceReader):
    """Reads what there is."""

    def __init__(self, options: GroupOptions, names: Sequence[str]) -> None:
        self._options = options
        self._schema = _chosen(names)

    def partitions(self) -> Sequence[InputPartition]:
        """One a group."""
        ranges: list[InputPartition] = []
        for group in self._options.groups:
            extent = self._options.holder(group).look()
            start = find_offset(self._options.start, extent)
            if start < extent.first:
                self._options.on_lost(group)(start, extent.first)
                start = extent.first
            stop = min(find_offset(self._options.stop, extent), extent.end)
            if start < stop:
                ranges.append(OffsetRange(group, start, stop))
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The deliveries of one."""
        yield from _read(self._options, partition, self._schema)


class GroupStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on. The offset of a stream says, for each group, which of its offsets comes next: they are the group's own,
    so a query that is started again goes on exactly where its checkpoint says, whoever it reads from."""

    def __init__(self, options: GroupOptions, names: Sequence[str]) -> None:
        self._options = options
        self._schema = _chosen(names)
        self._last: dict[str, int] | None = None
        """Where a query ends that was asked to stop at what there is now."""
        self._seen: dict[str, int] = {}
        """How far groups were when they were last heard of."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's names
        """Where a new query begins."""
        return {
            group: find_offset(self._options.start, self._options.members(group).extent())
            for group in self._options.groups
        }

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """As the option `maxOffsetsPerTrigger` says."""
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember where everything ends. Whoever starts such a query wants what there is, so silence that lasts is an
        error; the checkpoint stays as it is."""
        self._last = {group: self._options.members(group).extent().end for group in self._options.groups}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """How far the next batch goes. A group whose nodes are all silent stays where it is: they may come back. (Where
        the end is known, staying would be taken for it, so the tasks wait for the nodes.)"""
        ends = {}
        for group in self._options.groups:
            with suppress(NoNews):
                ends[group] = self._options.members(group).look().end
        self._seen |= ends
        ends |= self._last or {}
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        left, upto = most, {}
        for number, group in enumerate(self._options.groups):
            begin = start.get(group, 0)
            end = max(begin, ends.get(group, begin))
            if left is not None:
                # Each has its share, and what one does not need the next ones have.
                share = -(-left // (len(self._options.groups) - number))
                end = min(end, begin + share)
                left -= end - begin
            upto[group] = end
        return upto

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        """For whoever looks at the query: how far the groups were when they were last heard of."""
        return dict(self._seen) or None

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One a group."""
        return [
            OffsetRange(group, start.get(group, 0), stop) for group, stop in end.items() if start.get(group, 0) < stop
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The deliveries of one."""
        yield from _read(self._options, partition, self._schema)


def find_offset(said: str, extent: Extent) -> int:
    """An offset, as it may be said."""
    if said in (EARLIEST, LATEST):
        return extent.first if said == EARLIEST else extent.end
    return int(said)


def _chosen(names: Sequence[str]) -> pa.Schema:
    for name in names:
        if name not in DELIVERIES.names:
            raise UsageError(f"a group has no column {name!r}; it has: {', '.join(DELIVERIES.names)}")
    return pa.schema([DELIVERIES.field(name) for name in names])


def _read(options: GroupOptions, partition: InputPartition, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, OffsetRange):
        return
    held: list[HeldBatch] = []
    count = 0
    holder, on_lost = options.holder(partition.group), options.on_lost(partition.group)
    for batch in holder.read(partition.start, partition.stop, on_lost):
        held.append(batch)
        count += batch.count
        if count >= BATCH_ROWS:
            yield _record_batch(partition, held, schema)
            held, count = [], 0
    if held:
        yield _record_batch(partition, held, schema)


def _record_batch(partition: OffsetRange, held: Sequence[HeldBatch], schema: pa.Schema) -> pa.RecordBatch:
    """The messages of bundles, in columns. What those of a bundle have in common is looked at once for each bundle, and
    nothing in Python for each message."""
    found = [batch.messages() for batch in held]
    bundle = np.repeat(np.arange(len(held)), [len(payloads) for payloads in found])
    index = np.concatenate(
        [
            np.arange(len(payloads))
            if batch.places is None
            else np.array(batch.places[: len(payloads)], dtype=np.int64)
            for batch, payloads in zip(held, found, strict=True)
        ]
    )
    offset = np.array([batch.offset for batch in held])[bundle] + index
    first, last = np.searchsorted(offset, (partition.start, partition.stop))
    bundle, index, offset = bundle[first:last], index[first:last], offset[first:last]

    def of_bundles(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(pa.array(bundle))

    def column(field: pa.Field) -> pa.Array:
        match field.name:
            case "group":
                return pa.repeat(pa.scalar(partition.group, field.type), len(offset))
            case "offset":
                return pa.array(offset)
            case "message":
                names = of_bundles([str(batch.bundle) for batch in held], field.type)
                return pc.binary_join_element_wise(names, pc.cast(pa.array(index), field.type), "/")
            case "source":
                return of_bundles([batch.bundle.source for batch in held], field.type)
            case "source_seq":
                return of_bundles([batch.bundle.number for batch in held], field.type)
            case "payload":
                return pa.array(list(chain.from_iterable(found))[first:last], field.type)
            case "time":
                return of_bundles([round(batch.time * 1e6) if batch.time else None for batch in held], field.type)
            case _:
                return of_bundles([batch.view or None for batch in held], field.type)

    return pa.record_batch([column(field) for field in schema], schema=schema)
