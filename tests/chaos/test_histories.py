"""Real processes that come back with another history, or are flooded, or meet strangers."""

from __future__ import annotations

from pathlib import Path

import pytest

import ordercast
from ordercast.chaos import harness
from ordercast.chaos.harness import Cluster, Harness
from ordercast.chaos.schedule import Away, Flood, Kill, LostLog, Plan, Rollback, Stranger
from ordercast.chaos.verdict import judge_run
from ordercast.check import judge
from ordercast.trace import read_events, read_runs

NAMES = ("a", "b", "c")
GROUPS = {"accounts": NAMES}
CLUSTER = Cluster(
    "sequencer",
    GROUPS,
    dict.fromkeys(NAMES, 40.0),
    worker="ordercast.chaos.replica",
    drift={"sequencer": "c"},
)


def test_one_fault_of_each_kind_strikes_and_is_refused_or_harmless(tmp_path: Path) -> None:
    """b's log is lost; a, which orders everything, is flooded and killed; strangers come; b is away."""
    plan = Plan(
        5.5,
        (
            Flood(0.1, "a", 0.5, "forged"),
            LostLog(1.8, "b", 1.0),
            Kill(2.9, "a", 0.2),
            Stranger(3.2, "c", 0.5, "namesake"),
            Stranger(3.8, "b", 0.1, "foreign"),
            Away(4.0, "b", 1.5),
        ),
        loss=0.05,
    )
    outcome = ordercast.run(Harness(CLUSTER, plan, 1, tmp_path).run())
    assert outcome.problems == []
    assert judge_run(CLUSTER, plan, outcome).lines() == []
    refused = {(refusal.who, refusal.after) for refusal in outcome.refusals}
    assert refused >= {("b", "the loss of its log")}
    assert len(refused) == 2
    assert outcome.flooded["forged"] > 1000
    assert outcome.absences[0].delivered > 0 or outcome.absences[0].blocked
    assert sum(map(len, outcome.acknowledged.values())) > 100
    assert set(outcome.memory_kib) == set(NAMES)
    (run,) = read_runs(outcome.trace)
    verdicts = judge(run, read_events(outcome.trace))
    assert {name: verdict.first for name, verdict in verdicts.items() if verdict.verdict == "violated"} == {}


def test_a_process_with_an_older_log_is_refused_or_the_run_says_what_it_has_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "SETTLE_SECONDS", 5.0)
    plan = Plan(2.5, (Rollback(1.0, "c", 1.0, 0.2),))
    outcome = ordercast.run(Harness(CLUSTER, plan, 1, tmp_path).run())
    assert outcome.happened["rollback"] == 1
    verdict = judge_run(CLUSTER, plan, outcome)
    if outcome.refusals:
        assert outcome.refusals[0].after == "a rollback"
        assert verdict.lines() == []
    else:
        assert set(verdict.divergence) == set(NAMES)
        assert set(verdict.lost) == {"c"}


def test_a_rollback_to_a_log_in_which_nothing_is_missing_is_not_counted(tmp_path: Path) -> None:
    """Nobody gives orders, so nothing is logged after the copy, and the rollback does not strike."""
    cluster = Cluster("sequencer", GROUPS, {}, worker="ordercast.chaos.replica")
    plan = Plan(1.5, (Rollback(1.2, "c", 1.0, 1.0),))
    outcome = ordercast.run(Harness(cluster, plan, 1, tmp_path).run())
    assert outcome.problems == []
    assert judge_run(cluster, plan, outcome).lines() == ["vacuous: rollback struck 0 times of 1"]


def test_nobody_hears_a_process_that_nobody_knows_or_one_with_another_sequencer(tmp_path: Path) -> None:
    plan = Plan(2.0, (Stranger(0.2, "a", 0.5, "unknown"), Stranger(0.8, "b", 0.5, "differing")))
    outcome = ordercast.run(Harness(CLUSTER, plan, 1, tmp_path).run())
    assert outcome.problems == []
    assert judge_run(CLUSTER, plan, outcome).lines() == []
    unknown, differing = outcome.refusals
    assert "it is not among the [processes] here" in unknown.why
    assert "sequencer differs" in differing.why
