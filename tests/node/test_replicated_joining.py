"""Replicated objects of groups that no file names: whoever joins later gets the state, and leaves when it likes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast import Replicated
from ordercast.net.ports import free_ports
from tests.node import roster
from tests.node.cluster import make_configuration, open_nodes, run


@pytest.fixture(autouse=True)
def _roster() -> Iterator[None]:
    with roster.known():
        yield


@dataclass
class Book:
    """A state that remembers every call."""

    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> int:
        self.lines.append(line)
        return len(self.lines)


def configuration(names: str = "abc", **keys: Any) -> dict[str, Any]:
    return make_configuration(names, protocol="roster", **keys)


def test_whoever_joins_a_group_that_has_a_history_gets_its_state_and_goes_on_from_there() -> None:
    async def main() -> None:
        async with open_nodes(configuration()) as (a, b, c):
            first = await Replicated(Book()).join(a, "quotes")
            for index in range(20):
                await first.call(Book.add, f"{index}")
            second = await Replicated(Book()).join(b, "quotes")
            assert second.state is not None
            assert len(second.state.lines) == 20, "a join is done when the state is there"
            assert await second.call(Book.add, "of b") == 21
            meanwhile = [asyncio.ensure_future(first.call(Book.add, f"meanwhile {index}")) for index in range(50)]
            third = await Replicated(Book()).join(c, "quotes")
            await asyncio.wait(meanwhile)
            assert await third.call(Book.add, "of c") == 72
            for replica in (first, second, third):
                await replica.call(Book.add, "end")
            lines = [replica.state.lines[:73] for replica in (first, second, third) if replica.state is not None]
            assert len(lines) == 3
            assert lines[0] == lines[1] == lines[2]

    run(main())


def test_the_founder_begins_with_its_own_state_and_nobody_is_asked() -> None:
    async def main() -> None:
        async with open_nodes(configuration()) as (a, b, _):
            first = await Replicated(Book(["from a file"])).join(a, "quotes")
            assert first.state == Book(["from a file"])
            await first.call(Book.add, "x")
            second = await Replicated(Book()).join(b, "quotes")
            assert await second.call(Book.add, "y") == 3

    run(main())


def test_a_replica_that_has_left_applies_nothing_more_and_its_process_can_join_again() -> None:
    async def main() -> None:
        async with open_nodes(configuration()) as (a, b, _):
            first = await Replicated(Book()).join(a, "quotes")
            second = await Replicated(Book()).join(b, "quotes")
            await second.call(Book.add, "x")
            await second.leave()
            assert a.members("quotes") == ("a",)
            with pytest.raises(ordercast.OrdercastError):
                await second.call(Book.add, "too late")
            await first.call(Book.add, "without b")
            again = await Replicated(Book()).join(b, "quotes")
            assert await again.call(Book.add, "y") == 3
            assert again.state == first.state

    run(main())


def test_a_join_that_is_refused_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with open_nodes(configuration()) as (a, _, _):
            for _ in range(2):
                with pytest.raises(ordercast.OrdercastError, match="it is full"):
                    await Replicated(Book()).join(a, "full")

    run(main())


def test_a_process_that_no_file_names_gets_the_state_under_token_and_it_outlives_those_who_gave_it(
    tmp_path: Path,
) -> None:
    ports = free_ports(3)

    def open_node(name: str, port: int) -> ordercast.Node:
        discovery = {
            "listen": f"127.0.0.1:{port}",
            "seeds": [f"127.0.0.1:{other}" for other in ports if other != port],
        }
        base = {"cluster": "prices", "protocol": "token", "insecure": True, "log_directory": str(tmp_path)}
        return ordercast.open(base | {"discovery": discovery}, name)

    async def main() -> None:
        async with open_node("a", ports[0]) as a:
            first = await Replicated(Book(), quorum=1).join(a, "quotes")
            for index in range(20):
                await first.call(Book.add, f"{index}")
            async with open_node("b", ports[1]) as b:
                second = await Replicated(Book()).join(b, "quotes")
                assert await second.call(Book.add, "of b") == 21
                async with open_node("c", ports[2]) as c:
                    third = await Replicated(Book()).join(c, "quotes")
                    assert await third.call(Book.add, "of c") == 22
                    await first.leave()
                    await second.leave()
                    assert await third.call(Book.add, "alone") == 23
                    while c.internals.engine.journal.kept_state("replicated quotes") is None:
                        await asyncio.sleep(0)
        async with open_node("c", ports[2]) as c:
            again = await Replicated(Book()).join(c, "quotes")
            assert await again.call(Book.add, "after a restart") == 24
            assert again.state is not None
            assert again.state.lines[20:] == ["of b", "of c", "alone", "after a restart"]

    run(main())
