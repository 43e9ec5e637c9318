"""Plans are drawn from a seed, and make sense."""

from __future__ import annotations

import itertools
from collections import Counter
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.chaos.schedule import (
    FLOOD_KINDS,
    STRANGER_KINDS,
    Action,
    Away,
    Flood,
    Kill,
    LostLog,
    Partition,
    Pause,
    Plan,
    Rollback,
    Start,
    Stranger,
    describe_action,
    draw_plan,
    kind_of,
)
from ordercast.core import UsageError

NAMES = ["a", "b", "c", "d", "e"]

few = st.integers(0, 3)


def _draw(
    seed: int,
    seconds: float = 30.0,
    *,
    kills: int = 4,
    rollbacks: int = 0,
    lost_logs: int = 0,
    away: int = 0,
    floods: int = 0,
    strangers: int = 0,
    majority_suffices: bool = False,
    partitions: int = 2,
) -> Plan:
    return draw_plan(
        seed,
        NAMES,
        seconds,
        kills,
        1,
        partitions,
        0.0,
        0.0,
        0.0,
        rollbacks=rollbacks,
        lost_logs=lost_logs,
        away=away,
        floods=floods,
        strangers=strangers,
        majority_suffices=majority_suffices,
    )


def _overlap(first: Action, second: Action) -> bool:
    return first.at < second.at + second.seconds and second.at < first.at + first.seconds


def test_the_same_seed_gives_the_same_plan_and_another_another() -> None:
    plans = [_draw(seed, rollbacks=1, lost_logs=1, away=1, floods=2, strangers=2) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]


@given(st.integers(0, 1000), st.integers(0, 20), st.integers(0, 5), st.integers(0, 5), st.floats(5, 300))
def test_a_plan_has_what_was_asked_for_and_no_process_is_down_twice(
    seed: int, kills: int, pauses: int, partitions: int, seconds: float
) -> None:
    plan = draw_plan(seed, NAMES, seconds, kills, pauses, partitions, 0.0, 0.0, 0.0)
    assert plan.asked() == +Counter({"kill": kills, "pause": pauses, "partition": partitions})
    assert [action.at for action in plan.actions] == sorted(action.at for action in plan.actions)
    for name in NAMES:
        down = [each for each in plan.actions if not isinstance(each, Partition) and each.process == name]
        for first, second in itertools.pairwise(down):
            assert first.at + first.seconds < second.at
    for action in plan.actions:
        assert action.at + action.seconds <= plan.seconds
        if isinstance(action, Partition):
            assert 0 < len(action.side) < len(NAMES)


@given(st.integers(0, 1000), st.floats(6, 120), few, few, few, few, st.integers(0, 6), st.booleans())
def test_what_happens_to_a_log_happens_alone_and_everything_that_was_asked_for_is_there(
    seed: int,
    seconds: float,
    rollbacks: int,
    lost_logs: int,
    away: int,
    floods: int,
    strangers: int,
    majority_suffices: bool,
) -> None:
    plan = _draw(
        seed,
        seconds,
        rollbacks=rollbacks,
        lost_logs=lost_logs,
        away=away,
        floods=floods,
        strangers=strangers,
        majority_suffices=majority_suffices,
    )
    asked = {"kill": 4, "pause": 1, "partition": 2, "rollback": rollbacks, "lost-log": lost_logs}
    assert plan.asked() == +Counter(asked | {"away": away, "flood": floods, "stranger": strangers})
    for action in plan.actions:
        others = [other for other in plan.actions if other is not action and _overlap(action, other)]
        assert 0 <= action.at <= action.at + action.seconds <= plan.seconds
        if isinstance(action, Rollback):
            assert 0 < action.copied < action.at
        if action.alone:
            assert others == []
        if isinstance(action, Away):
            assert action.seconds >= seconds / 3
            if not majority_suffices:
                assert others == []
        if isinstance(action, Flood):
            assert not [other for other in others if isinstance(other, Flood)]


@given(st.integers(0, 5000))
def test_while_a_process_is_away_a_majority_of_all_is_up(seed: int) -> None:
    plan = _draw(seed, kills=6, away=1, majority_suffices=True)
    (away,) = (action for action in plan.actions if isinstance(action, Away))
    moments = [action.at for action in plan.actions if away.at <= action.at <= away.at + away.seconds]
    for moment in moments:
        down = {
            each.process
            for each in plan.actions
            if isinstance(each, Kill | Pause | Away) and each.at <= moment <= each.at + each.seconds
        }
        assert len(NAMES) - len(down) > len(NAMES) / 2
    assert not any(isinstance(action, Partition) and _overlap(away, action) for action in plan.actions)


def test_others_are_killed_while_a_process_is_away_where_a_majority_suffices() -> None:
    hurt = 0
    for seed in range(50):
        plan = _draw(seed, partitions=0, away=1, majority_suffices=True)
        (away,) = (action for action in plan.actions if isinstance(action, Away))
        hurt += any(isinstance(action, Kill) and _overlap(away, action) for action in plan.actions)
    assert hurt > 15


def test_pauses_last_as_long_as_was_asked_for_and_kills_as_drawn() -> None:
    plan = draw_plan(3, NAMES, 60.0, 2, 2, 0, 0.0, 0.0, 0.0, pause_seconds=10.0)
    assert [action.seconds for action in plan.actions if isinstance(action, Pause)] == [10.0, 10.0]
    assert not [action for action in plan.actions if isinstance(action, Kill) and action.seconds >= 10.0]


def test_floods_and_strangers_come_in_turn_of_their_kinds() -> None:
    plan = _draw(3, seconds=60.0, floods=4, strangers=8)
    floods = [action.kind for action in plan.actions if isinstance(action, Flood)]
    assert floods == [*FLOOD_KINDS, FLOOD_KINDS[0]]
    assert Counter(each.kind for each in plan.actions if isinstance(each, Stranger)) == dict.fromkeys(STRANGER_KINDS, 2)


def test_every_action_has_a_line_that_names_it() -> None:
    actions: list[Action] = [
        Kill(1.0, "a", 2.0),
        Pause(1.0, "a", 2.0),
        Partition(1.0, ("a", "b"), 2.0),
        Start(1.0, "a"),
        Away(1.0, "a", 2.0),
        Rollback(3.0, "a", 2.0, 1.5),
        LostLog(1.0, "a", 2.0),
        Flood(1.0, "a", 2.0, "junk"),
        Stranger(1.0, "a", 2.0, "namesake"),
    ]
    for action in actions:
        line = describe_action(action)
        assert line.startswith(kind_of(action))
        assert "a" in line.split(":")[1]
        assert "\n" not in line


def test_nonsense_is_refused() -> None:
    with pytest.raises(UsageError, match="positive time"):
        draw_plan(1, NAMES, 0.0, 1, 0, 0, 0.0, 0.0, 0.0)
    with pytest.raises(UsageError, match="numbers of faults"):
        draw_plan(1, NAMES, 1.0, 1, 0, 0, 0.0, 0.0, 0.0, rollbacks=-1)
    with pytest.raises(UsageError, match="one process alone"):
        draw_plan(1, ["a"], 10.0, 0, 0, 1, 0.0, 0.0, 0.0)


def test_deaths_leave_a_majority_and_befall_nobody_twice() -> None:
    names = ["p1", "p2", "p3", "p4", "p5"]
    plan = draw_plan(3, names, 30.0, 4, 2, 1, 0.0, 0.0, 0.0, deaths=2, majority_suffices=True)
    deaths = {
        action.process: action.at for action in plan.actions if isinstance(action, Kill) and action.seconds == inf
    }
    assert len(deaths) == 2
    assert plan.seconds < inf
    for action in plan.actions:
        if isinstance(action, Kill | Pause) and action.seconds < inf and action.process in deaths:
            assert action.at + action.seconds < deaths[action.process]


def test_without_deaths_the_plan_is_what_it_was() -> None:
    names = ["p1", "p2", "p3"]
    assert draw_plan(3, names, 30.0, 4, 2, 1, 0.0, 0.0, 0.0) == draw_plan(
        3, names, 30.0, 4, 2, 1, 0.0, 0.0, 0.0, deaths=0
    )
