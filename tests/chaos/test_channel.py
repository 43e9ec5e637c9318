"""Real processes on one channel that loses: the hub instead of the relay between pairs."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

import ordercast
from ordercast.chaos.harness import Cluster, Harness
from ordercast.chaos.schedule import Kill, Partition, Pause, Plan
from ordercast.check import choose, judge
from ordercast.core import UsageError
from ordercast.trace import read_events, read_runs

NAMES = ("a", "b", "c", "d", "e")
GROUPS = {"accounts": NAMES}


CLUSTER = Cluster("selective-total", GROUPS, dict.fromkeys(NAMES, 30.0), one_channel=True, recovers=False)


def test_a_dead_a_restarted_and_a_stopped_process_break_no_promise_on_one_channel(tmp_path: Path) -> None:
    """e dies; c is killed and comes back as a stranger, in whose books is only what came after; a tenth of all copies
    is lost."""
    plan = Plan(6.0, (Kill(1.0, "c", 1.0), Pause(2.5, "d", 1.0), Kill(2.5, "e", inf)), loss=0.1)
    outcome = ordercast.run(Harness(CLUSTER, plan, 1, tmp_path).run())
    assert outcome.problems == []
    assert outcome.strangers == {"c"}
    assert outcome.agree(GROUPS)
    assert outcome.network["lost"] > 0
    (run,) = read_runs(outcome.trace)
    assert run.settled
    verdicts = judge(run, read_events(outcome.trace), choose(run.guarantees))
    assert {name: verdict.first for name, verdict in verdicts.items() if verdict.verdict != "holds"} == {}
    assert outcome.deliveries["c"] > 0


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        (Plan(1.0, (), duplication=0.1), "no duplication on one channel"),
        (Plan(1.0, (Partition(0.1, ("a",), 0.1),), delay_seconds=0.1), "no delay and no partitions on one channel"),
    ],
)
def test_what_cannot_happen_on_one_channel_is_refused(plan: Plan, what: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=what):
        Harness(CLUSTER, plan, 1, tmp_path)
