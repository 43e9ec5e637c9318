"""Replicated states where no file names the processes: with whom a state begins, which one survives when histories
meet, and that it stays when those leave who have it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast import Replicated
from ordercast.net.ports import free_ports
from ordercast.node import replica_parting
from ordercast.node.replica_lineage import Lineage
from ordercast.node.replica_messages import Call
from tests.node.cluster import run


@dataclass
class Book:
    """A state that remembers every call."""

    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> int:
        self.lines.append(line)
        return len(self.lines)


class Town:
    """Processes that find each other by seeds, unless a test keeps some of them apart."""

    def __init__(self, names: str, stack: AsyncExitStack, **keys: Any) -> None:
        self._stack = stack
        self._keys = keys
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.nodes: dict[str, ordercast.Node] = {}
        self._sides: list[str] = []

    async def open(self, *names: str) -> list[ordercast.Node]:
        """Start these. Their seeds are who runs already, and each other."""
        for name in names:
            others = {*self.nodes, *names} - {name} or {other for other in self._ports if other != name}
            seeds = [f"127.0.0.1:{self._ports[other]}" for other in sorted(others)]
            discovery = {"listen": f"127.0.0.1:{self._ports[name]}", "seeds": seeds}
            base = {"cluster": "prices", "protocol": "token", "insecure": True, "discovery": discovery}
            self.nodes[name] = await self._stack.enter_async_context(ordercast.open(base | self._keys, name))
            self._disturb(name)
        return [self.nodes[name] for name in names]

    def part(self, *sides: str) -> None:
        """Only those of one side hear each other; without sides all do."""
        self._sides = list(sides)
        for name in self.nodes:
            self._disturb(name)

    def _disturb(self, name: str) -> None:
        side = next((side for side in self._sides if name in side), None)
        allowed = {port for other, port in self._ports.items() if side is None or other in side}

        def copies(_datagram: object, address: object) -> int:
            return int(not isinstance(address, tuple) or address[1] in allowed)

        self.nodes[name].internals.engine.transport.disturb(copies)


@asynccontextmanager
async def town(names: str, *sides: str, **keys: Any) -> AsyncIterator[Town]:
    async with AsyncExitStack() as stack:
        built = Town(names, stack, **keys)
        built.part(*sides)
        yield built


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0)


def join(node: ordercast.Node, **keys: Any) -> asyncio.Task[Replicated[Book]]:
    return asyncio.create_task(Replicated(Book(), **keys).join(node, "quotes"))


def test_a_replica_that_is_alone_waits_for_another_one_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with town("ab") as built:
            (a,) = await built.open("a")
            with pytest.raises(TimeoutError, match=r"process a has no state of group quotes after 2.5 s: no other re"):
                await Replicated(Book()).join(a, "quotes", timeout=2.5)
            assert (
                "replica a waits: no other replica is in group quotes yet, and its state begins with 2" in caplog.text
            )
            assert "looking for seed 127.0.0.1" in caplog.text
            await until(lambda: "quotes" not in a.groups)
            first = join(a)
            (b,) = await built.open("b")
            second = await join(b)
            assert await second.call(Book.add, "x") == 1
            assert await (await first).call(Book.add, "y") == 2

    run(main())


def test_a_state_that_has_begun_goes_on_with_one_and_a_quorum_of_one_begins_alone() -> None:
    async def main() -> None:
        async with town("abc") as built:
            a, b = await built.open("a", "b")
            first, second = await asyncio.gather(join(a), join(b))
            await second.call(Book.add, "x")
            await second.leave()
            assert await first.call(Book.add, "alone") == 2
            (c,) = await built.open("c")
            third = await Replicated(Book(), quorum=1).join(c, "rates")
            assert await third.call(Book.add, "of a state of its own") == 1

    run(main())


def test_below_a_quorum_no_call_is_sent_and_none_is_applied() -> None:
    async def main() -> None:
        async with town("abc") as built:
            nodes = await built.open("a", "b", "c")
            first, second, third = await asyncio.gather(*(join(node, quorum=3) for node in nodes))
            assert await third.call(Book.add, "x") == 1
            await third.leave()
            with pytest.raises(ordercast.GroupBlocked, match="2 replicas are here, and quorum is 3; add was not sent"):
                await first.call(Book.add, "y")
            again = await join(nodes[2], quorum=3)
            assert await second.call(Book.add, "z") == 2
            await until(lambda: again.state == Book(["x", "z"]))

    run(main())


def test_a_state_with_calls_survives_when_its_last_holder_comes_to_others_who_have_none(tmp_path: Path) -> None:
    async def main() -> None:
        async with town("abcdef", "abf", "cde", log_directory=str(tmp_path)) as built:
            a, b, f = await built.open("a", "b", "f")
            first, second, third = await asyncio.gather(*(join(node, quorum=3) for node in (a, b, f)))
            assert await first.call(Book.add, "of the old days") == 1
            await second.leave()
            await third.leave()
            c, d = await built.open("c", "d")
            others = [join(node, quorum=3) for node in (c, d)]
            await until(lambda: all("quotes" in node.groups and len(node.groups["quotes"]) == 2 for node in (c, d)))
            for name in ("b", "f"):
                built.nodes.pop(name).kill()
            built.part()
            replicas = [first, *await asyncio.gather(*others)]
            assert await replicas[2].call(Book.add, "of today") == 2
            for replica in replicas:
                while replica.state != Book(["of the old days", "of today"]):
                    await asyncio.sleep(0)
            assert a.status()["dropped"].get("given-up-calls", 0) == 0
            await until(lambda: a.internals.engine.journal.kept_state("replicated quotes") is not None)

    run(main())


def test_calls_of_a_history_that_is_given_up_are_counted_and_the_log_says_it(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with town("abc", "ab", "c") as built:
            a, b, c = await built.open("a", "b", "c")
            first, second, lone = await asyncio.gather(join(a, quorum=2), join(b, quorum=2), join(c, quorum=1))
            await first.call(Book.add, "x")
            assert await lone.call(Book.add, "of a founder of its own") == 1
            built.part()
            await until(lambda: lone.state == Book(["x"]))
            assert "process c gives up the state of group quotes with its 1 calls" in caplog.text
            assert c.status()["dropped"]["given-up-calls"] == 1
            assert await lone.call(Book.add, "y") == 2
            await until(lambda: second.state == Book(["x", "y"]))

    run(main())


def test_the_last_holder_of_a_state_does_not_leave_before_a_newcomer_has_it() -> None:
    async def main() -> None:
        async with town("abc") as built:
            a, b = await built.open("a", "b")
            first, second = await asyncio.gather(join(a), join(b))
            await first.call(Book.add, "x")
            (c,) = await built.open("c")
            await (await c.join("quotes")).leave()  # so that it is known, and is in at once
            coming = join(c)
            await until(lambda: "c" in a.members("quotes"))
            # Both at once: each knows that the other one has the state.
            await asyncio.gather(first.leave(), second.leave())
            assert (await coming).state == Book(["x"])
            assert await coming.result().call(Book.add, "alone") == 2

    run(main())


def test_a_state_that_nobody_else_has_goes_with_the_last_who_leaves_and_the_log_says_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_parting, "STILL_SECONDS", 0.2)

    async def main() -> None:
        async with town("ab") as built:
            a, b = await built.open("a", "b")
            first = await Replicated(Book(), quorum=1).join(a, "quotes")
            await first.call(Book.add, "x")
            group = await b.join("quotes")  # no replica
            with caplog.at_level(logging.WARNING):
                await first.leave()
            assert "and the state with its 1 calls may go with it: of those who stay in group quotes (b)" in caplog.text
            await group.leave()
            again = await Replicated(Book(), quorum=1).join(a, "quotes")
            await again.call(Book.add, "y")
            await again.leave()
            assert "may go with it: nobody else is in it" in caplog.text

    run(main())


def test_a_merge_function_is_refused_where_one_history_goes_on() -> None:
    async def main() -> None:
        async with town("ab") as built:
            (a,) = await built.open("a")
            with pytest.raises(ordercast.UsageError, match="there is nothing to merge; say Replicated"):
                await Replicated(Book(), merge=lambda states: states[0]).join(a, "quotes")

    run(main())


def test_no_state_begins_while_a_seed_does_not_answer_who_may_have_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with town("abcd", log_directory=str(tmp_path)) as built:
            a, b = await built.open("a", "b")
            first, _second = await asyncio.gather(join(a), join(b))
            await first.call(Book.add, "of the old days")
            for name in "ab":
                built.nodes[name].kill()
            # Seeds that are down, and two newcomers who find each other and nobody else.
            c, d = await built.open("c", "d")
            newcomers = [join(node) for node in (c, d)]
            await until(lambda: all(f"replica {name} waits: seed 127.0.0.1:" in caplog.text for name in "cd"))
            assert not any(task.done() for task in newcomers)
            nodes = await built.open("a", "b")
            await asyncio.gather(*map(join, nodes), *newcomers)
            assert await newcomers[0].result().call(Book.add, "of today") == 2
            assert newcomers[0].result().state == Book(["of the old days", "of today"])
            assert all(node.status()["dropped"].get("given-up-calls", 0) == 0 for node in (c, d, *nodes))

    run(main())


def test_a_replica_that_reads_its_log_again_and_returns_behind_a_gap_is_not_told_that_it_was_founded_twice() -> None:
    first, again = (Lineage("a", "quotes", print) for _ in range(2))
    for lineage in (first, again):
        for number in (7, 8):
            lineage.count_call(Call("b", 3, number, "add", [], {}))
    assert first.birth == again.birth == "b.3.7"
