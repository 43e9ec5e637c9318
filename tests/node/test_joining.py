"""Groups that come into being while the processes run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.core.effects import InstallView
from ordercast.node.deliveries import Batch, CaughtUp, View
from tests.node import roster
from tests.node.cluster import make_configuration, open_nodes, payloads, run, try_flood


@pytest.fixture(autouse=True)
def _roster() -> Iterator[None]:
    with roster.known():
        yield


def configuration(names: str = "abc", **keys: Any) -> dict[str, Any]:
    return make_configuration(names, protocol="roster", **keys)


async def until(is_so: Any) -> None:
    while not is_so():
        await asyncio.sleep(0)


def test_a_group_that_no_file_names_comes_into_being_and_offsets_go_on_for_who_comes_later() -> None:
    async def main() -> None:
        async with open_nodes(configuration()) as (a, b, c):
            with pytest.raises(ordercast.UsageError, match="there is no group 'quotes'; known: g"):
                a.members("quotes")
            first = await a.join("quotes")
            assert first.members == ("a",)
            await first.multicast_many([b"1", b"2", b"3"])
            await first.flush()
            second = await b.join("quotes")
            events = second.events()
            view = await anext(events)
            assert isinstance(view, View)
            assert (view.members, view.joined) == (("a", "b"), ("a", "b")), "the first event is the first view"
            assert second.offset == 3
            assert await anext(events) == CaughtUp("quotes", 3)
            await second.multicast(b"4")
            batch = await anext(events)
            assert isinstance(batch, Batch)
            assert (batch.offset, list(batch), batch.view) == (3, [b"4"], view.view)
            seen = [delivery.offset async for delivery in _first(first, 4)]
            assert seen == [0, 1, 2, 3]
            await c.multicast(b"configured", ["g"])
            assert await payloads(await a.join("g"), 1) == [b"configured"], "beside those that the file names"

    run(main())


async def _first(group: ordercast.Group, count: int) -> Any:
    async for delivery in group:
        yield delivery
        count -= 1
        if not count:
            return


def test_leaving_returns_when_the_others_have_delivered_it() -> None:
    async def main() -> None:
        async with open_nodes(configuration()) as (a, b, _):
            stays, goes = await a.join("quotes"), await b.join("quotes")
            await goes.multicast(b"last words")
            await goes.leave()
            assert stays.members == ("a",)
            assert await payloads(stays, 1) == [b"last words"], "what was sent before is accepted first"
            with pytest.raises(ordercast.UsageError, match="quotes"):
                await goes.multicast(b"too late")
            with pytest.raises(ordercast.UsageError, match="quotes"):
                b.members("quotes")
            await goes.leave()
            again = await b.join("quotes")
            assert again.offset == 1
            await goes.leave()
            assert again.members == ("a", "b"), "an old object does not leave for the new one"

    run(main())


def test_a_refused_join_is_the_requesters_and_the_node_goes_on() -> None:
    async def main() -> None:
        async with open_nodes(configuration()) as (a, _, _):
            with pytest.raises(ordercast.JoinRefused, match="group 'full' cannot be joined: it is full"):
                await a.join("full")
            with pytest.raises(ordercast.UsageError, match="'king' cannot be chosen"):
                await a.join("quotes", role="king")
            group = await a.join("quotes", role="reader")
            with pytest.raises(ordercast.UsageError, match="group 'quotes' is joined already"):
                await a.join("quotes")
            with pytest.raises(ordercast.UsageError, match="is no name; use at most 64"):
                await a.join("q" * 65)
            with pytest.raises(ordercast.UsageError, match="is named twice"):
                await a.join("h", "h")
            await group.multicast(b"x")
            assert await payloads(group, 1) == [b"x"]

    run(main())


def test_who_stops_waiting_for_a_join_leaves_nothing_behind() -> None:
    async def main() -> None:
        async with open_nodes(configuration()) as (a, b, _):
            with pytest.raises(TimeoutError, match=r"process a is not in nobody after 0.02 s"):
                await a.join("nobody", timeout=0.02)
            waiting = asyncio.create_task(a.join("nobody"))
            await asyncio.sleep(0)
            with pytest.raises(ordercast.UsageError, match="is being joined already"):
                await a.join("nobody")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            core = a.internals.engine.core
            assert isinstance(core, roster.Roster)
            assert not core.asked
            # Just when the answer has come, and of two groups one was joined.
            group = await b.join("quotes")
            late = asyncio.create_task(a.join("quotes", "nobody"))
            await until(lambda: "nobody" in core.asked)
            assert "a" in group.members
            late.cancel()
            with pytest.raises(asyncio.CancelledError):
                await late
            await until(lambda: group.members == ("b",))
            assert "quotes" not in a.status()["offsets"]
            again = await a.join("quotes")
            assert group.members == again.members == ("a", "b")

    run(main())


def test_each_group_has_its_own_queue_and_credit() -> None:
    async def main() -> None:
        async with open_nodes(configuration("a")) as (a,):
            slow, quick = await a.join("slow"), await a.join("quick")
            with pytest.raises(ordercast.WouldBlock):
                await try_flood(slow, 10_000)
            await quick.multicast(b"x")
            assert await payloads(quick, 1) == [b"x"]
            await a.multicast(b"y", ["quick"])
            assert await payloads(quick, 1) == [b"y"]
            assert not a.status()["idle"]
            waiting = asyncio.create_task(slow.multicast(b"z"))
            await asyncio.sleep(0)
            slow.choose_role("waiter")
            with pytest.raises(ordercast.GroupBlocked, match="somebody waits"):
                await waiting
            assert a.status()["blocked"] == "somebody waits"
            await quick.multicast(b"not blocked")
            quick.choose_role("")
            slow.choose_role("")
            assert a.status()["blocked"] is None

    run(main())


def test_services_and_roles_are_chosen_and_what_cannot_be_had_is_told_to_who_asked() -> None:
    async def main() -> None:
        async with open_nodes(configuration("a")) as (a,):
            group = await a.join("quotes")
            await group.choose("slow")
            await group.choose("slow", ["a"])
            with pytest.raises(ordercast.ServiceUnavailable, match="service 'fast' of a in group 'quotes' cannot be"):
                await group.choose("fast", ["a"])
            with pytest.raises(ordercast.UsageError, match="sources is a list of names"):
                await group.choose("slow", "a")
            with pytest.raises(ordercast.UsageError, match="roster has the role waiter"):
                group.choose_role("king")

    run(main())


def test_where_groups_are_static_nothing_can_be_joined_that_no_file_names() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (a,):
            with pytest.raises(ordercast.UsageError, match="there is no group 'quotes'; known: g"):
                await a.join("quotes")
            group = await a.join("g")
            with pytest.raises(ordercast.UsageError, match="has one service"):
                await group.choose("fast")

    run(main())


def test_a_node_that_closes_without_a_log_leaves_and_who_waits_hears_that_it_is_over() -> None:
    async def main() -> None:
        async with open_nodes(configuration("ab")) as (a, b):
            stays = await a.join("quotes")
            async with asyncio.timeout(10):
                await b.join("quotes")
                waiting = asyncio.create_task(b.join("nobody"))
                await asyncio.sleep(0)
                await b.__aexit__(None, None, None)
                with pytest.raises(ordercast.NodeClosed):
                    await waiting
                assert stays.members == ("a",)

    run(main())


def test_the_synchronous_node_joins_reads_events_and_leaves() -> None:
    with ordercast.open_synchronous(configuration("a"), "a") as node:
        group = node.join("quotes", role="reader", timeout=20)
        assert group.members == node.members("quotes") == ("a",)
        group.multicast(b"x")
        group.choose("slow")
        events = group.events()
        first, caught_up, second = next(events), next(events), next(events)
        assert isinstance(first, View)
        assert caught_up == CaughtUp("quotes", 0)
        assert isinstance(second, Batch)
        assert (first.members, list(second)) == (("a",), [b"x"])
        assert next(group.views()).members == ("a",)
        group.choose_role("waiter")
        assert node.status()["groups"]["quotes"]["members"] == ("a",)
        with pytest.raises(TimeoutError):
            node.join("nobody", timeout=0.02)
        group.leave(timeout=20)
        assert list(events) == [], "what was left ends"


def test_a_process_remembers_with_its_log_who_was_added_though_its_file_is_old(tmp_path: Path) -> None:
    old = configuration("ab", log_directory=str(tmp_path))
    port = old["processes"]["b"].rpartition(":")[2]

    async def main() -> None:
        async with ordercast.open(old, "a") as a:
            await a.internals.wait_started()
            a.internals.engine.add_process("d", ("127.0.0.1", int(port) ^ 1))
            with pytest.raises(ordercast.UsageError, match="d is a process already"):
                a.internals.engine.add_process("d", ("127.0.0.1", 9))
        async with ordercast.open(old, "a") as a:
            await a.internals.wait_started()
            assert a.internals.engine.find_unknown(["a", "b", "d", "e"]) == ["e"]
            core = a.internals.engine.core
            assert isinstance(core, roster.Roster)
            assert core.others == ("b", "d"), "the protocol is told, too"
            await a.internals.remove_process("d")
        async with ordercast.open(old, "a") as a:
            assert a.internals.engine.find_unknown(["d"]) == ["d"]

    run(main())


def test_a_member_that_nobody_has_told_of_is_named_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with open_nodes(configuration("a")) as (a,):
            for view in ("2", "3"):
                a.internals.install_view("main", InstallView(view, ("a", "d"), groups=("g",)))

    with caplog.at_level(logging.WARNING, logger="ordercast"):
        run(main())
    told = [line for line in caplog.messages if "takes part" in line]
    assert told == ["process d takes part, and a does not know where it is: ordercast processes add d HOST:PORT"]
