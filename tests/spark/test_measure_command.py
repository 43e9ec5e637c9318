"""`ordercast measure`: its document, its page, its tables, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ordercast.cli import main
from ordercast.cli.measure.tables import number_with_interval, seconds_text, seconds_with_interval
from ordercast.trace import read_events
from tests.spark.traces import by_hand

ROWS = """
    @0.0 a multicast m1 g
    @0.1 a send p1 peer=b messages=m1 packet=Data size=100
    @0.2 b receive p1 peer=a messages=m1 packet=Data size=100
    @0.2 b deliver m1
    @0.3 a deliver m1
    @1.5 a multicast m2 g
    @1.6 a send p2 peer=b messages=m2 packet=Data size=100
    @1.7 b drop p2 messages=m2 packet=Data reason=loss
    @1.7 a deliver m2
    @2.6 a send p3 peer=b messages=m2 packet=Data size=100
    @2.7 b receive p3 peer=a messages=m2 packet=Data size=100
    @2.7 b deliver m2
"""
KEYS = {
    "latency": {
        *("protocol", "at", "runs", "count", "negative", "min", "max", "mean", "p50", "p90", "p99", "p999"),
        *(f"{name}_{end}" for name in ("mean", "p50", "p90", "p99", "p999") for end in ("low", "high")),
        *("units", "unit_count"),
    },
    "throughput": {
        *("protocol", "runs", "seconds", "multicasts", "messages", "completed", "deliveries", "units", "unit_count"),
        *(
            f"{name}_per_second{end}"
            for name in ("messages", "completed", "deliveries")
            for end in ("", "_low", "_high")
        ),
    },
    "packets": {
        *("protocol", "background", "packet", "runs", "packets", "bytes", "multicasts", "units", "unit_count"),
        *(f"{name}_per_multicast{end}" for name in ("packets", "bytes") for end in ("", "_low", "_high")),
    },
    "load": {"protocol", "site", "sends", "receives", "load", "bytes", "load_per_multicast"},
    "retransmissions": {"protocol", "packet", "packets", "repeated_messages", "share"},
    "drops": {"protocol", "reason", "packets", "share"},
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return by_hand(tmp_path_factory.mktemp("command") / "trace", ROWS, "g:a,b", protocol="fan-2", form="jsonl")


@pytest.fixture(autouse=True)
def session(spark: SparkSession) -> SparkSession:
    """The commands of these tests share it."""
    return spark


def refused(capfd: pytest.CaptureFixture[str], *words: str | Path) -> str:
    capfd.readouterr()
    assert main(["measure", *map(str, words)]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


def test_json_is_one_document_and_the_report_one_page(
    trace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", str(trace), "--json", "--report", str(tmp_path / "page")]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    document: dict[str, Any] = json.loads(captured.out)
    assert {name: document[name] for name in ("trace", "by", "window_seconds", "runs", "events")} == {
        "trace": str(trace),
        "by": "protocol",
        "window_seconds": None,
        "runs": 1,
        "events": 12,
    }
    assert (document["confidence"], document["quantiles"]) == (0.95, "exact")
    assert document["views"] == []
    for measure, keys in KEYS.items():
        assert document[measure], measure
        assert {frozenset(row) for row in document[measure]} == {frozenset(keys)}
    assert {row["at"]: row["count"] for row in document["latency"]} == {"all": 2, "each": 4}
    page = (tmp_path / "page" / "index.html").read_text()
    assert page.count("<svg") == 4
    for words in (
        "Latency",
        "Throughput over time",
        "Load of the sites",
        "Packets by type",
        "retransmissions",
        "fan-2",
    ):
        assert words in page
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )


def test_tables_for_people_by_window(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", str(trace), "--by", "window", "--window", "1"]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    assert "1 run, 12 events" in captured.out
    for words in ("latency", "throughput", "packets", "load", "retransmissions", "drops", "0 to 1", "2 to 3"):
        assert words in captured.out
    assert "none: background packets, views" in captured.out


def test_misuse_is_refused_before_spark_is_asked(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "--by window needs --window SECONDS" in refused(capfd, trace, "--by", "window")
    for window in ("0", "-1", "nan", "inf"):
        assert "longer than 0 seconds" in refused(capfd, trace, "--window", window)
    assert "there is no such folder" in refused(capfd, trace / "nowhere")
    assert "is no Spark master" in refused(capfd, trace, "--master", "nonsense")
    assert "cannot be made a folder" in refused(capfd, trace, "--report", trace / "events.jsonl")


@pytest.mark.parametrize(
    ("column", "value", "complaint"),
    [
        ("kind", "mulitcast", "unknown kind 'mulitcast'; did you mean 'multicast'?"),
        ("time", float("nan"), "row 3 has the time nan"),
        ("time", None, "row 3 has no 'time'"),
        ("message", None, "'multicast' without 'message'"),
    ],
)
def test_a_parquet_trace_with_values_that_cannot_be_is_refused(
    column: str, value: Any, complaint: str, trace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad" / "events").mkdir(parents=True)
    (tmp_path / "bad" / "runs.jsonl").write_bytes((trace / "runs.jsonl").read_bytes())
    table = read_events(trace)
    changed = table.column(column).to_pylist()
    row = table.column("kind").to_pylist().index("multicast") if column in ("kind", "message") else 2
    changed[row] = value
    table = table.set_column(
        table.schema.get_field_index(column), column, pa.array(changed, table.schema.field(column).type)
    )
    pq.write_table(table, tmp_path / "bad" / "events" / "part-00000.parquet")
    assert complaint in refused(capfd, tmp_path / "bad")


def test_a_json_trace_that_cannot_be_read_is_refused(
    trace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs.jsonl").write_bytes((trace / "runs.jsonl").read_bytes())
    (tmp_path / "events.jsonl").write_bytes((trace / "events.jsonl").read_bytes() + b'{"run": "run", "site"\n')
    assert "line 13" in refused(capfd, tmp_path)


def test_a_trace_without_events_has_nothing_to_measure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = by_hand(tmp_path / "trace", "", "g:a,b")
    assert main(["measure", str(folder)]) == 0
    assert "0 events" in capfd.readouterr().out


def test_numbers_for_people_have_three_digits_and_one_unit() -> None:
    assert [seconds_text(number) for number in (None, 0.0, 0.00012345, 0.5, 12.345, 12345.6)] == [
        *("–", "0 µs", "123 µs", "500 ms", "12.3 s", "12,346 s"),
    ]
    assert seconds_with_interval(0.002, 0.0005, 1.5) == "2 [0.5, 1,500] ms"
    assert seconds_with_interval(0.002, None, None) == "2 ms"
    assert number_with_interval(2.5, 0.0, 1e6) == "2.5 [0, 1,000,000]"
