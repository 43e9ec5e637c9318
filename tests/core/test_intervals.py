"""Interval sets behave like plain sets of integers, only smaller."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core import IntervalSet, missing_intervals

numbers = st.sets(st.integers(min_value=-5, max_value=60), max_size=40)
bounds = st.integers(min_value=-10, max_value=70)


@given(st.lists(st.integers(min_value=-5, max_value=60)))
def test_adding_numbers_one_by_one_gives_the_set_of_them_in_any_order(values: list[int]) -> None:
    seen: set[int] = set()
    intervals = IntervalSet()
    for value in values:
        assert intervals.add(value) == (value not in seen)
        seen.add(value)
    assert list(intervals) == sorted(seen)
    assert len(intervals) == len(seen)
    assert bool(intervals) == bool(seen)
    assert intervals.highest == max(seen, default=None)


@given(st.lists(st.tuples(bounds, bounds)))
def test_adding_ranges_gives_the_union_of_them(ranges: list[tuple[int, int]]) -> None:
    intervals = IntervalSet(ranges)
    assert list(intervals) == sorted({number for first, last in ranges for number in range(first, last + 1)})


@given(numbers, numbers)
def test_union_difference_and_intersection_are_those_of_sets(left: set[int], right: set[int]) -> None:
    first, second = IntervalSet.of(left), IntervalSet.of(right)
    assert list(first | second) == sorted(left | right)
    assert list(first - second) == sorted(left - right)
    assert list(first & second) == sorted(left & right)
    assert list(first) == sorted(left), "operands stay as they are"
    assert list(second) == sorted(right)


@given(numbers, bounds)
def test_the_first_gap_is_the_smallest_number_from_the_start_that_is_missing(values: set[int], start: int) -> None:
    expected = start
    while expected in values:
        expected += 1
    assert IntervalSet.of(values).first_gap(start) == expected


@given(numbers, bounds, bounds)
def test_missing_is_what_a_range_has_and_the_set_has_not(values: set[int], first: int, last: int) -> None:
    assert list(IntervalSet.of(values).missing(first, last)) == sorted(set(range(first, last + 1)) - values)


@given(numbers, bounds, bounds)
def test_missing_intervals_hold_what_a_range_has_and_the_numbers_have_not(
    there: set[int], first: int, last: int
) -> None:
    intervals = missing_intervals(there, first, last)
    held = [number for low, high in intervals for number in range(low, high + 1)]
    assert held == [number for number in range(first, last + 1) if number not in there]
    assert all(low <= high for low, high in intervals)
    for (_, high), (low, _) in itertools.pairwise(intervals):
        assert low > high + 1, "each is as long as it can be"


@given(st.permutations(range(1, 12)), bounds, bounds)
def test_missing_intervals_do_not_depend_on_the_order_of_the_numbers(there: list[int], first: int, last: int) -> None:
    assert missing_intervals(there[:6], first, last) == missing_intervals(sorted(there[:6]), first, last)


@given(numbers, bounds)
def test_discarding_through_a_number_keeps_the_larger_ones(values: set[int], through: int) -> None:
    intervals = IntervalSet.of(values)
    intervals.discard_through(through)
    assert list(intervals) == sorted(value for value in values if value > through)


@given(numbers, bounds)
def test_membership_is_that_of_sets(values: set[int], number: int) -> None:
    assert (number in IntervalSet.of(values)) == (number in values)


@given(numbers)
def test_intervals_are_disjoint_and_never_touch(values: set[int]) -> None:
    intervals = list(IntervalSet.of(values).intervals())
    for (_, last), (first, _) in itertools.pairwise(intervals):
        assert first > last + 1


@given(numbers)
def test_equality_is_that_of_sets_and_copies_are_independent(values: set[int]) -> None:
    intervals = IntervalSet.of(values)
    copy = intervals.copy()
    assert copy == intervals
    copy.add(1000)
    assert copy != intervals
    assert 1000 not in intervals


def test_a_million_numbers_in_a_row_are_one_interval() -> None:
    intervals = IntervalSet()
    for number in range(1, 1_000_001):
        intervals.add(number)
    assert list(intervals.intervals()) == [(1, 1_000_000)]


def test_a_set_prints_its_intervals() -> None:
    assert repr(IntervalSet.of([1, 2, 3, 7])) == "IntervalSet({1-3, 7})"


def test_a_mutable_set_cannot_be_hashed() -> None:
    with pytest.raises(TypeError):
        hash(IntervalSet())
