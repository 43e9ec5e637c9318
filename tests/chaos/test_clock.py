"""The clock of a plan stands still while something happens alone."""

from __future__ import annotations

from ordercast.chaos.clock import PlanClock


def test_what_takes_longer_than_was_reserved_moves_the_rest_of_the_plan() -> None:
    seconds = 100.0
    clock = PlanClock(lambda: seconds)
    seconds = 103.0
    clock.hold()
    seconds = 110.0
    assert clock.now == 3.0
    clock.release(4.0)
    assert clock.now == 7.0
    seconds = 111.0
    assert clock.now == 8.0


def test_what_is_over_sooner_moves_nothing() -> None:
    seconds = 100.0
    clock = PlanClock(lambda: seconds)
    seconds = 103.0
    clock.hold()
    seconds = 104.0
    clock.release(4.0)
    assert clock.now == 4.0
