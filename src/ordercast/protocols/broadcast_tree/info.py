"""INFO sets as they travel and as they are kept of other hosts: intervals in a tuple, which is never changed.

What a host has itself is an `IntervalSet`. Of others it keeps what they said last, as it came: a thousand hosts that
each know of a thousand others then share what was said once.
"""

from __future__ import annotations

from ordercast.core import IntervalSet

Numbers = tuple[tuple[int, int], ...]
"""Disjoint closed intervals, ascending."""

NOTHING: Numbers = ()


def highest(numbers: Numbers) -> int:
    """The largest number; 0 when there is none, because messages are numbered from 1. Two sets are compared by it
    (section 4.2: < and ≃)."""
    return numbers[-1][1] if numbers else 0


def holds(numbers: Numbers, number: int) -> bool:
    """Whether the number is in the set."""
    return number <= highest(numbers) and any(first <= number <= last for first, last in numbers)


def with_number(numbers: Numbers, number: int) -> Numbers:
    """The set and one number more; the next one after the largest is the common case."""
    if numbers and number == numbers[-1][1] + 1:
        return (*numbers[:-1], (numbers[-1][0], number))
    if holds(numbers, number):
        return numbers
    return union(numbers, ((number, number),))


def union(numbers: Numbers, others: Numbers) -> Numbers:
    """Both. What a host says later mostly includes what it said before, and is kept as it came."""
    if not numbers or (len(others) == 1 and others[0][0] <= numbers[0][0] and numbers[-1][1] <= others[0][1]):
        return others
    return tuple((IntervalSet(numbers) | IntervalSet(others)).intervals())
