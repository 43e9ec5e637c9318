"""The broadcast tree between real processes: who is near is found by transit times, through a relay that delays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.chaos.harness import Cluster, Harness, Outcome
from ordercast.chaos.proxy import Terrain
from ordercast.chaos.schedule import Kill, Partition, Pause, Plan, Start
from ordercast.check import choose, judge
from ordercast.trace import read_events, read_runs
from ordercast.wire.datagram import HANDSHAKE_BYTES
from tests.chaos.tree_worker import PAYLOAD_BYTES

CLUSTERS = {"amsterdam": ("a1", "a2"), "boston": ("b1", "b2"), "chicago": ("c1", "c2", "c3")}
HOME = {host: city for city, hosts in CLUSTERS.items() for host in hosts}
GROUPS = {"all": tuple(HOME)}
TERRAIN = Terrain(tuple(frozenset(hosts) for hosts in CLUSTERS.values()), between_seconds=0.05)
OPTIONS: dict[str, Any] = {
    "clusters": "transit-time",
    "transit_seconds": 0.025,
    # Twice as often as by default, or organising itself would take most of the test.
    "eic_seconds": 0.25,
    "epp_seconds": 0.25,
    "gfc_seconds": 0.25,
    "ein_seconds": 1.0,
    "gfn_seconds": 1.0,
    "gfo_seconds": 2.0,
    "np1_seconds": 0.5,
}
RATE = 10.0


@pytest.fixture(autouse=True)
def _workers_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def _run(
    plan: Plan, sources: tuple[str, ...], folder: Path, **options: Any
) -> tuple[Outcome, Counter[tuple[str, str]]]:
    """What came of it, and how many datagrams with messages the relay saw, by sender and receiver."""
    seen: Counter[tuple[str, str]] = Counter()

    def tap(sender: str, receiver: str, size: int) -> None:
        if size > PAYLOAD_BYTES and size != HANDSHAKE_BYTES:  # which is a greeting
            seen[sender, receiver] += 1

    cluster = Cluster(
        "broadcast-tree",
        GROUPS,
        dict.fromkeys(sources, RATE),
        options=OPTIONS | options,
        worker="tests.chaos.tree_worker",
        terrain=TERRAIN,
    )
    outcome = ordercast.run(Harness(cluster, plan, 1, folder, tap=tap).run())
    assert outcome.problems == []
    assert outcome.agree(GROUPS)
    return outcome, seen


def _is_expensive(sender: str, receiver: str) -> bool:
    return HOME[sender] != HOME[receiver]


def _judged(outcome: Outcome, *also: str) -> dict[str, str]:
    (run,) = read_runs(outcome.trace)
    assert run.settled
    verdicts = judge(run, read_events(outcome.trace), choose([*run.guarantees, *also]))
    return {name: verdict.verdict for name, verdict in verdicts.items()}


def test_processes_find_their_clusters_pay_k_minus_1_and_a_late_joiner_is_served_by_its_own(tmp_path: Path) -> None:
    joins = 6.0
    outcome, seen = _run(Plan(9.0, (Start(joins, "c3"),)), ("a1",), tmp_path)
    verdicts = _judged(outcome)
    assert verdicts["termination"] == verdicts["uniform-agreement"] == verdicts["no-duplication"] == "holds"
    rows = read_events(outcome.trace).sort_by("time").to_pylist()
    sent = {row["message"]: row["time"] for row in rows if row["kind"] == "multicast"}
    assert len(sent) > 60
    messages = sum(row["count"] or 1 for row in rows if row["kind"] == "multicast")
    assert {result["messages"] for result in outcome.results.values()} == {messages}
    # What the relay saw and what the processes say that they sent is the same.
    data = [row for row in rows if row["kind"] == "send" and row["packet"] == "Data"]
    assert seen == Counter((row["site"], row["peer"]) for row in data)
    # From the time when the tree stands: one expensive packet into each cluster but the source's.
    first = min(sent.values())
    steady = [message for message, at in sent.items() if at > first + 3.0]
    expensive = Counter(
        message for row in data if _is_expensive(row["site"], row["peer"]) for message in row["messages"]
    )
    costs = Counter(expensive[message] for message in steady)
    assert costs.most_common(1)[0][0] == len(CLUSTERS) - 1
    assert costs[len(CLUSTERS) - 1] >= 0.9 * len(steady)
    # One host of each other city has it from elsewhere, and all others from their own.
    for message in steady:
        if expensive[message] == len(CLUSTERS) - 1:
            leaders = [
                HOME[row["site"]]
                for row in rows
                if row["kind"] == "deliver" and row["message"] == message and _is_expensive(row["site"], row["parent"])
            ]
            assert sorted(leaders) == ["boston", "chicago"]
    # The late joiner got everything that it had missed from its own cluster, over no expensive line.
    missed = {message for message, at in sent.items() if at < first + joins - 1.0}
    helpers = {
        row["peer"]
        for row in rows
        if row["kind"] == "receive" and row["site"] == "c3" and missed & set(row["messages"] or ())
    }
    assert helpers
    assert helpers <= {"c1", "c2"}
    assert sum(count for (_, receiver), count in seen.items() if receiver == "c3") >= len(missed)


def test_each_source_is_delivered_in_its_order_if_that_is_wanted_whatever_happens(tmp_path: Path) -> None:
    plan = Plan(
        6.0,
        (Kill(1.0, "b1", 1.0), Partition(3.0, ("c1", "c2", "c3"), 0.8), Pause(4.5, "a2", 1.0)),
        loss=0.1,
        duplication=0.05,
        delay_seconds=0.01,
    )
    outcome, _ = _run(plan, ("a1", "c2"), tmp_path, order="source")
    assert outcome.network["lost"] > 0
    verdicts = _judged(outcome, "single-source-order")
    assert "violated" not in verdicts.values()
    assert verdicts["termination"] == verdicts["no-duplication"] == verdicts["single-source-order"] == "holds"
