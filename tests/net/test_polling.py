"""A process that polls is awake for some time after each datagram, and gives the processor to whoever needs it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import cast

import pytest

from ordercast.net.polling import BusyPoll
from tests.node.cluster import make_configuration, open_nodes, payloads, run


class Loop:
    """An event loop that turns when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.waiting.append(callback)

    def turn(self) -> None:
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback()

    @property
    def sleeps(self) -> bool:
        """Whether it would wait for the network."""
        return not self.waiting


class Bench:
    """A poll of one second, with everything around it in the test's hands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = Loop()
        self.now = 0.0
        self.done: list[str] = []
        self.poll = BusyPoll(cast(asyncio.AbstractEventLoop, self.loop), 1.0, lambda: self.now)
        monkeypatch.setattr(os, "sched_yield", lambda: self.done.append("yield"))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_the_loop_turns_until_nothing_came_for_so_long(bench: Bench) -> None:
    bench.poll.extend()
    bench.loop.turn()
    bench.now = 0.9
    bench.poll.extend()
    bench.loop.turn()
    bench.now = 1.8
    bench.loop.turn()
    assert not bench.loop.sleeps
    bench.now = 1.9
    bench.loop.turn()
    assert bench.loop.sleeps


def test_the_next_datagram_starts_it_again(bench: Bench) -> None:
    bench.poll.extend()
    bench.now = 1.0
    bench.loop.turn()
    bench.loop.turn()
    assert bench.loop.sleeps
    bench.poll.extend()
    assert not bench.loop.sleeps


def test_many_datagrams_in_one_turn_are_one_poll(bench: Bench) -> None:
    for _ in range(5):
        bench.poll.extend()
    assert len(bench.loop.waiting) == 1


def test_the_application_has_its_message_before_another_process_has_the_processor(bench: Bench) -> None:
    bench.poll.extend()
    bench.loop.call_soon(lambda: bench.done.append("application"))
    bench.loop.turn()
    bench.loop.turn()
    assert bench.done == ["application", "yield"]


def test_a_closed_transport_does_not_poll(bench: Bench) -> None:
    bench.poll.extend()
    bench.loop.turn()
    bench.poll.stop()
    bench.loop.turn()
    assert bench.loop.sleeps


def test_nodes_that_poll_deliver_the_same_order() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration(busy_poll=1000)) as nodes:
            groups = [await node.join("g") for node in nodes]
            for node in nodes:
                await node.multicast_many([f"{node.process}{index}".encode() for index in range(50)], ["g"])
            taken = [await payloads(group, 150) for group in groups]
            assert len(set(taken[0])) == 150
            assert taken[0] == taken[1] == taken[2]

    run(main())
