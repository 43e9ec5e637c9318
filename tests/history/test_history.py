"""Results are kept by commit, and a change is told from chance."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ordercast.core.errors import UsageError
from ordercast.history import HISTORY, append, compare, read, rows_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def measured(run: str, p99: float, rate: float = 100.0) -> dict[str, Any]:
    return {
        "trace": "t",
        "latency": [{"protocol": "token", "run": run, "at": "all", "p99": p99, "p99_low": 0.0, "count": 3}],
        "throughput": [{"protocol": "token", "run": run, "messages_per_second": rate}],
    }


def verified(**verdicts: str) -> dict[str, Any]:
    of_run = {name: {"claimed": True, "verdict": verdict, "witnesses": 0} for name, verdict in verdicts.items()}
    return {"runs": {"r": of_run}, "violated_claims": []}


def campaign(runs: int, failing: int) -> dict[str, Any]:
    violations = [{"protocol": "token", "seed": seed, "property": "integrity"} for seed in range(failing)]
    return {"runs": runs, "violations": violations, "vacuous_runs": 0, "branches": {"token": {}}, "seconds": 2.0}


def history(folder: Path, before: list[Any], after: list[Any]) -> Path:
    for commit, documents in (("old", before), ("new", after)):
        for document in documents:
            append(folder, rows_of(document, commit, NOW))
    return folder


def test_what_commands_print_becomes_rows_with_commit_and_time(tmp_path: Path) -> None:
    documents = [measured("r", 0.5), verified(integrity="holds", agreement="vacuous"), campaign(20, 1)]
    rows = read(history(tmp_path / "table", documents, [])).to_pylist()
    assert {row["commit"] for row in rows} == {"old"}
    assert {row["time"] for row in rows} == {NOW}
    assert {(row["name"], row["of"]): (row["value"], row["count"]) for row in rows} == {
        ("latency.p99", "token all"): (0.5, None),
        ("throughput.messages_per_second", "token"): (100.0, None),
        ("verdict.integrity", "claimed"): (0.0, None),
        ("campaign.violations", "token"): (0.05, 20),
        ("campaign.vacuous_runs", "token"): (0.0, 20),
        ("campaign.runs_per_second", "token"): (10.0, None),
    }
    # Each addition is a file that anybody can read.
    assert pq.read_table(tmp_path / "table").schema.names == HISTORY.names


def test_a_change_beyond_chance_is_significant_and_one_within_it_is_not(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    before, same, slower = ([measured(f"r{n}", x) for n, x in enumerate(random.normal(m, 0.1, 20))] for m in (1, 1, 2))
    table = read(history(tmp_path / "same", before, same))
    (quiet,) = (change for change in compare(table, "old", "new") if change.name == "latency.p99")
    assert not quiet.significant
    table = read(history(tmp_path / "slower", before, slower))
    (loud,) = (change for change in compare(table, "old", "new") if change.name == "latency.p99")
    assert loud.significant
    assert loud.low < loud.change < loud.high
    assert 0.8 < loud.change < 1.2
    assert loud.is_worse_by(0.5)
    assert not loud.is_worse_by(1.5)


def test_intervals_hold_the_truth_about_as_often_as_they_say(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    held = 0
    for _ in range(200):
        samples = [random.normal(mean, 0.2, 30) for mean in (1.0, 1.1)]
        rows = [
            {"commit": c, "time": NOW, "name": "latency.p50", "of": "x", "unit": "r", "value": float(v), "count": None}
            for c, values in zip(("old", "new"), samples, strict=True)
            for v in values
        ]
        (change,) = compare(HISTORY.empty_table().from_pylist(rows, schema=HISTORY), "old", "new")
        held += change.low <= 0.1 <= change.high
    assert 175 <= held <= 200


def test_more_throughput_is_better_and_more_latency_is_worse(tmp_path: Path) -> None:
    table = read(
        history(tmp_path / "t", [measured("a", 1.0, 100.0)] * 2, [measured("a", 0.5, 50.0), measured("b", 0.5, 50.0)])
    )
    worse = {change.name: change.is_worse_by(0.1) for change in compare(table, "old", "new")}
    assert worse == {"latency.p99": False, "throughput.messages_per_second": True}


def test_one_value_has_no_interval_and_a_share_from_none_to_some_counts(tmp_path: Path) -> None:
    table = read(
        history(
            tmp_path / "t",
            [measured("a", 1.0), verified(integrity="holds")],
            [measured("a", 9.0), verified(integrity="violated")],
        )
    )
    changes = {change.name: change for change in compare(table, "old", "new")}
    assert math.isnan(changes["latency.p99"].low)
    assert not changes["latency.p99"].significant
    assert not changes["latency.p99"].is_worse_by(0)
    assert changes["verdict.integrity"].is_worse_by(0)


def test_campaigns_are_drawn_as_many_runs(tmp_path: Path) -> None:
    table = read(history(tmp_path / "t", [campaign(300, 0)], [campaign(300, 30)]))
    (violations,) = (change for change in compare(table, "old", "new") if change.name == "campaign.violations")
    assert violations.significant
    assert violations.change == pytest.approx(0.1)


def test_what_cannot_be_read_or_compared_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not what verify, measure or simulate"):
        rows_of({"runs": "?"}, "c", NOW)
    with pytest.raises(UsageError, match="there is no such table"):
        read(tmp_path / "nowhere")
    table = read(history(tmp_path / "t", [measured("a", 1.0)], [verified(integrity="holds")]))
    with pytest.raises(UsageError, match="nothing of commit 'newer'; the latest that it has: new, old"):
        compare(table, "old", "newer")
    with pytest.raises(UsageError, match="nothing in common"):
        compare(table, "old", "new")
    (tmp_path / "t" / "part-x.parquet").write_text("no")
    with pytest.raises(UsageError, match=r"part-x.parquet: is not a file of a history"):
        read(tmp_path / "t")
