"""`ordercast watch`: a cluster's traces, looked at while they grow."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from ordercast.cli import main
from ordercast.core.errors import UsageError
from ordercast.spark.watch import Outlets
from tests.check.build import describe, events

CLAIMS = ("integrity", "no-duplication", "multiple-group-order", "uniform-agreement")
FIRST = "@1 a multicast m g\n@1.5 b multicast n g\n@2 a deliver m\n@2.5 b deliver n\n@3 a deliver n"
THEN = "@4 b deliver m\n@5 c deliver n\n@6 c deliver m"


def add(folder: Path, text: str, begin: int) -> None:
    """What each process has written."""
    for row in events(text).to_pylist():
        own = folder / row["site"]
        if not own.exists():
            own.mkdir(parents=True)
            (own / "runs.jsonl").write_bytes(msgspec.json.encode(describe("g:a,b,c", CLAIMS)) + b"\n")
        line = {name: value for name, value in row.items() if value is not None} | {"seq": begin + row["seq"]}
        with (own / "events.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def test_a_violation_is_told_when_it_is_there_and_once_also_after_a_restart(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, table = tmp_path / "trace", tmp_path / "alerts"
    command = ["watch", str(trace), "--once", "--json", "--checkpoint", str(tmp_path / "state"), "--table", str(table)]
    add(trace, FIRST, 0)
    assert main(command) == 0
    assert capsys.readouterr().out == ""
    add(trace, THEN, 100)
    assert main(command) == 1
    alerts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(alert["property"], alert["sites"], alert["messages"]) for alert in alerts] == [
        ("multiple-group-order", ["b", "a"], ["m", "n"]),
        ("multiple-group-order", ["c", "a"], ["m", "n"]),
    ]
    assert [row.why for row in spark.read.parquet(str(table)).orderBy("time").collect()] == [
        alert["why"] for alert in alerts
    ]
    assert main(command) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name the traces to watch: ordercast watch TRACE, or ordercast watch --config FILE"),
        (["nowhere"], "nowhere"),
        (["nowhere", "--webhook", "localhost"], "a webhook is a web address, http://… or https://…, not 'localhost'"),
    ],
)
def test_what_cannot_be_watched_is_said_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_a_table_of_a_kind_that_spark_does_not_have_is_refused_before_there_is_an_alert(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(tmp_path / "trace", FIRST, 0)
    for words in (["watch", str(tmp_path / "trace"), "--once", "--table"], ["history"]):
        assert main([*words, str(tmp_path / "table"), "--table-format", "delta"]) == 2
        assert "Spark has no format 'delta': put its package on the class path" in capsys.readouterr().err


def test_a_web_server_that_does_not_listen_is_named_and_the_watch_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    outlets = Outlets(lambda alert: None, webhook="http://127.0.0.1:1/alerts")
    outlets._post([{"why": "x"}])
    assert "http://127.0.0.1:1/alerts has not taken 1 alerts" in capsys.readouterr().err
    with pytest.raises(UsageError, match="a webhook is a web address"):
        Outlets(lambda alert: None, webhook="ftp://x")
