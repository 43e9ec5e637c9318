"""A group is read from the log of a process that does not run, and the log stays as it is."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ordercast.core.errors import UsageError
from ordercast.spark.source.data_source import OrdercastSource, group_options
from ordercast.spark.source.group import GroupReader
from tests.spark.test_groups import COLUMNS, Cluster, rows, write_configuration


def stopped(folder: Path, protocol: str, count: int = 30) -> Cluster:
    """Processes with logs that have delivered so many messages, and have ended."""
    cluster = Cluster(folder, protocol=protocol, log_directory=str(folder / "log"))
    cluster.send(0, count)
    for name in list(cluster.nodes):
        cluster.stop(name)
    return cluster


def digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


@pytest.mark.parametrize("protocol", ["sequencer", "token", "three-step"])
def test_what_was_delivered_is_read_by_offset_and_nothing_is_changed(tmp_path: Path, protocol: str) -> None:
    cluster = stopped(tmp_path, protocol)
    before = digest(tmp_path / "log")
    options = group_options(cluster.options(atRest="true", startingOffset="3", endingOffset="20"), "earliest")
    found = rows(GroupReader(options, COLUMNS))
    assert [(row["offset"], row["payload"]) for row in found] == [(n, str(n).encode()) for n in range(3, 20)]
    assert {(row["group"], row["source"], row["time"]) for row in found} == {("g", "a", None)}
    whole = rows(GroupReader(group_options(cluster.options(atRest="true", process="b"), "earliest"), COLUMNS))
    assert [row["offset"] for row in whole] == list(range(30))
    assert digest(tmp_path / "log") == before


def test_spark_reads_a_log_at_rest(spark: SparkSession, tmp_path: Path) -> None:
    cluster = stopped(tmp_path, "sequencer")
    read = spark.read.format("ordercast").options(**cluster.options(atRest="true")).load()
    assert [bytes(row.payload) for row in read.orderBy("offset").collect()] == [str(n).encode() for n in range(30)]


def test_a_log_that_cannot_be_read_is_said_in_one_line(tmp_path: Path) -> None:
    def asked(**more: str) -> GroupReader:
        return GroupReader(group_options(cluster.options(atRest="true", **more), "earliest"), COLUMNS)

    cluster = Cluster(tmp_path, log_directory=str(tmp_path / "log"))
    try:
        cluster.send(0, 3)
        with pytest.raises(UsageError, match=r"a runs with the log .*: read its groups from the node"):
            asked().partitions()
    finally:
        for name in list(cluster.nodes):
            cluster.stop(name)
    with pytest.raises(UsageError, match="there is no group 'x'"):
        GroupReader(group_options(cluster.options("x", atRest="true"), "earliest"), COLUMNS).partitions()
    with pytest.raises(UsageError, match=r"does not go on: read it with spark.read"):
        OrdercastSource(cluster.options(atRest="true")).streamReader(StructType())
    (segment,) = (tmp_path / "log" / "b" / "main").glob("*.log")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:40] + bytes(8) + whole[48:])
    with pytest.raises(UsageError, match="log"):
        asked(process="b").partitions()
    shutil.rmtree(tmp_path / "log" / "c")
    with pytest.raises(UsageError, match="there is no log of a member of group 'g'"):
        asked(process="c").partitions()
    bare = {"config": str(write_configuration(tmp_path)), "group": "g", "atRest": "true"}
    with pytest.raises(UsageError, match="has no log_directory"):
        GroupReader(group_options(bare, "earliest"), COLUMNS).partitions()
