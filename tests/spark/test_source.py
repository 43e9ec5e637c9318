"""`spark.read.format("ordercast")`: every event of a trace, by name, with conditions and columns handed down."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as given

from ordercast.core.errors import UsageError
from ordercast.spark.source import register
from ordercast.spark.source.filters import split
from ordercast.spark.source.trace import FilteringTraceReader, TraceReader, find_files
from ordercast.trace import EVENTS, read_events
from tests.spark.test_measure_naive import random_traces
from tests.spark.traces import by_hand, write_per_site, write_scattered

TEXT = "@1 a multicast m g\n@2 a deliver m\n@3 b deliver m\n@4 c deliver m"
ORDER = [("run", "ascending"), ("site", "ascending"), ("seq", "ascending")]


def load(spark: SparkSession, folder: Path | str, **options: str) -> DataFrame:
    return spark.read.format("ordercast").options(**options).load(str(folder))


def test_a_session_finds_the_format_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    folder = by_hand(tmp_path / "trace", TEXT)
    found = load(spark, folder)
    assert found.columns == EVENTS.names
    assert found.where("kind = 'deliver'").count() == 3


def test_after_registering_conditions_are_handed_down(spark: SparkSession, tmp_path: Path) -> None:
    folder = by_hand(tmp_path / "trace", TEXT)
    own = spark.newSession()
    register(own)
    found = load(own, folder).where("kind = 'deliver' and time > 2.5").select("site")
    assert sorted(row.site for row in found.collect()) == ["b", "c"]
    # Nothing is left for Spark to sort out.
    assert "Filter" not in found._jdf.queryExecution().optimizedPlan().toString()


@pytest.mark.parametrize("layout", ["scattered", "per-site", "jsonl"])
def test_every_row_is_there_once_whatever_the_layout(spark: SparkSession, tmp_path: Path, layout: str) -> None:
    traced = random_traces()[:6]
    if layout == "scattered":
        folder = write_scattered(tmp_path / "trace", traced, files=3)
    elif layout == "per-site":
        folder = write_per_site(tmp_path / "trace", traced)
    else:
        folder = by_hand(tmp_path / "trace", TEXT, form="jsonl")
    found = load(spark, folder).toArrow().cast(EVENTS)
    assert found.sort_by(ORDER).equals(read_events(folder).sort_by(ORDER))


def test_one_partition_a_file_and_a_uri_is_as_good_as_a_path(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_scattered(tmp_path / "trace", random_traces()[:2], files=3)
    assert load(spark, folder).rdd.getNumPartitions() == 3
    assert len(find_files(f"file://{folder}")) == 3
    assert load(spark, f"file://{folder}").count() == load(spark, folder).count()


def test_a_schema_of_fewer_columns_reads_only_those(spark: SparkSession, tmp_path: Path) -> None:
    folder = by_hand(tmp_path / "trace", TEXT)
    found = spark.read.format("ordercast").schema("site string, kind string").load(str(folder))
    assert sorted(map(tuple, found.collect())) == [
        ("a", "deliver"),
        ("a", "multicast"),
        ("b", "deliver"),
        ("c", "deliver"),
    ]


def test_conditions_are_taken_over_where_a_file_can_be_read_by_them() -> None:
    mine: list[given.Filter] = [
        given.EqualTo(("kind",), "deliver"),
        given.GreaterThan(("time",), 2.5),
        given.In(("site",), ("a", "b")),
        given.IsNotNull(("message",)),
        given.Not(given.EqualTo(("site",), "c")),
    ]
    others: list[given.Filter] = [given.StringContains(("message",), "m"), given.EqualTo(("groups", "x"), "g")]
    assert split([*mine, *others]) == (mine, others)


def test_what_a_condition_rules_out_is_not_handed_over(tmp_path: Path) -> None:
    folder = by_hand(tmp_path / "trace", TEXT)
    reader = FilteringTraceReader(str(folder), ["site", "kind"], skip_corrupt=False)
    left = reader.pushFilters([given.EqualTo(("kind",), "deliver"), given.GreaterThan(("time",), 2.5)])
    assert list(left) == []
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert rows == [{"site": "b", "kind": "deliver"}, {"site": "c", "kind": "deliver"}]


@pytest.mark.parametrize(
    "condition", ["message in ('m')", "message not in ('m')", "not (message = 'm')", "time <> 2.0"]
)
def test_a_null_fulfils_what_it_fulfils_in_sql(spark: SparkSession, tmp_path: Path, condition: str) -> None:
    folder = by_hand(tmp_path / "trace", TEXT + "\n@5 a fail\n@6 a multicast n g")
    own = spark.newSession()
    register(own)
    wanted = [row.seq for row in load(spark, folder).where(condition).orderBy("site", "seq").collect()]
    assert [row.seq for row in load(own, folder).where(condition).orderBy("site", "seq").collect()] == wanted


def test_a_condition_on_a_column_that_the_file_leaves_out_is_understood(spark: SparkSession, tmp_path: Path) -> None:
    folder = by_hand(tmp_path / "trace", TEXT)
    (file,) = (folder / "events").iterdir()
    table = pq.read_table(file)
    pq.write_table(table.select(["run", "site", "seq", "time", "kind", "message"]), file)
    assert load(spark, folder).where("reason is null").count() == 4
    assert load(spark, folder).where("reason = 'lost'").count() == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("missing", "there is no such folder"),
        ("empty", "no runs.jsonl here or one level below"),
        ("option", "has no option 'paht'; the nearest is 'path'"),
        ("column", "a trace has no column 'sitee'; the nearest is 'site'"),
        ("corrupt", "the option skipCorrupt leaves such files out"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(
    spark: SparkSession, tmp_path: Path, words: str, expected: str
) -> None:
    folder = by_hand(tmp_path / "trace", TEXT)
    reader = spark.read.format("ordercast")
    (tmp_path / "empty").mkdir()
    if words == "option":
        reader = reader.option("paht", "x")
    elif words == "column":
        reader = reader.schema("sitee string")
    elif words == "corrupt":
        (folder / "events" / "more.parquet").write_bytes(b"PAR1 but no more")
    wanted = tmp_path / words if words in ("missing", "empty") else folder
    with pytest.raises(PySparkException, match=expected):
        reader.load(str(wanted)).count()


def test_of_a_file_that_is_left_out_no_row_before_the_damage_is_handed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = by_hand(tmp_path / "trace", TEXT)
    (file,) = (folder / "events").iterdir()
    # More groups of rows than pyarrow reads ahead.
    table = pa.concat_tables([pq.read_table(file)] * 10_000)
    pq.write_table(table, file, row_group_size=1000, compression="none")
    metadata = pq.read_metadata(file)
    at = metadata.row_group(metadata.num_row_groups - 1).column(table.schema.names.index("seq")).data_page_offset
    content = bytearray(file.read_bytes())
    content[at : at + 60] = b"\xff" * 60
    file.write_bytes(content)
    lenient, strict = (TraceReader(str(folder), ["seq"], skip) for skip in (True, False))
    (partition,) = lenient.partitions()
    assert list(lenient.read(partition)) == []
    assert f"a file is left out: {file}: " in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"part-00000.parquet: .*; the option skipCorrupt leaves such files out"):
        list(strict.read(partition))


def test_a_corrupt_file_may_be_left_out(spark: SparkSession, tmp_path: Path) -> None:
    folder = by_hand(tmp_path / "trace", TEXT)
    (folder / "events" / "more.parquet").write_bytes(b"PAR1 but no more")
    assert load(spark, folder, skipCorrupt="true").count() == 4
