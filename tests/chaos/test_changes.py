"""Real processes that come and go under load, and the plans for them."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

import ordercast
from ordercast.chaos.changes import AT_HOME_SECONDS, draw_changes
from ordercast.chaos.harness import Cluster
from ordercast.chaos.open_harness import OpenHarness
from ordercast.chaos.processes import Processes
from ordercast.chaos.record import Record
from ordercast.chaos.schedule import Join, Kill, Leave, Partition, Pause, Plan
from ordercast.chaos.verdict import judge_run
from ordercast.check import judge
from ordercast.core import UsageError
from ordercast.node.surroundings import place_of
from ordercast.trace import read_events, read_runs

FOUNDERS = ("p1", "p2")

SEVERAL = {"x": ("p1", "p2", "p3", "p4"), "y": ("p1", "p2", "p5"), "z": ("p1", "p3", "p5")}


def _draw(seed: int, changes: int = 20, most: int = 5) -> Plan:
    groups = {"accounts": [f"p{number}" for number in range(1, most + 1)]}
    return draw_changes(seed, 60.0, changes, groups, kills=4, pauses=1, loss=0.1, duplication=0.05).plan


@pytest.mark.parametrize("seed", range(20))
def test_two_become_five_and_two_again_and_whoever_is_hurt_is_there(seed: int) -> None:
    plan = _draw(seed)
    assert plan == _draw(seed)
    assert plan.asked() == {"join": 10, "leave": 10, "kill": 4, "pause": 1}
    stays = {name: [0.0, inf] for name in FOUNDERS}
    here = [2]
    for action in plan.actions:
        if isinstance(action, Join):
            assert action.process not in stays, "under a new name"
            stays[action.process] = [action.at, inf]
            here.append(here[-1] + 1)
        elif isinstance(action, Leave):
            assert stays[action.process][1] == inf
            stays[action.process][1] = action.at
            here.append(here[-1] - 1)
    assert (max(here), min(here), here[-1]) == (5, 2, 2)
    for action in plan.actions:
        if isinstance(action, Kill | Pause):
            came, leaves = stays[action.process]
            assert action.process == FOUNDERS[0] or came + AT_HOME_SECONDS <= action.at
            assert action.at + action.seconds + AT_HOME_SECONDS <= leaves


@pytest.mark.parametrize("seed", range(20))
def test_a_side_that_is_cut_off_is_a_minority_that_is_there_all_the_time_and_a_pause_is_as_long_as_asked(
    seed: int,
) -> None:
    groups = {"accounts": [f"p{number}" for number in range(1, 6)]}
    plan = draw_changes(seed, 60.0, 20, groups, 4, 1, 0.1, 0.05, founders=4, partitions=2, pause_seconds=10.0).plan
    assert plan.asked() == {"join": 10, "leave": 10, "kill": 4, "pause": 1, "partition": 2}
    assert [action.seconds for action in plan.actions if isinstance(action, Pause)] == [10.0]
    first, second = (action for action in plan.actions if isinstance(action, Partition))
    assert first.at + first.seconds < second.at
    stays = {f"p{number}": [0.0, inf] for number in range(1, 5)}
    for action in plan.actions:
        if isinstance(action, Join):
            stays[action.process] = [action.at, inf]
        elif isinstance(action, Leave):
            stays[action.process][1] = action.at
    for cut in (first, second):
        there = {name for name, (came, leaves) in stays.items() if came < cut.at and cut.at + cut.seconds <= leaves}
        assert set(cut.side) <= there
        assert 0 < 2 * len(cut.side) < len(there)


@pytest.mark.parametrize("seed", range(20))
def test_where_books_are_in_memory_alone_one_is_killed_after_the_other_and_is_back_by_then(seed: int) -> None:
    groups = {"accounts": [f"p{number}" for number in range(1, 6)]}
    plan = draw_changes(seed, 120.0, 30, groups, 24, 1, 0.1, 0.05, founders=4, pause_seconds=10.0, in_memory=True).plan
    kills = [action for action in plan.actions if isinstance(action, Kill)]
    assert plan.asked() == {"join": 15, "leave": 15, "kill": 24, "pause": 1}
    assert [kill.at for kill in kills] == [2.5 + 5.0 * index for index in range(24)]
    assert all(kill.seconds <= 2.5 for kill in kills)


def test_sides_that_are_cut_off_from_each_other_go_on_apart_and_come_together_again(tmp_path: Path) -> None:
    plan = Plan(9.0, (Join(0.5, "p4"), Partition(3.0, ("p1",), 4.0)), loss=0.02, duplication=0.02)
    groups = {"accounts": ("p1", "p2", "p3", "p4")}
    cluster = Cluster(
        "intergroup",
        groups,
        dict.fromkeys(groups["accounts"], 20.0),
        worker="ordercast.chaos.replica",
        quorum=3,
        logged=False,
    )
    outcome = ordercast.run(OpenHarness(cluster, plan, 1, tmp_path).run())
    assert outcome.problems == []
    # What the side that was cut off had delivered at the end of its view is its own: agreement is not uniform.
    assert judge_run(cluster, plan, outcome, kept=False).lines() == []
    (run,) = read_runs(outcome.trace)
    events = read_events(outcome.trace)
    verdicts = judge(run, events)
    assert {name: each.first for name, each in verdicts.items() if each.verdict == "violated"} == {}
    views = [frozenset(map(place_of, members)) for members in events.column("members").to_pylist() if members]
    assert frozenset({"p1"}) in views[views.index(frozenset(groups["accounts"])) :]
    assert frozenset({"p2", "p3", "p4"}) in views


def test_whoever_reads_its_configuration_while_another_one_comes_reads_all_of_it(tmp_path: Path) -> None:
    processes = Processes(tmp_path, "", {}, 0, Record(print), lambda process: {})
    processes.configure("p2", ["cluster = 'chaos'", "seeds = []"])
    with processes.config("p2").open() as half_read:
        processes.configure("p2", ["cluster = 'chaos'", "seeds = ['127.0.0.1:7001']"])
        assert half_read.read() == "cluster = 'chaos'\nseeds = []\n"
    assert "7001" in processes.config("p2").read_text()


def test_changes_that_cannot_be_are_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="--changes 3: whoever comes leaves again, so it is an even number"):
        _draw(1, changes=3)
    with pytest.raises(UsageError, match="--changes with 2 processes: 2 are there from the start"):
        _draw(1, most=2)
    with pytest.raises(UsageError, match=r"g has none of those who are there from the start \(p1, p2\)"):
        draw_changes(1, 60.0, 2, SEVERAL | {"g": ("p3", "p4")}, 0, 0, 0.0, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_of_several_groups_none_is_ever_empty_and_whoever_comes_takes_a_place_that_is_free(seed: int) -> None:
    drawn = draw_changes(seed, 60.0, 20, SEVERAL, kills=2, pauses=0, loss=0.1, duplication=0.05)
    here = set(FOUNDERS)
    for action in drawn.plan.actions:
        if isinstance(action, Join):
            here.add(action.process)
        elif isinstance(action, Leave):
            here.remove(action.process)
        assert all(here & set(members) for members in drawn.groups.values())
        places = [name.partition("-")[0] for name in here]
        assert len(places) == len(set(places))
    for group, members in drawn.groups.items():
        assert {name.partition("-")[0] for name in members} == set(SEVERAL[group])


def test_processes_come_and_go_under_load_and_the_books_of_those_who_are_left_are_equal(tmp_path: Path) -> None:
    plan = Plan(
        8.0,
        (Join(0.5, "p3"), Join(1.0, "p4"), Kill(2.5, "p1", 1.0), Leave(5.0, "p2"), Leave(5.5, "p3")),
        loss=0.05,
        duplication=0.05,
    )
    groups = {"accounts": ("p1", "p2", "p3", "p4")}
    cluster = Cluster("token", groups, dict.fromkeys(groups["accounts"], 30.0), worker="ordercast.chaos.replica")
    outcome = ordercast.run(OpenHarness(cluster, plan, 1, tmp_path).run())
    assert outcome.problems == []
    assert set(outcome.results) == {"p1", "p4"}
    verdict = judge_run(cluster, plan, outcome)
    assert verdict.lines() == []
    assert outcome.acknowledged["p3"], "whoever has left had a part in it"
    (run,) = read_runs(outcome.trace)
    verdicts = judge(run, read_events(outcome.trace))
    assert {name: each.first for name, each in verdicts.items() if each.verdict == "violated"} == {}


def test_processes_come_to_several_groups_and_go_and_the_root_is_killed(tmp_path: Path) -> None:
    plan = Plan(
        8.0,
        (Join(0.5, "p3"), Join(1.0, "p5"), Kill(3.0, "p1", 1.0), Leave(5.5, "p2"), Leave(6.0, "p3")),
        loss=0.05,
        duplication=0.05,
    )
    groups = {name: tuple(site for site in members if site != "p4") for name, members in SEVERAL.items()}
    rates = dict.fromkeys(("p1", "p2", "p3", "p5"), 30.0)
    cluster = Cluster("propagation-graph", groups, rates, worker="ordercast.chaos.replica")
    outcome = ordercast.run(OpenHarness(cluster, plan, 1, tmp_path).run())
    assert outcome.problems == []
    assert set(outcome.results["p1"]["books"]) == {"x", "y", "z"}
    assert set(outcome.results["p5"]["books"]) == {"y", "z"}
    assert judge_run(cluster, plan, outcome).lines() == []
    (run,) = read_runs(outcome.trace)
    verdicts = judge(run, read_events(outcome.trace))
    assert {name: each.first for name, each in verdicts.items() if each.verdict == "violated"} == {}
