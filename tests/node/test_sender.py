"""Small bundles leave at once while few are under way; who tells how many are counts anew what has been accepted."""

from __future__ import annotations

import asyncio
from math import ceil

import pytest

from ordercast.node.bundles import BUNDLE_BYTES_MAX, MESSAGE_OVERHEAD
from ordercast.node.runs import Run
from ordercast.node.sender import Sender
from tests.hand_loop import HandLoop

TO_G = (("g",), None)


class Way:
    """A sender in the test's hands, and the bundles that have left."""

    def __init__(self) -> None:
        self.loop = HandLoop()
        self.left: list[bytes] = []
        self.sender = Sender(self.loop, lambda payload, *_: self.left.append(payload), BUNDLE_BYTES_MAX)  # type: ignore[arg-type]

    def send(self, count: int) -> int:
        """So many messages, one after the other; how many bundles have left by now."""
        for _ in range(count):
            assert self.sender.add(TO_G, b"x")
            self.loop.run_due()
        return len(self.left)


def test_where_credit_comes_late_a_third_small_bundle_waits() -> None:
    way = Way()
    way.sender.on_credit(8)
    assert way.send(5) == 2
    way.sender.on_credit(8)
    way.loop.run_due()
    assert len(way.left) == 3, "what has come meanwhile leaves together"


def test_bundles_that_have_had_their_turn_are_not_under_way_though_they_are_not_accepted() -> None:
    way = Way()
    way.sender.on_credit(8, under_way=0)
    assert way.send(5) == 2
    way.sender.on_credit(6, under_way=1)
    way.loop.run_due()
    assert len(way.left) == 3, "one is under way, so that another may leave"
    assert way.send(1) == 3, "two are"
    way.sender.on_credit(5, under_way=0)
    assert not way.sender.is_idle, "none of them is accepted, and the last message has not left"
    way.loop.run_due()
    assert len(way.left) == 4
    way.sender.on_credit(4, under_way=0)
    assert not way.sender.is_idle
    assert not way.loop.due
    assert way.sender.add(TO_G, b"x")
    assert len(way.left) == 5, "with nothing under way not even a turn of the loop is lost"
    way.sender.on_credit(8, under_way=0)
    assert way.sender.is_idle


def test_a_credit_without_a_count_is_a_credit_as_before() -> None:
    way = Way()
    way.sender.on_credit(8, under_way=0)
    way.send(2)
    way.sender.on_credit(6)
    assert way.send(1) == 2


def test_runs_leave_before_anybody_waits_for_room_while_there_is_credit() -> None:
    way = Way()
    way.sender.on_credit(8)
    runs = [Run("c", number, 1, memoryview(bytes(BUNDLE_BYTES_MAX - 1000))) for number in range(1, 20)]
    taken = [run for run in runs if way.sender.add_letter(TO_G, run)]
    assert len(way.left) == 8, "there is no credit for more"
    assert 8 < len(taken) < len(runs), "some wait, and the next one is not taken"


@pytest.mark.parametrize("size", [1, 13, 100])
def test_whoever_waits_for_room_fills_bundles_though_each_has_its_turn_at_once(size: int) -> None:
    payloads = 640 * [bytes(size)]

    async def send(lists: int) -> int:
        left: list[bytes] = []

        def take(payload: bytes, *_: object) -> None:
            left.append(payload)
            sender.on_credit(64, under_way=0)

        sender = Sender(asyncio.get_running_loop(), take, BUNDLE_BYTES_MAX)
        sender.on_credit(64, under_way=0)
        for _ in range(lists):
            await sender.add_all(TO_G, payloads)
        await sender.drain()
        return len(left)

    in_a_bundle = BUNDLE_BYTES_MAX // max(size + MESSAGE_OVERHEAD, 16)
    assert asyncio.run(send(40)) == ceil(40 * len(payloads) / in_a_bundle)
