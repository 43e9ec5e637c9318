"""Timers of a live site: the last word counts, and what is pushed back costs nothing until it comes up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from ordercast.core import MAIN_INSTANCE
from ordercast.core.effects import CancelTimer, SetTimer
from ordercast.core.events import Timer
from ordercast.net.timers import Timers
from ordercast.runtime import Instance


class Handle:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ClockLoop:
    """An event loop whose clock the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.queued: list[Handle] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, function: Callable[..., None], *arguments: object) -> Handle:
        handle = Handle(when, lambda: function(*arguments))
        self.queued.append(handle)
        return handle

    def run_until(self, end: float) -> None:
        while due := [handle for handle in self.queued if not handle.cancelled and handle.when <= end]:
            first = min(due, key=lambda handle: handle.when)
            self.queued.remove(first)
            self.now = first.when
            first.callback()
        self.now = end


class CoarseLoop(ClockLoop):
    """One that counts in whole milliseconds, as uvloop does, and whose turns take a tenth of one."""

    def time(self) -> float:
        return int(self.now * 1000 + 1e-6) / 1000

    def call_at(self, when: float, function: Callable[..., None], *arguments: object) -> Handle:
        rounded = round((when - self.time()) * 1000)
        return super().call_at(self.time() + rounded / 1000 if rounded else self.now + 0.0001, function, *arguments)


class Bench:
    """Timers with a clock; what fired, and when."""

    def __init__(self, loop: ClockLoop | None = None) -> None:
        self.loop = loop or ClockLoop()
        self.fired: list[tuple[float, Timer]] = []
        self.timers = Timers(cast(asyncio.AbstractEventLoop, self.loop), self._on_due)

    def _on_due(self, instance: str, timer: Timer) -> None:
        assert instance == MAIN_INSTANCE
        self.fired.append((self.loop.now, timer))

    def set(self, timer: Timer, after_seconds: float) -> None:
        self.timers.set_timer(cast(Instance, _Named()), SetTimer(timer, after_seconds))

    def cancel(self, timer: Timer) -> None:
        self.timers.cancel_timer(cast(Instance, _Named()), CancelTimer(timer))


class _Named:
    name = MAIN_INSTANCE


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_timer_fires_once_when_it_is_due(bench: Bench) -> None:
    bench.set("x", 1.0)
    bench.set(("y", "b"), 2.0)
    bench.loop.run_until(10.0)
    assert bench.fired == [(1.0, "x"), (2.0, ("y", "b"))]


def test_a_loop_that_counts_in_milliseconds_sleeps_until_a_timer_is_due() -> None:
    bench = Bench(CoarseLoop())
    asked = 0
    call_at = bench.loop.call_at

    def counted(when: float, function: Callable[..., None], *arguments: object) -> Handle:
        nonlocal asked
        asked += 1
        return call_at(when, function, *arguments)

    bench.loop.call_at = counted  # type: ignore[method-assign]
    bench.set("x", 0.0124)
    bench.loop.run_until(1.0)
    assert [(round(now, 6), timer) for now, timer in bench.fired] == [(0.013, "x")]
    assert asked == 2, "it came up early once, and not once in each turn until the next millisecond"


def test_a_timer_that_is_set_again_fires_at_the_new_time_only(bench: Bench) -> None:
    bench.set("x", 1.0)
    bench.set("x", 3.0)
    assert len(bench.loop.queued) == 1, "pushed back where it stands"
    bench.loop.run_until(10.0)
    bench.set("x", 5.0)
    bench.set("x", 2.0)
    bench.loop.run_until(20.0)
    assert bench.fired == [(3.0, "x"), (12.0, "x")]


def test_a_cancelled_timer_does_not_fire_unless_it_is_set_again(bench: Bench) -> None:
    bench.set("x", 1.0)
    bench.cancel("x")
    bench.cancel("never set")
    bench.loop.run_until(5.0)
    bench.set("y", 1.0)
    bench.cancel("y")
    bench.set("y", 2.0)
    bench.loop.run_until(10.0)
    assert bench.fired == [(7.0, "y")]


def test_a_stopped_site_has_no_timers(bench: Bench) -> None:
    bench.set("x", 1.0)
    bench.timers.stop()
    bench.loop.run_until(5.0)
    assert bench.fired == []


def test_a_timer_of_no_time_at_all_is_due_at_the_end_of_the_turn(bench: Bench) -> None:
    bench.set("x", 1.0)
    bench.set("x", 0.0)
    bench.set("y", 0.0)
    bench.set("z", 0.0)
    bench.cancel("z")
    assert list(bench.timers.take_at_once()) == [(MAIN_INSTANCE, "x"), (MAIN_INSTANCE, "y")]
    bench.loop.run_until(5.0)
    assert bench.fired == []
    assert not bench.timers.at_once


def test_a_timer_of_no_time_at_all_that_is_set_again_fires_at_the_new_time_only(bench: Bench) -> None:
    bench.set("x", 0.0)
    bench.set("x", 1.0)
    assert list(bench.timers.take_at_once()) == []
    bench.loop.run_until(5.0)
    assert bench.fired == [(1.0, "x")]


def test_what_is_set_at_the_end_of_a_turn_waits_for_the_end_of_the_next(bench: Bench) -> None:
    bench.set("x", 0.0)
    for _ in bench.timers.take_at_once():
        bench.set("x", 0.0)
    assert list(bench.timers.take_at_once()) == [(MAIN_INSTANCE, "x")]


def test_a_timer_that_is_cancelled_at_the_end_of_the_turn_does_not_fire(bench: Bench) -> None:
    bench.set("x", 0.0)
    bench.set("y", 0.0)
    taken = []
    for _, timer in bench.timers.take_at_once():
        taken.append(timer)
        bench.cancel("y")
    assert taken == ["x"]
