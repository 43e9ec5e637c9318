"""A process that polls is awake for some time after each datagram, and gives the processor to whoever needs it."""

from __future__ import annotations

import asyncio
import os
from typing import cast

import pytest

from ordercast.net.polling import BusyPoll
from tests.hand_loop import HandLoop
from tests.node.cluster import make_configuration, open_nodes, payloads, run


class Bench:
    """A poll of one second, with everything around it in the test's hands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = HandLoop()
        self.now = 0.0
        self.done: list[str] = []
        self.poll = BusyPoll(cast(asyncio.AbstractEventLoop, self.loop), 1.0, lambda: self.now)
        monkeypatch.setattr(os, "sched_yield", lambda: self.done.append("yield"))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_the_loop_turns_until_nothing_came_for_so_long(bench: Bench) -> None:
    bench.poll.extend()
    bench.loop.run_due()
    bench.now = 0.9
    bench.poll.extend()
    bench.loop.run_due()
    bench.now = 1.8
    bench.loop.run_due()
    assert bench.loop.due
    bench.now = 1.9
    bench.loop.run_due()
    assert not bench.loop.due


def test_the_next_datagram_starts_it_again(bench: Bench) -> None:
    bench.poll.extend()
    bench.now = 1.0
    bench.loop.run_due()
    bench.loop.run_due()
    assert not bench.loop.due
    bench.poll.extend()
    assert bench.loop.due


def test_many_datagrams_in_one_turn_are_one_poll(bench: Bench) -> None:
    for _ in range(5):
        bench.poll.extend()
    assert len(bench.loop.due) == 1


def test_the_application_has_its_message_before_another_process_has_the_processor(bench: Bench) -> None:
    bench.poll.extend()
    bench.loop.call_soon(lambda: bench.done.append("application"))
    bench.loop.run_due()
    bench.loop.run_due()
    assert bench.done == ["application", "yield"]


def test_a_closed_transport_does_not_poll(bench: Bench) -> None:
    bench.poll.extend()
    bench.loop.run_due()
    bench.poll.stop()
    bench.loop.run_due()
    assert not bench.loop.due


def test_nodes_that_poll_deliver_the_same_order_and_sleep_when_they_are_closed(bench: Bench) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration(busy_poll=10_000_000)) as nodes:
            groups = [await node.join("g") for node in nodes]
            for node in nodes:
                await node.multicast_many([f"{node.process}{index}".encode() for index in range(50)], ["g"])
            taken = [await payloads(group, 150) for group in groups]
            assert len(set(taken[0])) == 150
            assert taken[0] == taken[1] == taken[2]
            assert "yield" in bench.done
        bench.done.clear()
        for _ in range(10):
            await asyncio.sleep(0)
        assert bench.done == []

    run(main())


def test_nodes_that_are_told_not_to_poll_sleep(bench: Bench) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration(busy_poll=0)) as nodes:
            group = await nodes[0].join("g")
            await nodes[1].multicast(b"hello", ["g"])
            assert await payloads(group, 1) == [b"hello"]
        assert bench.done == []

    run(main())
