"""Spark, the judges in memory and the naive checkers say the same of random traces, in whatever layout these lie.

ORDERCAST_SPARK_AGREEMENT sets the number of traces for each profile, 50 unless told otherwise. With 2,000 every
property holds in at least 100 traces and is violated in at least 100:

    ORDERCAST_SPARK_AGREEMENT=2000 pytest tests/spark/test_agreement.py
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ordercast.check import EVERYTHING, PROPERTIES, Verdict, Witness, judge
from ordercast.spark.tables import compact, open_trace, read_events
from ordercast.spark.verify import verify
from ordercast.trace import EVENTS, Run, write_trace
from ordercast.trace import read_events as read_in_memory
from ordercast.verify import Here, verify_folder
from tests.naive import CHECKERS
from tests.naive.generate import PROFILES, generate
from tests.naive.test_agreement import PROPERTIES_OF_PROFILE
from tests.spark.traces import Traced, write_per_site, write_scattered

TRACES = int(os.environ.get("ORDERCAST_SPARK_AGREEMENT", "50"))
LEAST = TRACES // 20
LAYOUTS = ("parquet", "jsonl", "scattered", "per-site")


@cache
def traced(profile: str) -> list[Traced]:
    made = []
    for seed in range(TRACES):
        run, rows = generate(profile, seed)
        made.append((msgspec.convert(run, Run), pa.Table.from_pylist(rows, schema=EVENTS)))
    return made


def write(folder: Path, layout: str, runs: list[Traced]) -> Path:
    if layout == "scattered":
        return write_scattered(folder, runs, files=5)
    if layout == "per-site":
        return write_per_site(folder, runs)
    write_trace(folder, runs, "jsonl" if layout == "jsonl" else "parquet")
    return folder


def found_by_spark(spark: SparkSession, folder: Path) -> dict[str, dict[str, Verdict]]:
    """All verdicts with all their witnesses."""
    with verify(spark, open_trace(spark, folder), EVERYTHING) as verification:
        verdicts = verification.collect()
        found: dict[tuple[str, str], list[Witness]] = {}
        for row in verification.findings.where("why is not null").orderBy("run", "property", "number").collect():
            witness = Witness(tuple(row.sites), tuple(row.messages), row.why)
            found.setdefault((row.run, row.property), []).append(witness)
    return {
        run: {
            name: msgspec.structs.replace(verdict, all_witnesses=found.get((run, name), []))
            for name, verdict in of_run.items()
        }
        for run, of_run in verdicts.items()
    }


def found_in_memory(run: Run, table: pa.Table) -> dict[str, Verdict]:
    """What the judges say, without what rows of verdicts do not keep."""
    verdicts = judge(run, table, EVERYTHING)
    return {name: msgspec.structs.replace(verdict, excused=0) for name, verdict in verdicts.items()}


@pytest.mark.parametrize("profile", PROFILES)
def test_spark_and_judges_and_naive_checkers_agree(spark: SparkSession, profile: str, tmp_path: Path) -> None:
    runs = traced(profile)
    # Every profile in another layout; which one is of no consequence to the profile.
    layout = LAYOUTS[list(PROFILES).index(profile) % len(LAYOUTS)]
    found = found_by_spark(spark, write(tmp_path / "trace", layout, runs))
    counts = {name: Counter[str]() for name in PROPERTIES}
    for seed, (run, table) in enumerate(runs):
        assert found[run.run] == found_in_memory(run, table), (profile, seed, layout)
        for name in PROPERTIES_OF_PROFILE[profile]:
            expected, _ = CHECKERS[name](*generate(profile, seed))
            assert found[run.run][name].verdict == expected, (profile, seed, layout, name)
            counts[name][expected] += 1
    for name in PROPERTIES_OF_PROFILE[profile]:
        assert counts[name]["holds"] >= LEAST, counts[name]
        assert counts[name]["violated"] >= LEAST, counts[name]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_of_a_trace_changes_no_verdict(spark: SparkSession, layout: str, tmp_path: Path) -> None:
    runs = [one for profile in PROFILES for one in traced(profile)[:3]]
    folder = write(tmp_path / "trace", layout, runs)
    found = found_by_spark(spark, folder)
    assert found == {run.run: found_in_memory(run, table) for run, table in runs}
    here = verify_folder(Here(), str(folder), EVERYTHING).verdicts
    assert here == {
        run: {name: msgspec.structs.replace(verdict, all_witnesses=[]) for name, verdict in of_run.items()}
        for run, of_run in found.items()
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_compacted_no_run_spans_files_and_nothing_is_lost(spark: SparkSession, layout: str, tmp_path: Path) -> None:
    runs = [one for profile in PROFILES for one in traced(profile)[:3]]
    trace = open_trace(spark, write(tmp_path / "trace", layout, runs))
    compacted = compact(spark, trace, tmp_path / "compacted")
    assert dict(compacted.runs) == dict(trace.runs)
    assert all(len(pieces) <= 1 for pieces in compacted.pieces_of_runs().values())
    rows = read_in_memory(tmp_path / "compacted")
    order = [(row["run"], row["site"], row["seq"]) for row in rows.select(["run", "site", "seq"]).to_pylist()]
    for piece in compacted.pieces:
        own = [key for key in order if key[0] == piece.run]
        assert own == sorted(own)
    keys = [("run", "ascending"), ("site", "ascending"), ("seq", "ascending")]
    expected = pa.concat_tables([table for _, table in runs]).sort_by(keys)
    assert rows.sort_by(keys).equals(expected)
    assert read_events(spark, compacted).toArrow().cast(EVENTS).sort_by(keys).equals(expected)
    assert read_events(spark, trace).toArrow().cast(EVENTS).sort_by(keys).equals(expected)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["compacted", "trace"]
