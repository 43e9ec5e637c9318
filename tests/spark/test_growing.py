"""A trace that is still being written, read as a stream: every whole line once. Spark itself is not needed for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from pyspark.sql.types import StructType

from ordercast.core.errors import UsageError
from ordercast.spark.source.data_source import OrdercastSource
from ordercast.spark.source.growing import TraceStreamReader

NAMES = ["site", "seq", "message"]
ALL = ReadAllAvailable()


def line(site: str, seq: int, message: str = "m") -> bytes:
    return f'{{"run":"r","site":"{site}","seq":{seq},"time":1.0,"kind":"deliver","message":"{message}"}}\n'.encode()


def begin(folder: Path, site: str) -> Path:
    """The trace of a process that has just begun."""
    own = folder / site
    own.mkdir()
    (own / "runs.jsonl").write_text('{"run":"r"}\n')
    return own / "events.jsonl"


def read(reader: TraceStreamReader, start: dict[str, int], end: dict[str, int]) -> list[tuple[Any, ...]]:
    parts = reader.partitions(start, end)
    return [tuple(row.values()) for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def test_lines_are_read_when_they_are_whole_and_once_also_those_of_processes_that_come_later(tmp_path: Path) -> None:
    reader = TraceStreamReader(str(tmp_path), NAMES, None)
    assert reader.initialOffset() == {}
    of_a = begin(tmp_path, "a")
    assert reader.latestOffset({}, ALL) == {}
    of_a.write_bytes(line("a", 0) + line("a", 1) + line("a", 2)[:20])
    first = reader.latestOffset({}, ALL)
    assert read(reader, {}, first) == [("a", 0, "m"), ("a", 1, "m")]
    assert reader.latestOffset(first, ALL) == first
    with of_a.open("ab") as file:
        file.write(line("a", 2)[20:])
    begin(tmp_path, "b").write_bytes(line("b", 0))
    # One that was started again goes on where its checkpoint says.
    second = TraceStreamReader(str(tmp_path), NAMES, None).latestOffset(first, ALL)
    assert read(reader, first, second) == [("a", 2, "m"), ("b", 0, "m")]


def test_a_batch_has_so_many_bytes_but_never_less_than_a_line(tmp_path: Path) -> None:
    size = len(line("a", 0))
    begin(tmp_path, "a").write_bytes(b"".join(line("a", seq) for seq in range(8)) + line("a", 8, "m" * 200_000))
    begin(tmp_path, "b").write_bytes(line("b", 0))
    reader = TraceStreamReader(str(tmp_path), NAMES, 4 * size + 2)
    limit = reader.getDefaultReadLimit()
    at: dict[str, int] = {}
    batches = []
    while (end := reader.latestOffset(at, limit)) != at:
        batches.append([(site, seq) for site, seq, _ in read(reader, at, end)])
        at = end
    assert batches[:2] == [[("a", 0), ("a", 1), ("b", 0)], [("a", 2), ("a", 3)]]
    assert batches[-1] == [("a", 8)]
    assert sorted(row for batch in batches for row in batch) == [*(("a", seq) for seq in range(9)), ("b", 0)]


def test_a_query_that_stops_at_what_there_is_leaves_the_rest(tmp_path: Path) -> None:
    of_a = begin(tmp_path, "a")
    of_a.write_bytes(line("a", 0))
    reader = TraceStreamReader(str(tmp_path), NAMES, None)
    reader.prepareForTriggerAvailableNow()
    with of_a.open("ab") as file:
        file.write(line("a", 1))
    end = reader.latestOffset({}, ReadMaxBytes(1 << 20))
    assert read(reader, {}, end) == [("a", 0, "m")]
    assert reader.latestOffset(end, ReadMaxBytes(1 << 20)) == end


def test_what_cannot_be_read_on_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such folder"):
        TraceStreamReader(str(tmp_path / "nowhere"), NAMES, None).initialOffset()
    of_a = begin(tmp_path, "a")
    of_a.write_bytes(line("a", 0) + b"{broken\n")
    reader = TraceStreamReader(str(tmp_path), NAMES, None)
    end = reader.latestOffset({}, ALL)
    with pytest.raises(UsageError, match=r"a/events.jsonl, from byte 0, line 2: .*correct or remove the line"):
        read(reader, {}, end)
    of_a.write_bytes(b"")
    with pytest.raises(UsageError, match="is shorter than what has been read of it"):
        reader.latestOffset(end, ALL)
    source = OrdercastSource({"path": str(tmp_path), "maxBytesPerTrigger": "many"})
    with pytest.raises(UsageError, match="the option maxBytesPerTrigger is a whole number, 1 or more, not 'many'"):
        source.streamReader(StructType())
