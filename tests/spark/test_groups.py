"""Groups of running nodes as Spark's sources and sinks: every message once, in the order of its offsets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import ordercast
from ordercast.core.errors import UsageError
from ordercast.node.runs import decode_messages
from ordercast.node.serving.packets import RUN_BYTES_MAX
from ordercast.spark.source.data_source import OrdercastSource, group_options, sink_options
from ordercast.spark.source.group import GroupReader, GroupStreamReader
from ordercast.spark.source.members import find_members
from ordercast.spark.source.sink import Rows, multicast_rows, name_of_checkpoint, number_runs, pack
from tests.node.cluster import make_configuration

COLUMNS = ["group", "offset", "message", "source", "source_seq", "payload", "time", "view"]


class Cluster:
    """Three nodes with two groups, in threads."""

    def __init__(self, folder: Path, **keys: Any) -> None:
        self.config = write_configuration(folder, **keys)
        self.nodes = {name: ordercast.open_synchronous(self.config, name) for name in "abc"}
        for node in self.nodes.values():
            node.__enter__()

    def stop(self, name: str) -> None:
        self.nodes.pop(name).__exit__(None, None, None)

    def send(self, first: int, count: int, group: str = "g") -> None:
        """Messages with numbers; done when the group has ordered them."""
        payloads = [str(number).encode() for number in range(first, first + count)]
        self.nodes["a"].multicast_many(payloads[:-1], [group])
        self.nodes["a"].multicast(payloads[-1], [group], confirm=True)

    def options(self, group: str = "g", **more: str) -> dict[str, str]:
        return {"config": str(self.config), "group": group, **more}


def write_configuration(folder: Path, **keys: Any) -> Path:
    """The file that describes them."""
    made = make_configuration("abc", groups={"g": list("abc"), "h": ["a", "b"]}, **keys)
    made["control"] = f"unix:{folder}/{{process}}.sock"
    tables = {name: made.pop(name) for name in ("processes", "groups")}
    lines = [f"{name} = {_toml(value)}" for name, value in made.items()]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    file = folder / "cluster.toml"
    file.write_text("\n".join(lines))
    return file


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, list | int) else f'"{value}"'


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    for name in list(made.nodes):
        made.stop(name)


def rows(reader: Any, *between: dict[str, int]) -> list[dict[str, Any]]:
    parts = reader.partitions(*between)
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def test_a_range_of_offsets_is_read_with_all_that_is_known_of_it(cluster: Cluster) -> None:
    cluster.send(0, 10)
    options = group_options(cluster.options(startingOffset="3", endingOffset="7"), "earliest")
    found = rows(GroupReader(options, COLUMNS))
    assert [(row["offset"], row["payload"]) for row in found] == [(n, str(n).encode()) for n in range(3, 7)]
    assert {row["group"] for row in found} == {"g"}
    assert {row["source"] for row in found} == {"a"}
    assert all(row["message"].startswith("a:0:") and row["time"].year >= 2024 for row in found)


def test_another_member_goes_on_where_one_has_ended(cluster: Cluster) -> None:
    cluster.send(0, 10)
    members = find_members(str(cluster.config), "g", None)
    assert [name for name, _ in members.sockets] == ["a", "b", "c"]
    assert members.extent() == (0, 10)
    cluster.stop("a")
    on_lost = group_options(cluster.options(), "earliest").on_lost("g")
    found = [payload for held in members.read(0, 10, on_lost) for payload in held.messages()]
    assert found == [b"%d" % number for number in range(10)]


def test_a_stream_has_its_share_of_each_group_and_stops_at_what_there_was(cluster: Cluster) -> None:
    cluster.send(0, 30)
    cluster.send(0, 5, "h")
    reader = GroupStreamReader(group_options(cluster.options("g,h", maxOffsetsPerTrigger="20"), "earliest"), COLUMNS)
    start = reader.initialOffset()
    assert start == {"g": 0, "h": 0}
    limit = reader.getDefaultReadLimit()
    assert reader.latestOffset(start, limit) == {"g": 10, "h": 5}
    reader.prepareForTriggerAvailableNow()
    cluster.send(30, 10)
    assert reader.latestOffset({"g": 20, "h": 5}, limit) == {"g": 30, "h": 5}
    found = rows(reader, {"g": 8, "h": 4}, {"g": 12, "h": 5})
    assert [(row["group"], row["offset"]) for row in found] == [*(("g", n) for n in range(8, 12)), ("h", 4)]
    for name in "abc":
        cluster.stop(name)
    assert reader.latestOffset({"g": 20, "h": 5}, limit) == {"g": 30, "h": 5}
    assert reader.reportLatestOffset() == {"g": 40, "h": 5}


def test_what_is_no_longer_held_is_an_error_with_the_lowest_offset_or_a_counted_gap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(tmp_path, history_bytes=1000)
    try:
        for number in range(0, 300, 10):
            cluster.send(number, 10)
        first = find_members(str(cluster.config), "g", None).extent().first
        assert 0 < first < 300
        strict = GroupReader(group_options(cluster.options(startingOffset="0"), "earliest"), COLUMNS)
        with pytest.raises(UsageError, match=rf"offset 0 of group 'g' is no longer held; the lowest that is: {first} "):
            strict.partitions()
        lenient = group_options(cluster.options(failOnDataLoss="false"), "earliest")
        found = rows(GroupStreamReader(lenient, COLUMNS), {"g": 0}, {"g": 300})
        assert [row["offset"] for row in found] == list(range(first, 300))
        assert f"{first} messages of group 'g' are lost: 0 to {first - 1}" in capsys.readouterr().err
    finally:
        for name in "abc":
            cluster.stop(name)


def test_a_batch_that_is_written_again_adds_what_is_missing_and_nothing_else(cluster: Cluster) -> None:
    options = sink_options(cluster.options(query="q"), None)
    payloads = [str(number).encode() * 10 for number in range(6000)] + [bytes(700_000)]
    both = [Rows(1, pack(payloads[5000:])), Rows(0, pack(payloads[:5000]))]
    multicast_rows(options, both, 6)
    # The first attempt dies in the middle; in the second one rows are packed otherwise; the third one follows at once.
    options.members().send(options.client, number_runs(pack(payloads[:5000]), 7, 0)[:3])
    multicast_rows(options, [Rows(0, pack(payloads[:10])), Rows(1, pack(payloads[10:]))], 7)
    cluster.stop("c")
    multicast_rows(options, both, 7)
    found = rows(GroupReader(group_options(cluster.options(), "earliest"), COLUMNS))
    assert [row["payload"] for row in found] == payloads * 2
    with pytest.raises(UsageError, match=r"has batch 7 of query 'q' already, and this is batch 3: .* another name"):
        multicast_rows(options, both, 3)


def test_runs_are_full_and_hold_every_row(tmp_path: Path) -> None:
    payloads = [b"", bytes(RUN_BYTES_MAX * 2), *(bytes(number % 997) for number in range(5000)), b""]
    packs = pack(payloads)
    assert [payload for count, packed in packs for payload in decode_messages(packed, count)] == payloads
    assert all(len(packed) <= RUN_BYTES_MAX or count == 1 for count, packed in packs)
    assert len(packs) < 3 + sum(map(len, payloads)) / (RUN_BYTES_MAX - 6000)
    assert pack([]) == []


def test_a_query_that_begins_anew_in_a_folder_of_the_same_name_has_another_name(tmp_path: Path) -> None:
    assert name_of_checkpoint(str(tmp_path)) == str(tmp_path)
    (tmp_path / "metadata").write_text('{"id":"cb3d"}')
    assert name_of_checkpoint(str(tmp_path)) == "cb3d"
    assert name_of_checkpoint("nowhere://x") == "nowhere://x"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"group": "x"}, "there is no group 'x' in .*; known: g, h"),
        ({"group": ""}, "the option group is missing"),
        ({"process": "z"}, "there is no process 'z' in .*; known: a, b, c"),
        ({"group": " , "}, "the option group names a group, or several, separated by commas, not ' , '"),
        ({"startingOffset": "soon"}, "the option startingOffset is a whole number, 0 or more, not 'soon'"),
        ({"timeout": "1.5"}, "the option timeout is a whole number, 0 or more, not '1.5'"),
        ({"maxOffsetsPerTrigger": "0"}, "the option maxOffsetsPerTrigger is a whole number, 1 or more, not '0'"),
        ({"path": "trace"}, "the option path is for traces, and a group is asked for"),
        ({"failOnDataLoss": "perhaps"}, "the option failOnDataLoss is true or false"),
        ({"startingOfset": "1"}, "no option 'startingOfset'; the nearest is 'startingOffset'"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(tmp_path: Path, options: dict[str, str], expected: str) -> None:
    asked = {"config": str(write_configuration(tmp_path)), "group": "g"} | options
    with pytest.raises(UsageError, match=expected):
        OrdercastSource(asked).reader(StructType()).partitions()


def test_a_group_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    asked = group_options({"config": str(write_configuration(tmp_path)), "group": "h, g,h"}, "earliest")
    assert asked.groups == ["h", "g"]


def test_spark_says_when_no_node_answers(spark: SparkSession, tmp_path: Path) -> None:
    asked = {"config": str(write_configuration(tmp_path)), "group": "g"}
    with pytest.raises(PySparkException, match=r"no node with group 'g' answers \(asked: a, b, c\)"):
        spark.read.format("ordercast").options(**asked).load().count()


def test_a_query_goes_on_where_its_checkpoint_says_and_what_it_writes_is_there_once(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    source = spark.readStream.format("ordercast").options(
        **cluster.options(startingOffset="earliest", maxOffsetsPerTrigger="40")
    )

    def run_query() -> None:
        copy = source.load().selectExpr("payload").writeStream.format("ordercast").options(**cluster.options("h"))
        copy = copy.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        assert copy.start().awaitTermination(900)

    cluster.send(0, 60)
    run_query()
    cluster.send(60, 40)
    cluster.stop("c")
    run_query()
    found = spark.read.format("ordercast").options(**cluster.options("h")).load().orderBy("offset").collect()
    assert [row.offset for row in found] == list(range(100))
    assert [bytes(row.payload) for row in found] == [str(number).encode() for number in range(100)]


def test_rows_are_written_in_their_order_and_need_a_payload(spark: SparkSession, cluster: Cluster) -> None:
    frame = spark.createDataFrame(pa.table({"payload": [f"row {number}" for number in range(20)]}))
    frame.coalesce(1).write.format("ordercast").mode("append").options(**cluster.options()).save()
    found = rows(GroupReader(group_options(cluster.options(), "earliest"), COLUMNS))
    assert [row["payload"] for row in found] == [f"row {number}".encode() for number in range(20)]
    with pytest.raises(PySparkException, match="rows for a group need a column payload"):
        frame.toDF("text").write.format("ordercast").mode("append").options(**cluster.options()).save()
