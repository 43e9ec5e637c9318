"""Plans are drawn from a seed, and make sense."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.chaos.schedule import Kill, Partition, Pause, draw_plan
from ordercast.core import UsageError

NAMES = ["a", "b", "c", "d"]


def test_the_same_seed_gives_the_same_plan_and_another_another() -> None:
    plans = [draw_plan(seed, NAMES, 30.0, 5, 2, 3, 0.1, 0.0, 0.0) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]


@given(st.integers(0, 1000), st.integers(0, 20), st.integers(0, 5), st.integers(0, 5), st.floats(5, 300))
def test_a_plan_has_what_was_asked_for_and_no_process_is_down_twice(
    seed: int, kills: int, pauses: int, partitions: int, seconds: float
) -> None:
    plan = draw_plan(seed, NAMES, seconds, kills, pauses, partitions, 0.0, 0.0, 0.0)
    assert [sum(isinstance(action, kind) for action in plan.actions) for kind in (Kill, Pause, Partition)] == [
        kills,
        pauses,
        partitions,
    ]
    assert [action.at for action in plan.actions] == sorted(action.at for action in plan.actions)
    for name in NAMES:
        down = [each for each in plan.actions if not isinstance(each, Partition) and each.process == name]
        for first, second in itertools.pairwise(down):
            assert first.at + first.seconds < second.at
    for action in plan.actions:
        assert action.at + action.seconds <= plan.seconds
        if isinstance(action, Partition):
            assert 0 < len(action.side) < len(NAMES)


def test_nonsense_is_refused() -> None:
    with pytest.raises(UsageError, match="positive time"):
        draw_plan(1, NAMES, 0.0, 1, 0, 0, 0.0, 0.0, 0.0)
    with pytest.raises(UsageError, match="one process alone"):
        draw_plan(1, ["a"], 10.0, 0, 0, 1, 0.0, 0.0, 0.0)
