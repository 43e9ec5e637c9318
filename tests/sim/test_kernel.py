"""The event queue calls what is scheduled in order of time, and at equal times in the order of scheduling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.sim.kernel import EventQueue, Runaway


@given(st.lists(st.integers(min_value=0, max_value=5)))
def test_events_come_in_order_of_time_and_then_of_scheduling(times: list[int]) -> None:
    queue = EventQueue()
    seen: list[tuple[int, int]] = []
    for number, time in enumerate(times):
        queue.schedule(float(time), seen.append, (time, number))
    queue.run(5.0)
    assert seen == sorted((time, number) for number, time in enumerate(times))
    assert queue.handled == len(times)
    assert queue.now == 5.0


def test_what_lies_after_the_end_waits_for_the_next_run() -> None:
    queue = EventQueue()
    seen: list[str] = []
    queue.schedule(1.0, seen.append, "early")
    queue.schedule(3.0, seen.append, "late")
    queue.run(2.0)
    assert seen == ["early"]
    queue.run(3.0)
    assert seen == ["early", "late"]
    assert queue.handled == 2


def test_a_time_that_has_passed_means_now() -> None:
    queue = EventQueue()
    seen: list[float] = []
    queue.run(2.0)
    queue.schedule(1.0, lambda: seen.append(queue.now))
    queue.run(2.0)
    assert seen == [2.0]


def test_events_that_beget_each_other_without_end_are_a_runaway() -> None:
    queue = EventQueue()
    queue.events_max = 1000

    def again() -> None:
        queue.schedule(queue.now, again)

    again()
    with pytest.raises(Runaway, match="1000 events"):
        queue.run(1.0)
