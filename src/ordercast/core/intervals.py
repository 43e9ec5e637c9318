"""Sets of sequence numbers, kept as intervals: what was received, what is missing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


def missing_intervals(there: Iterable[int], first: int, last: int) -> tuple[tuple[int, int], ...]:
    """The numbers of first … last that are not among those that are there, as closed intervals, ascending."""
    intervals: list[tuple[int, int]] = []
    start = first
    for number in sorted(number for number in there if first <= number <= last):
        if number > start:
            intervals.append((start, number - 1))
        start = number + 1
    if start <= last:
        intervals.append((start, last))
    return tuple(intervals)


class IntervalSet:
    """A set of integers that are mostly consecutive.

    Kept as sorted, disjoint, non-adjacent closed intervals in two parallel lists, so that a million numbers received
    in a row cost two integers. Adding at the end, the common case, is constant time.
    """

    __slots__ = ("_first", "_last")

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        self._first: list[int] = []
        self._last: list[int] = []
        for first, last in intervals:
            self.add_range(first, last)

    @classmethod
    def of(cls, numbers: Iterable[int]) -> IntervalSet:
        """The set of these numbers."""
        result = cls()
        for number in numbers:
            result.add(number)
        return result

    def add(self, number: int) -> bool:
        """Add one number; False when it was there already."""
        last = self._last
        if not last or number > last[-1] + 1:
            self._first.append(number)
            last.append(number)
            return True
        if number == last[-1] + 1:
            last[-1] = number
            return True
        if number in self:
            return False
        self.add_range(number, number)
        return True

    def add_range(self, first: int, last: int) -> None:
        """Add first … last, both included; nothing when last < first."""
        if last < first:
            return
        # Every interval that overlaps or touches [first, last] melts into one.
        low = bisect_left(self._last, first - 1)
        high = bisect_right(self._first, last + 1)
        if low < high:
            first = min(first, self._first[low])
            last = max(last, self._last[high - 1])
        self._first[low:high] = [first]
        self._last[low:high] = [last]

    def discard_through(self, number: int) -> None:
        """Remove every number <= `number`."""
        keep = bisect_right(self._last, number)
        del self._first[:keep]
        del self._last[:keep]
        if self._first and self._first[0] <= number:
            self._first[0] = number + 1

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        index = bisect_left(self._last, number)
        return index < len(self._first) and self._first[index] <= number

    def __len__(self) -> int:
        return sum(self._last) - sum(self._first) + len(self._first)

    def __bool__(self) -> bool:
        return bool(self._first)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.intervals():
            yield from range(first, last + 1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalSet):
            return NotImplemented
        return self._first == other._first and self._last == other._last

    __hash__ = None  # type: ignore[assignment]  # mutable, like set

    def __repr__(self) -> str:
        inside = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in self.intervals())
        return f"IntervalSet({{{inside}}})"

    def intervals(self) -> Iterator[tuple[int, int]]:
        """The disjoint closed intervals, ascending."""
        return zip(self._first, self._last, strict=True)

    def copy(self) -> IntervalSet:
        """A set of its own with the same numbers."""
        result = IntervalSet()
        result._first = self._first.copy()
        result._last = self._last.copy()
        return result

    def __or__(self, other: IntervalSet) -> IntervalSet:
        larger, smaller = (self, other) if len(self._first) >= len(other._first) else (other, self)
        result = larger.copy()
        for first, last in smaller.intervals():
            result.add_range(first, last)
        return result

    def __sub__(self, other: IntervalSet) -> IntervalSet:
        result = IntervalSet()
        other_first, other_last = other._first, other._last
        index = 0
        for first, last in self.intervals():
            while index < len(other_first) and other_last[index] < first:
                index += 1
            at = index
            while at < len(other_first) and other_first[at] <= last:
                if other_first[at] > first:
                    result._first.append(first)
                    result._last.append(other_first[at] - 1)
                first = other_last[at] + 1
                at += 1
            if first <= last:
                result._first.append(first)
                result._last.append(last)
        return result

    def __and__(self, other: IntervalSet) -> IntervalSet:
        return self - (self - other)

    def first_gap(self, start: int = 1) -> int:
        """The smallest number >= start that is not in the set."""
        index = bisect_left(self._last, start)
        if index < len(self._first) and self._first[index] <= start:
            return self._last[index] + 1
        return start

    def missing(self, first: int, last: int) -> IntervalSet:
        """The numbers of first … last that are not in the set."""
        return IntervalSet([(first, last)]) - self

    @property
    def highest(self) -> int | None:
        """The largest number, None when empty."""
        return self._last[-1] if self._last else None
