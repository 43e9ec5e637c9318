"""The reproduction of the papers' tables and graphs: what is written, and whether verdicts follow the data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ordercast.papers.artefact import Artefact, Check, verdict
from ordercast.papers.registry import ARTEFACTS, find_artefact
from ordercast.papers.reproduce import FILES, reproduce, write
from ordercast.spark.experiments import Experiment, Point
from tests.support import run_ordercast

pytestmark = pytest.mark.spark


SMALLER: dict[str, dict[str, Any]] = {
    "spauster-table-2-1": {"repetitions_min": 12, "repetitions_max": 12},
    "spauster-classic-delay": {"members": (2, 5, 10), "sites": (12,)},
    "spauster-classic-load": {
        "sites": (20, 50),
        "group_size": (5, 10),
        # Of the others, in which everyone speaks, the small system is enough: the claims are about these two.
        "where": lambda point: point["sites"] == 20 or point["algorithm"] in ("two-phase", "centralized"),
    },
    "spauster-table-4-1": {"sites": (60,), "repetitions_min": 3, "repetitions_max": 3},
    "spauster-table-4-2": {"sites": (60,), "repetitions_min": 3, "repetitions_max": 3},
    "spauster-bounds": {"phi_n": (0.02,), "processing": (0.001,), "repetitions_min": 6, "repetitions_max": 6},
    "spauster-change-cost": {"sites": (5, 20), "repetitions_min": 2, "repetitions_max": 2},
    "spauster-reconfiguration-cost": {"sites": (5, 20, 50), "repetitions_min": 2, "repetitions_max": 2},
    "spauster-order-options": {"repetitions_min": 12, "repetitions_max": 12},
    "tachikawa-overrun": {"ratio": (0.5, 4.0), "repetitions_min": 2, "repetitions_max": 2},
    "garcia-molina-cost": {"hosts": (6, 12), "clusters": (3,), "repetitions_min": 1, "repetitions_max": 1},
    "garcia-molina-reliability": {
        "exchange": (0.5, 8.0),
        "opening": (2.0,),
        "repetitions_min": 2,
        "repetitions_max": 2,
    },
    "garcia-molina-graph": {},
    "berket-hierarchy": {"sites": (10, 40)},
    "berket-repair": {"receivers": (16,)},
    "berket-membership": {"senders": (8, 16), "receivers": (0,)},
}
"""Of each artefact's --fast grid, a part that takes seconds."""


def smaller(artefact: Artefact) -> Artefact:
    def experiment(fast: bool) -> Experiment:
        whole = artefact.experiment(True)
        changes = SMALLER[artefact.name]
        grid = {name: changes.get(name, values) for name, values in whole.grid.items()}
        others = {name: value for name, value in changes.items() if name not in (*grid, "where")}

        def makes_sense(point: Point) -> bool:
            return all(where(point) for where in (whole.where, changes.get("where")) if where is not None)

        return replace(whole, grid=grid, where=makes_sense, **others)

    return replace(artefact, experiment=experiment)


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for name in SMALLER:
        reproduce(smaller(find_artefact(name)), spark, folder)
    return folder


@pytest.mark.parametrize("name", SMALLER)
def test_an_artefact_writes_its_five_files_and_the_verdict_follows_its_checks(results: Path, name: str) -> None:
    folder = results / name
    assert sorted(file.name for file in folder.iterdir()) == sorted(FILES)
    document = json.loads((folder / "verdict.json").read_text())
    assert document["artefact"] == name
    checks = [Check(**check) for check in document["checks"]]
    assert checks
    assert document["verdict"] == verdict(checks)
    data = pq.read_table(folder / "data.parquet")
    assert len(pd.read_csv(folder / "data.csv")) == len(data) > 0
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    readme = (folder / "README.md").read_text()
    assert all(check.claim.replace("|", "\\|") in readme for check in checks)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "spauster-table-2-1",
            ["Token-passing (token) is limited to broadcast networks (blank under point to point; 2.8)"],
        ),
        ("spauster-classic-delay", []),
        ("spauster-classic-load", []),
        ("spauster-table-4-1", ["and in general is much less"]),
        ("spauster-table-4-2", ["propagation graph: N = d + 1 (printed)"]),
        ("spauster-bounds", []),
        ("spauster-change-cost", []),
        ("spauster-reconfiguration-cost", []),
        ("tachikawa-overrun", []),
        ("garcia-molina-cost", []),
        ("garcia-molina-reliability", []),
        ("garcia-molina-graph", []),
    ],
)
def test_the_papers_claims_hold_but_for_those_that_are_known_not_to(
    results: Path, name: str, expected: list[str]
) -> None:
    document = json.loads((results / name / "verdict.json").read_text())
    assert [check["claim"] for check in document["checks"] if not check["holds"]] == expected


def _later(data: pd.DataFrame) -> None:
    data.loc[(data.algorithm == "two-phase") & (data.members == 5), "delay_max"] *= 1.001


def _one_packet_more(data: pd.DataFrame) -> None:
    data.loc[data.algorithm == "centralized", "packets_max"] += 1


def _one_message_more(data: pd.DataFrame) -> None:
    data["packets_off_max"] = 1.0


def _above_the_bound(data: pd.DataFrame) -> None:
    data["delay_over_bound_max"] = 1.01


def _into_a_cluster_twice(data: pd.DataFrame) -> None:
    data["tree_packets_max"] += 1


def _openings_missed(data: pd.DataFrame) -> None:
    data.loc[data.exchange == data.exchange.min(), "used"] = 0.1


def _two_leaders(data: pd.DataFrame) -> None:
    data["leaders_max"] = 2.0


def _too_late(data: pd.DataFrame) -> None:
    data.loc[data.protocol == "fan-1", "p2_share_max"] = 1.02


def _tree_too_late(data: pd.DataFrame) -> None:
    data.loc[data.protocol == "propagation-graph", "q3_share_max"] = 1.02


def _long_stop(data: pd.DataFrame) -> None:
    data.loc[data.algorithm == "propagation graph", "stop_share_max"] = 1.1


def _causes_come_later(data: pd.DataFrame) -> None:
    data.loc[data["mode"] == "entry = root", "causal_order"] = 0.5


def _idle_centre(data: pd.DataFrame) -> None:
    data.loc[data.algorithm == "centralized", "load"] /= 20


def _out_of_order(data: pd.DataFrame) -> None:
    data.loc[data.algorithm.str.startswith("Two-phase") & (data.order == "multiple-group-order"), "violated_share"] = (
        0.1
    )


def _fan_orders_everything(data: pd.DataFrame) -> None:
    data.loc[data.algorithm.str.startswith("Sequence"), "violated_share"] = 0.0


@pytest.mark.parametrize(
    ("name", "perturb", "claim"),
    [
        ("spauster-classic-delay", _later, "Table 4.1, two-phase: D = 3L + (2n+1)P"),
        ("spauster-classic-delay", _one_packet_more, "Table 4.2, centralized: N = 2"),
        ("spauster-table-4-1", _one_message_more, "propagation graph: N = n + ε, message for message"),
        ("spauster-table-4-1", _above_the_bound, "propagation graph: D is at most (d+1)L + (n+ε)P"),
        ("spauster-bounds", _too_late, "Protocol 1 guarantees P2 with Δ = φN + φP"),
        (
            "spauster-bounds",
            _tree_too_late,
            "Protocol 4 guarantees Q3 with ρ = δ + 4φP + 3φN (counting the last step)",
        ),
        (
            "spauster-change-cost",
            _long_stop,
            "no site stands still for longer than (depth of the old graph + that of the new one + 2) one-way delays",
        ),
        (
            "spauster-order-options",
            _causes_come_later,
            "entry = root keeps the order of each source, and causal order, across groups",
        ),
        (
            "garcia-molina-cost",
            _into_a_cluster_twice,
            "3: it takes k - 1 expensive packets to broadcast one message, which is optimal",
        ),
        (
            "garcia-molina-reliability",
            _openings_missed,
            "5: the more frequently hosts exchange messages, the more chance there is to use a brief interval",
        ),
        (
            "garcia-molina-graph",
            _two_leaders,
            "4.3: hosts of a cluster tend to organise into a single cluster tree node",
        ),
        (
            "spauster-classic-load",
            _idle_centre,
            "load in the centralized case is high, reflecting the central site bottleneck",
        ),
        ("spauster-table-2-1", _out_of_order, "Two-phase (two-phase) provides multiple group order"),
        (
            "spauster-table-2-1",
            _fan_orders_everything,
            "Sequence numbers (fan-3) does not provide multiple source order",
        ),
    ],
)
def test_other_data_lead_to_another_verdict(
    results: Path, name: str, perturb: Callable[[pd.DataFrame], None], claim: str, tmp_path: Path
) -> None:
    artefact = find_artefact(name)
    data = pq.read_table(results / name / "data.parquet")
    frame = data.to_pandas()
    perturb(frame)
    perturbed = pa.Table.from_pandas(frame, schema=data.schema, preserve_index=False)
    before = json.loads((results / name / "verdict.json").read_text())
    after = write(artefact, perturbed, tmp_path, fast=True, runs=0)
    held, holds = ({each["claim"]: each["holds"] for each in document["checks"]} for document in (before, after))
    assert held[claim]
    assert not holds[claim]
    assert after["verdict"] == "differs"
    assert json.loads((tmp_path / "verdict.json").read_text()) == after


def test_an_artefact_without_claims_says_so() -> None:
    assert verdict([]) == "no-claim"
    assert verdict([Check("a", True, ""), Check("b", False, "")]) == "differs"


def test_the_artefacts_are_listed() -> None:
    listed = json.loads(run_ordercast("reproduce", "--list", "--json").stdout)
    assert [each["name"] for each in listed["artefacts"]] == list(ARTEFACTS)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "name artefacts, or --all"),
        (["--all", "spauster-bounds"], "name artefacts, or --all"),
        (["spauster-bound"], "did you mean 'spauster-bounds'?"),
        (["spauster-bounds", "--master", "nowhere"], "no Spark master"),
    ],
)
def test_misuse_ends_in_one_line(words: list[str], complaint: str) -> None:
    result = run_ordercast("reproduce", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
