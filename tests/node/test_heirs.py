"""Who counts as an heir of a replicated state when somebody leaves who has it: those who answer, at their place in the
order, and not whoever stands in the view."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from pathlib import Path

import pytest

from ordercast import Replicated
from ordercast.node import replica_parting
from ordercast.node.deliveries import View
from ordercast.node.replica_lineage import Lineage
from ordercast.node.replica_messages import Hold, Part
from tests.node.cluster import run
from tests.node.test_lineage import Book, join, town, until


class Order:
    """What replicas say, in one order, which everybody hears who is up; who has the state is up to the test."""

    def __init__(self, names: str, by_majority: bool = True) -> None:
        self.up = set(names)
        self.holders = set(names)
        self._said: deque[Hold | Part] = deque()
        self.of = {name: Lineage(name, "quotes", self._said.append) for name in names}
        for lineage in self.of.values():
            lineage.guard(None, by_majority, tuple)
        self.install(names)

    def install(self, names: str) -> None:
        view = View("quotes", names, tuple(names), (), (), (), ())
        for name in self.up & set(names):
            self.of[name].on_view(view)

    def settle(self) -> None:
        while self._said:
            said = self._said.popleft()
            for name in sorted(self.up):
                self.of[name].on_said(said, name in self.holders)

    def ask(self, name: str) -> bool:
        """Whether somebody who leaves has heirs when all who are up have answered."""
        self.of[name].say_parting()
        self.of[name].ask_holders()
        self.settle()
        return self.of[name].has_heirs(())


def test_a_member_that_is_down_is_no_heir_although_it_stands_in_the_view_and_had_the_state() -> None:
    order = Order("ab")
    order.of["b"].say_held()
    order.settle()
    order.up.remove("b")
    assert not order.ask("a")
    assert order.of["a"].why_no_heirs() == "of those who stay in group quotes (b) nobody says that it has the state"
    order.up.add("b")
    assert order.ask("a")


def test_what_was_answered_before_a_view_counts_no_more_in_it() -> None:
    # b answers and dies; c comes by a summary from behind that. Without the second question a would leave, and what was
    # ordered between b's end and c's entry would be nobody's.
    order = Order("abc")
    order.install("ab")
    order.holders.discard("c")
    assert order.ask("a")
    order.up.remove("b")
    order.install("abc")
    assert not order.of["a"].has_heirs(())
    assert not order.ask("a")
    order.holders.add("c")
    order.up.add("b")
    assert order.ask("a")


def test_where_a_majority_decides_changes_half_of_all_members_have_to_be_heirs() -> None:
    # With b alone: b dies after its answer, and c and d, who have no state, make the list without a.
    order = Order("abcd")
    order.holders -= {"c", "d"}
    assert not order.ask("a")
    order.holders.add("c")
    assert order.ask("a")
    assert Order("abcd", by_majority=False).ask("a")


def test_of_many_who_leave_at_once_the_last_ones_stay_until_the_first_ones_are_out() -> None:
    # b answers all of them and dies. Would all of them leave, they alone would make the lists, and let f in with the
    # last one: b returns with less than f, and nobody else is there.
    order = Order("abcdef")
    order.install("abcde")
    order.holders.discard("f")
    assert [name for name in "acde" if order.ask(name)] == ["a", "c"]
    order.up.remove("b")
    order.install("bde")
    assert not order.ask("d")
    assert not order.ask("e")
    order.install("bdef")
    order.holders.add("f")
    assert order.ask("d"), "e, who leaves later, and f have the state"
    assert not order.ask("e")
    order.install("bef")
    assert not order.ask("e")
    order.up.add("b")
    assert order.ask("e")


def test_of_two_who_leave_the_first_one_leaves_first() -> None:
    order = Order("abc")
    order.holders.discard("c")
    order.of["b"].say_parting()
    order.settle()
    assert not order.ask("a")
    assert not order.ask("b")
    order.holders.add("c")
    assert order.ask("b")
    assert not order.ask("a")
    order.install("ac")
    assert order.ask("a")


def test_a_leaver_waits_for_a_member_that_is_down_and_leaves_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_parting, "STILL_SECONDS", 0.2)

    async def main() -> None:
        async with town("abc", log_directory=str(tmp_path)) as built:
            nodes = await built.open("a", "b", "c")
            first, second, third = await asyncio.gather(*map(join, nodes))
            await first.call(Book.add, "x")
            built.nodes.pop("b").kill()
            await third.call(Book.add, "while b is down")
            leaving = asyncio.create_task(first.leave())
            with caplog.at_level(logging.WARNING):
                await until(
                    lambda: "process a waits with leaving: of those who stay in group quotes (b, c)" in caplog.text
                )
            assert not leaving.done()
            (b,) = await built.open("b")
            second = await Replicated(Book()).join(b, "quotes")
            await leaving
            await until(lambda: b.members("quotes") == ("b", "c"))
            assert await second.call(Book.add, "y") == 3
            await until(lambda: third.state == second.state == Book(["x", "while b is down", "y"]))

    run(main())
