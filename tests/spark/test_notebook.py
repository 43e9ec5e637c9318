"""Traces in a session of the user's own."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ordercast.core.errors import UsageError
from ordercast.spark.notebook import measure, read_trace, verify
from tests.spark.traces import by_hand

PROJECT = Path(__file__).parents[2]

TEXT = "@1 a multicast m g\n@2 a deliver m\n@3 b deliver m\n@4 c deliver m\n@5 b deliver m"


def test_events_are_read_verified_and_measured_as_tables(spark: SparkSession, tmp_path: Path) -> None:
    events = read_trace(spark, str(by_hand(tmp_path / "trace", TEXT)))
    assert events.where("kind = 'deliver'").count() == 4
    found = {row.property: row.verdict for row in verify(events, ["integrity", "no-duplication"]).collect()}
    assert found == {"integrity": "holds", "no-duplication": "violated"}
    # A condition on the events is one on what is judged.
    only_once = verify(events.where("time < 5"), ["no-duplication"]).collect()
    assert [row.verdict for row in only_once] == ["holds"]
    tables = measure(events)
    assert tables["throughput"].collect()[0].deliveries == 3
    with pytest.raises(UsageError, match="by is 'protocol' or 'run', not 'site'"):
        measure(events, by="site")


def test_what_is_missing_is_said_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no such folder|no runs\.jsonl"):
        read_trace(spark, str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match=r"begin with read_trace\(spark, path\)"):
        verify(spark.range(1).toDF("run"))
    events = read_trace(spark, str(by_hand(tmp_path / "trace", TEXT)))
    with pytest.raises(UsageError, match="these events have no column 'seq'"):
        verify(events.drop("seq"))


def test_the_notebook_of_the_documents_prints_what_it_shows(spark: SparkSession) -> None:
    specification = importlib.util.spec_from_file_location("make", PROJECT / "examples" / "notebook" / "make.py")
    assert specification is not None
    assert specification.loader is not None
    make = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(make)
    made = make.run_cells(make.read_cells(make.CELLS.read_text()))
    assert json.loads(make.NOTEBOOK.read_text())["cells"] == made, "python examples/notebook/make.py"
