"""Clusters that no file describes: processes find each other, come and go."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.net.ports import free_ports
from ordercast.node.deliveries import Batch, View
from ordercast.trace import read_events
from tests.node.cluster import payloads, run


def by_multicast(**keys: Any) -> dict[str, Any]:
    """On the loopback, on a port of its own."""
    (port,) = free_ports(1)
    discovery = {"multicast": f"239.7.7.7:{port}"}
    return open_configuration(discovery=discovery, interface="127.0.0.1") | keys


def by_seeds(*seeds: int, listen: int | None = None, **keys: Any) -> dict[str, Any]:
    discovery: dict[str, Any] = {"seeds": [f"127.0.0.1:{port}" for port in seeds]}
    if listen is not None:
        discovery["listen"] = f"127.0.0.1:{listen}"
    return open_configuration(discovery=discovery) | keys


def open_configuration(**keys: Any) -> dict[str, Any]:
    return {"cluster": "prices", "protocol": "token", "insecure": True} | keys


@asynccontextmanager
async def joined(
    *configurations: dict[str, Any], names: str
) -> AsyncIterator[tuple[list[ordercast.Node], list[ordercast.Group]]]:
    """Processes that are all in the group quotes."""
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(ordercast.open(configuration, name))
            for name, configuration in zip(names, configurations, strict=True)
        ]
        groups = list(await asyncio.gather(*(node.join("quotes") for node in nodes)))
        await until(lambda: all(len(group.members) == len(nodes) for group in groups))
        yield nodes, groups


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0)


async def check_sixth(first: dict[str, Any], others: dict[str, Any]) -> None:
    """A sixth process, named nowhere, comes, takes part, and goes."""
    async with joined(first, *[others] * 4, names="abcde") as (nodes, groups):
        await groups[0].multicast_many([b"1", b"2", b"3"])
        assert await payloads(groups[1], 3) == [b"1", b"2", b"3"]
        async with ordercast.open(others, "desk-6") as node:
            group = await node.join("quotes", timeout=25)
            events = group.events()
            view = await anext(events)
            assert isinstance(view, View)
            assert view.members == ("a", "b", "c", "d", "desk-6", "e")
            assert group.offset == 3, "offsets go on from the group's"
            await group.multicast(b"4")
            batch = await anext(events)
            while not isinstance(batch, Batch):
                batch = await anext(events)
            assert (batch.offset, list(batch)) == (3, [b"4"])
            assert await payloads(groups[4], 4) == [b"1", b"2", b"3", b"4"]
            found = node.status()["discovery"]["found"]
            assert found.keys() == set("abcde")
            await group.leave(timeout=25)
            await until(lambda: all(each.members == ("a", "b", "c", "d", "e") for each in groups))
            assert nodes[0].status()["groups"]["quotes"]["members"] == ("a", "b", "c", "d", "e")
            await groups[2].multicast(b"5")
            assert await payloads(groups[1], 2) == [b"4", b"5"]


def test_a_sixth_process_that_is_named_nowhere_comes_and_goes_by_multicast() -> None:
    configuration = by_multicast()
    run(check_sixth(configuration, configuration))


def test_a_sixth_process_that_knows_one_seed_comes_and_goes() -> None:
    """The others know that one, too, and it tells them of each other."""
    (seed,) = free_ports(1)
    run(check_sixth(by_seeds(seed, listen=seed), by_seeds(seed)))


def test_two_founders_that_find_each_other_later_become_one_group() -> None:
    """Each has found nobody, so each has founded the group. Then somebody comes who knows both."""
    meeting, first, second = free_ports(3)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            a, b = [
                await stack.enter_async_context(ordercast.open(by_seeds(meeting, listen=port), name))
                for name, port in (("a", first), ("b", second))
            ]
            one, other = await asyncio.gather(a.join("quotes"), b.join("quotes"))
            assert (one.members, other.members) == (("a",), ("b",))
            merged: dict[str, list[tuple[str, ...]]] = {"a": [], "b": []}
            one.on_view(lambda view: merged["a"].append(view.merged))
            other.on_view(lambda view: merged["b"].append(view.merged))
            assert a.status()["discovery"]["looked_for"] == [f"seed 127.0.0.1:{meeting}"]
            c = await stack.enter_async_context(ordercast.open(by_seeds(first, second, listen=meeting), "c"))
            third = await c.join("quotes")
            groups = (one, other, third)
            await until(lambda: all(group.members == ("a", "b", "c") for group in groups))
            await third.multicast(b"together")
            for group in groups:
                assert await payloads(group, 1) == [b"together"]
            # Whoever has given its own group up, each side is told once whom the other one has brought.
            assert ["b" in brought for brought in merged["a"]].count(True) == 1
            assert ["a" in brought for brought in merged["b"]].count(True) == 1

    run(main())


def test_who_finds_nobody_says_whom_it_looks_for_and_founds_the_group(caplog: pytest.LogCaptureFixture) -> None:
    nobody, own = free_ports(2)

    async def main() -> None:
        async with ordercast.open(by_seeds(nobody, listen=own), "a") as a:
            group = await a.join("quotes", timeout=25)
            assert group.members == ("a",)
            await group.multicast(b"to myself")
            assert await payloads(group, 1) == [b"to myself"]
            status = a.status()
            assert status["address"] == f"127.0.0.1:{own}"
            assert (status["discovery"]["settled"], status["discovery"]["found"]) == (True, {})

    with caplog.at_level(logging.INFO, logger="ordercast"):
        run(main())
    assert f"looking for seed 127.0.0.1:{nobody}" in caplog.text


def test_a_multicast_address_that_cannot_be_joined_is_refused_in_one_line() -> None:
    async def main() -> None:
        configuration = by_multicast(interface="192.0.2.1")
        with pytest.raises(ordercast.UsageError) as refused:
            async with ordercast.open(configuration, "a"):
                pass
        assert "\n" not in str(refused.value)

    run(main())


def test_an_interface_that_this_machine_has_not_is_refused_in_one_line() -> None:
    async def main() -> None:
        elsewhere = by_multicast(interface="203.0.113.7")
        with pytest.raises(ordercast.UsageError, match=r"cannot listen on 203\.0\.113\.7 \(.*\): name an address of"):
            async with ordercast.open(elsewhere, "a"):
                pass

    run(main())


def test_a_group_that_has_ended_is_named_in_one_line_and_goes_on_with_whoever_joins_it_again() -> None:
    seed, *rest = free_ports(3)

    async def main() -> None:
        others = [by_seeds(seed, listen=port) for port in rest]
        async with joined(by_seeds(seed, listen=seed), *others, names="abc") as (nodes, groups):
            rates = await nodes[2].join("rates", timeout=25)
            await nodes[2].multicast(b"while it is there", ["quotes"])
            for group in groups:
                await group.leave(timeout=25)
            await until(lambda: "quotes" not in nodes[2].internals.engine.groups)
            for ask in (
                groups[2].multicast(b"x"),
                nodes[2].multicast(b"x", ["quotes"]),
                nodes[2].internals.leave_named("quotes"),
            ):
                with pytest.raises(ordercast.UsageError, match="'quotes'") as refused:
                    await ask
                assert "\n" not in str(refused.value)
            with pytest.raises(ordercast.UsageError, match="there is no group 'quotes'; known: rates"):
                nodes[2].members("quotes")
            await rates.multicast(b"the node goes on")
            assert await payloads(rates, 1) == [b"the node goes on"]
            again = await nodes[2].join("quotes", timeout=25)
            assert (again.members, again.offset) == (("c",), 1), "no offset stands for two messages of one system"

    run(main())


def test_a_founder_that_joins_a_larger_group_goes_on_at_its_offsets() -> None:
    meeting, first, second = free_ports(3)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            b = await stack.enter_async_context(ordercast.open(by_seeds(meeting, listen=second), "b"))
            alone = await b.join("quotes")
            await alone.multicast_many([b"a", b"b", b"c"])
            assert await payloads(alone, 3) == [b"a", b"b", b"c"]
            gaps: list[int] = []
            alone.on_gap(gaps.append)
            a = await stack.enter_async_context(ordercast.open(by_seeds(first, listen=first), "a"))
            c = await stack.enter_async_context(ordercast.open(by_seeds(first), "c"))
            large, _ = await asyncio.gather(a.join("quotes"), c.join("quotes"))
            await large.multicast(b"x")
            assert await payloads(large, 1) == [b"x"]
            d = await stack.enter_async_context(ordercast.open(by_seeds(first, second, listen=meeting), "d"))
            await until(lambda: alone.members == ("a", "b", "c"))
            await large.multicast(b"y")
            (delivery,) = [delivery async for delivery in _first(alone, 1)]
            assert (delivery.payload, delivery.offset, gaps) == (b"y", 1, [1])
            assert "d" not in alone.members
            assert d.groups == {}

    run(main())


async def _first(group: ordercast.Group, count: int) -> AsyncIterator[ordercast.Delivery]:
    async for delivery in group:
        yield delivery
        count -= 1
        if not count:
            return


KILLED = """
import asyncio, sys, ordercast


async def main():
    async with ordercast.open(eval(sys.argv[1]), "c") as node:
        group = await node.join("quotes")
        print(*group.members, flush=True)
        await asyncio.sleep(100)


asyncio.run(main())
"""


def test_a_process_without_a_log_that_is_killed_comes_back_under_its_name_at_once(tmp_path: Path) -> None:
    """The others took its announcements for those of the process that they knew, until that was forgotten after a
    minute; it had founded a group of its own by then. And its trace went on as though it had been in the group all the
    time."""
    ports = free_ports(3)
    trace = str(tmp_path / "trace")

    async def main() -> None:
        first = by_seeds(ports[1], listen=ports[0], trace_directory=trace)
        second = by_seeds(ports[0], listen=ports[1], trace_directory=trace)
        async with joined(first, second, names="ab") as (_, groups):
            for _ in range(2):
                await groups[0].multicast(b"before it comes, or while it is down")
                third = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-c",
                    KILLED,
                    repr(by_seeds(*ports[:2], listen=ports[2], trace_directory=trace)),
                    stdout=asyncio.subprocess.PIPE,
                )
                assert third.stdout is not None
                assert await third.stdout.readline() == b"a b c\n"
                third.kill()
                await third.wait()
            assert groups[0].members == ("a", "b", "c")

    run(main())
    rows = read_events(tmp_path / "trace" / "c").to_pylist()
    kinds = [row["kind"] for row in rows if row["kind"] in ("join", "leave", "fail", "awake", "recover")]
    assert kinds == ["join", "fail", "awake", "leave", "recover", "join"]
    assert [row["offset"] for row in rows if row["kind"] == "join"] == [1, 2]
