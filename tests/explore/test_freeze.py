"""The state of a core can be taken out, compared and put back, whatever its functions hold on to."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable

import msgspec

from ordercast.explore.freeze import ConstantRandom, Freezer


class Inner:
    __slots__ = ("name", "numbers")

    def __init__(self, name: str) -> None:
        self.name = name
        self.numbers: set[int] = set()


class Core:
    """Everything that real cores have: slots, tables that functions look into, counters, parts that know the core."""

    def __init__(self) -> None:
        self.outbox: list[str] = []
        self.table: dict[str, Inner] = {}
        self.find = self.table.get
        self.double: Callable[[], int] = lambda: 2 * self.count
        self.count = 0
        self.queue: deque[int] = deque(maxlen=3)
        self.counted: Counter[str] = Counter()
        self.numbers = itertools.count(1)
        self.due: list[int] | None = []

    def change(self, name: str) -> None:
        self.count += 1
        self.table[name] = Inner(name)
        self.table[name].numbers.add(next(self.numbers))
        self.queue.append(self.count)
        self.counted[name] += 1
        self.due = [self.count]
        self.outbox.append(name)


def test_a_state_that_is_put_back_is_the_one_that_was_taken_and_functions_see_it() -> None:
    core = Core()
    freezer = Freezer(core, frozenset(("outbox",)))
    first = freezer.freeze()
    core.change("x")
    second = freezer.freeze()
    core.change("y")
    third = freezer.freeze()
    assert len({first, second, third}) == 3
    freezer.restore(second)
    assert freezer.freeze() == second
    assert core.double() == 2
    found = core.find("x")
    assert found is not None
    assert found.numbers == {1}
    assert core.find("y") is None
    assert next(core.numbers) == 2
    assert list(core.queue) == [1]
    assert core.due == [1]
    assert core.counted == Counter(x=1)
    freezer.restore(first)
    assert core.find("x") is None
    assert core.due == []


def test_the_same_state_reached_in_another_way_has_the_same_number() -> None:
    core = Core()
    freezer = Freezer(core, frozenset(("outbox",)))
    core.change("x")
    once = freezer.freeze()
    freezer.restore(once)
    core.change("y")
    assert freezer.freeze() != once
    freezer.restore(once)
    assert freezer.freeze() == once
    assert len(core.outbox) == 2, "what is left out stays as it is"


def test_what_two_hold_is_one_object_again_when_it_is_put_back() -> None:
    core = Core()
    core.table["x"] = Inner("x")
    freezer = Freezer(core)
    shared = Inner("shared")
    core.table["x"] = core.table["y"] = shared
    state = freezer.freeze()
    core.table.clear()
    freezer.forget()
    freezer.restore(state)
    assert core.table["x"] is core.table["y"]


class Way(msgspec.Struct, frozen=True):
    """Never another one, but what it holds goes on."""

    numbers: tuple[itertools.count[int], ...]
    inner: Inner


class WithWays:
    """Makes what it needs when it needs it."""

    def __init__(self) -> None:
        self.inner = Inner("inner")
        self.numbers = itertools.count(1)
        self.ways: dict[str, Way] = {}

    def send(self, name: str) -> int:
        way = self.ways.setdefault(name, Way((self.numbers,), self.inner))
        number = next(way.numbers[0])
        way.inner.numbers.add(number)
        return number


def test_what_a_frozen_object_holds_is_put_back_too_and_is_still_what_others_hold() -> None:
    core = WithWays()
    freezer = Freezer(core)
    core.send("x")
    state = freezer.freeze()
    assert core.send("x") == 2
    assert freezer.freeze() != state
    freezer.restore(state)
    assert freezer.freeze() == state
    assert core.inner.numbers == {1}
    assert core.ways["x"].inner is core.inner
    assert core.ways["x"].numbers[0] is core.numbers
    assert core.send("x") == 2
    assert core.send("y") == 3


class Counted(dict[str, int]):
    """A table that knows how many entries it ever had."""

    def __init__(self) -> None:
        super().__init__()
        self.ever = 0

    def note(self, name: str) -> None:
        self.ever += 1
        self[name] = self.ever


class WithTables:
    """Knows things by themselves, and not by names."""

    def __init__(self) -> None:
        self.counted = Counted()
        self.known: dict[Inner, str] = {}
        self.some: set[Inner] = set()
        self.all: list[Inner] = []

    def add(self, name: str) -> None:
        self.counted.note(name)
        inner = Inner(name)
        self.known[inner] = name
        self.some.add(inner)
        self.all.append(inner)


def test_tables_are_put_back_with_what_they_know_and_with_their_keys() -> None:
    core = WithTables()
    freezer = Freezer(core)
    core.add("x")
    core.add("y")
    state = freezer.freeze()
    core.add("z")
    core.all[0].numbers.add(1)
    freezer.freeze()
    freezer.restore(state)
    assert freezer.freeze() == state
    assert core.counted.ever == 2
    assert set(core.all) == core.some == set(core.known)
    assert [inner.name for inner in core.all] == ["x", "y"]
    assert core.all[0].numbers == set()


class Held(msgspec.Struct):
    """Knows what holds it."""

    by: list[Held]


class Holding:
    """Has something that holds itself."""

    def __init__(self) -> None:
        self.held: Held | None = None


def test_what_holds_itself_is_put_back_so() -> None:
    core = Holding()
    freezer = Freezer(core)
    held = core.held = Held([])
    held.by.append(held)
    state = freezer.freeze()
    core.held = None
    freezer.freeze()
    freezer.restore(state)
    again: Held | None = core.held
    assert again is not None
    assert again is not held
    assert again.by == [again]
    assert again.by[0] is again
    assert freezer.freeze() == state


def test_chance_is_always_the_same_and_never_asked_for_ever() -> None:
    chance = ConstantRandom()
    assert [chance.randrange(bound) for bound in range(1, 9)] == [0, 1, 1, 3, 3, 3, 3, 7]
    assert chance.choice(["only"]) == "only"
