"""Logical clocks never run backwards, and an effect is later than its cause."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core import HybridClock, LamportClock, UsageError


@given(st.lists(st.one_of(st.none(), st.integers(min_value=0, max_value=1000))))
def test_a_lamport_clock_ticks_above_everything_it_has_seen(steps: list[int | None]) -> None:
    clock, highest = LamportClock(), 0
    for heard in steps:
        if heard is None:
            assert clock.tick() > highest
        else:
            clock.observe(heard)
            highest = max(highest, heard)
        highest = max(highest, clock.time)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(min_value=0, max_value=10_000)),
            st.floats(min_value=0, max_value=0.01),
        )
    )
)
def test_a_hybrid_clock_ticks_above_everything_even_when_the_local_clock_jumps(
    steps: list[tuple[int | None, float]],
) -> None:
    clock, highest = HybridClock(unit_seconds=1e-6), -1
    for heard, now in steps:
        if heard is None:
            assert clock.tick(now) > highest
            assert clock.time >= int(now / 1e-6)
        else:
            clock.observe(heard, now)
            highest = max(highest, heard)
        highest = max(highest, clock.time)


def test_a_hybrid_clock_follows_the_local_clock_without_messages() -> None:
    clock = HybridClock(unit_seconds=0.001)
    clock.tick(0.5)
    assert clock.tick(2.0) == 2000


@pytest.mark.parametrize("make", [lambda: LamportClock(-1), lambda: HybridClock(0.0), lambda: HybridClock(-1.0)])
def test_a_clock_that_makes_no_sense_is_refused(make) -> None:
    with pytest.raises(UsageError):
        make()
