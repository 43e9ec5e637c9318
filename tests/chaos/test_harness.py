"""Real processes under faults, judged by their traces and by what they have in the end."""

from __future__ import annotations

import os
from math import inf
from pathlib import Path

import pytest

import ordercast
from ordercast.chaos.harness import Cluster, Harness, Outcome
from ordercast.chaos.schedule import Kill, Partition, Pause, Plan
from ordercast.check import judge
from ordercast.core import UsageError
from ordercast.trace import read_events, read_runs

NAMES = ("a", "b", "c")
SECONDS = float(os.environ.get("ORDERCAST_CHAOS_SECONDS", "6"))
"""By hand for minutes; in the test suite for seconds."""


def _plan(seconds: float) -> Plan:
    actions: list[Kill | Pause | Partition] = []
    for round_ in range(max(1, int(seconds / 6))):
        begin = 6.0 * round_
        victim = NAMES[round_ % 3]
        actions += [
            Kill(begin + 1.0, victim, 1.0),
            Partition(begin + 3.0, (NAMES[(round_ + 1) % 3],), 0.8),
            Pause(begin + 4.5, NAMES[(round_ + 2) % 3], 1.0),
        ]
    return Plan(seconds, tuple(actions), loss=0.1, duplication=0.05, delay_seconds=0.01)


def _run(cluster: Cluster, folder: Path, seconds: float = SECONDS) -> Outcome:
    return ordercast.run(Harness(cluster, _plan(seconds), 1, folder).run())


@pytest.mark.parametrize("protocol", ["sequencer", "token", "two-phase"])
def test_a_killed_a_cut_off_and_a_stopped_process_break_no_promise(protocol: str, tmp_path: Path) -> None:
    groups = {"accounts": NAMES}
    outcome = _run(Cluster(protocol, groups, dict.fromkeys(NAMES, 50.0)), tmp_path)
    assert outcome.problems == []
    assert outcome.agree(groups)
    assert outcome.happened["kill"] >= 1
    assert outcome.happened["partition"] >= 1
    assert outcome.happened["pause"] >= 1
    assert outcome.network["lost"] > 0
    (run,) = read_runs(outcome.trace)
    assert run.settled
    verdicts = judge(run, read_events(outcome.trace))
    assert {name: verdict.first for name, verdict in verdicts.items() if verdict.verdict == "violated"} == {}
    assert verdicts["termination"].verdict == "holds"
    assert verdicts["no-duplication"].verdict == "holds"


def test_the_examples_replicas_agree_and_no_answer_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    groups = {"accounts": NAMES}
    cluster = Cluster("sequencer", groups, dict.fromkeys(NAMES, 100.0), worker="tests.chaos.replica_worker")
    outcome = _run(cluster, tmp_path)
    assert outcome.problems == []
    assert outcome.agree(groups)
    balances = outcome.results["a"]["balances"]
    answers = [line.split() for name in NAMES for line in (tmp_path / f"{name}.acknowledged").read_text().splitlines()]
    assert len(answers) > 20
    assert [answer for answer in answers if balances.get(answer[0]) != int(answer[1])] == []


def test_who_is_to_be_killed_while_it_is_down_is_killed_when_it_runs_again(tmp_path: Path) -> None:
    """As on a machine so busy that the start after the first kill comes late."""
    plan = Plan(3.0, (Kill(0.5, "b", 1.0), Kill(1.0, "b", 0.5)))
    cluster = Cluster("sequencer", {"accounts": NAMES}, dict.fromkeys(NAMES, 20.0))
    outcome = ordercast.run(Harness(cluster, plan, 1, tmp_path).run())
    assert outcome.problems == []
    assert outcome.happened["kill"] == 2
    assert outcome.agree({"accounts": NAMES})


def test_a_process_that_cannot_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    cluster = Cluster("sequencer", {"accounts": NAMES}, {}, worker="tests.chaos.no_such_worker")
    with pytest.raises(UsageError, match=r"process \w ended by itself: .*no_such_worker"):
        _run(cluster, tmp_path)


def test_scalatom_goes_on_when_a_minority_of_each_group_is_dead_and_the_senders_are_outside(tmp_path: Path) -> None:
    """Rodrigues, Guerraoui, Schiper 1998, section 3: open senders, a majority of each group."""
    groups = {name: tuple(f"{name}{index}" for index in (1, 2, 3)) for name in "xyz"}
    plan = Plan(
        6.0,
        tuple(Kill(1.5 + index, f"{name}2", inf) for index, name in enumerate("xyz")),
        loss=0.02,
        delay_seconds=0.002,
    )
    cluster = Cluster("scalatom", groups, {"s1": 20.0, "s2": 20.0})
    outcome = ordercast.run(Harness(cluster, plan, 1, tmp_path).run())
    assert outcome.problems == []
    assert outcome.agree(groups)
    (run,) = read_runs(outcome.trace)
    assert run.settled
    verdicts = judge(run, read_events(outcome.trace))
    assert {name: verdict.first for name, verdict in verdicts.items() if verdict.verdict == "violated"} == {}
    for name in ("acyclic-order", "uniform-agreement", "termination", "genuineness"):
        assert verdicts[name].verdict == "holds"
