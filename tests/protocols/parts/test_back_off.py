"""Attempts in vain become seldom and small; news begins anew."""

from __future__ import annotations

from ordercast.protocols.parts import BackOff
from ordercast.protocols.parts.back_off import ticks_in


def attempts(back_off: BackOff, ticks: range) -> list[int]:
    """The intervals in which its user tries."""
    tried = []
    for tick in ticks:
        if tick >= back_off.next_tick:
            back_off.note_attempt(tick)
            tried.append(tick)
    return tried


def test_the_wait_doubles_with_each_attempt_up_to_a_most() -> None:
    assert attempts(BackOff(8), range(1, 40)) == [1, 2, 4, 8, 16, 24, 32]


def test_a_most_of_one_interval_tries_in_each() -> None:
    assert attempts(BackOff(1), range(1, 6)) == [1, 2, 3, 4, 5]


def test_news_make_the_next_attempt_due_at_once_and_the_wait_short_again() -> None:
    back_off = BackOff(8)
    attempts(back_off, range(1, 10))
    back_off.begin_anew()
    assert attempts(back_off, range(10, 20)) == [10, 11, 13, 17]


def test_each_attempt_is_a_quarter_of_the_one_before_and_never_nothing() -> None:
    back_off = BackOff(8, burst_max=64)
    bursts = []
    for tick in range(5):
        bursts.append(back_off.burst)
        back_off.note_attempt(tick)
    assert bursts == [64, 16, 4, 1, 1]
    back_off.begin_anew()
    assert back_off.burst == 64


def test_a_user_that_tries_one_thing_goes_on_trying_one() -> None:
    back_off = BackOff(8)
    back_off.note_attempt(1)
    assert back_off.burst == 1


def test_a_time_shorter_than_the_timer_is_one_interval() -> None:
    assert ticks_in(1.6, 0.2) == 8
    assert ticks_in(0.01, 0.2) == 1
