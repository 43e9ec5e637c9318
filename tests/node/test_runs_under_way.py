"""Runs that overtake each other are sent again, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ordercast.core import Address
from ordercast.node.runs import Run
from ordercast.node.runs_under_way import ROOM_SECONDS, RunsUnderWay

TO: Address = (("g",), None)


class Way:
    """Where runs leave, each by its number, and `after`."""

    def __init__(self) -> None:
        self.left: list[tuple[int, int]] = []
        self.room = 1000
        self.runs = RunsUnderWay()

    def add(self, to: Address, run: Run) -> bool:
        assert to is TO
        if len(self.left) < self.room:
            self.left.append((run.number, run.after))
            return True
        return False

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.runs.add(Run("x", number, 1, memoryview(b""), ticket=number, after=number - 1), TO, self.add)


def in_a_loop(work: Callable[[Way], None], count: int) -> list[tuple[int, int]]:
    """What has left when so many have, and all that was called soon was called."""

    async def main() -> list[tuple[int, int]]:
        way = Way()
        work(way)
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            while len(way.left) < count:
                await asyncio.sleep(0)
        return way.left

    return asyncio.run(main())


def test_runs_that_came_early_leave_again_in_their_order_when_one_before_them_has_its_place() -> None:
    def work(way: Way) -> None:
        way.send(6, 7, 8, 9)
        way.runs.overtook(9)
        way.runs.overtook(8)
        assert way.left == []
        way.runs.end(6)
        way.runs.end(7)

    assert in_a_loop(work, 2) == [(8, 7), (9, 8)]


def test_a_run_whose_predecessor_is_not_under_way_need_not_follow_it() -> None:
    """The group has ordered that one long ago, and has forgotten the client."""

    def work(way: Way) -> None:
        way.send(7, 8)
        way.runs.overtook(7)
        way.runs.overtook(8)

    assert in_a_loop(work, 2) == [(7, 0), (8, 7)]


def test_whoever_comes_behind_one_for_which_there_is_no_room_waits_with_it() -> None:
    def work(way: Way) -> None:
        way.send(6, 7, 8, 9)
        for number in (7, 8, 9):
            way.runs.overtook(number)
        way.room = 1
        way.runs.end(6)
        asyncio.get_running_loop().call_later(ROOM_SECONDS / 2, setattr, way, "room", 10)

    assert in_a_loop(work, 3) == [(7, 6), (8, 7), (9, 8)]


def test_what_nobody_waits_for_any_more_is_not_sent_again() -> None:
    def work(way: Way) -> None:
        way.send(6, 7)
        way.runs.overtook(7)
        way.runs.end(7)
        way.runs.end(6)
        way.runs.overtook(7)

    assert in_a_loop(work, 0) == []
