"""What an application can rely on, on real sockets of the loopback."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import ordercast
from ordercast.node.bundles import BUNDLE_BYTES_MAX
from tests.node.cluster import flood, make_configuration, open_nodes, payloads, run, take, try_flood


def test_every_member_takes_the_same_messages_in_the_same_order_with_the_same_offsets() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration()) as nodes:
            groups = [await node.join("g") for node in nodes]
            for index in range(30):
                await groups[index % 3].multicast(b"%d" % index)
            first, *others = [await take(group, 30) for group in groups]
            assert all(other == first for other in others)
            assert [delivery.offset for delivery in first] == list(range(30))
            assert {delivery.source for delivery in first} == {"a", "b", "c"}
            assert len({delivery.message for delivery in first}) == 30

    run(main())


def test_messages_of_a_list_arrive_in_its_order_whatever_their_sizes() -> None:
    sizes = [0, 1, 100, BUNDLE_BYTES_MAX - 5, BUNDLE_BYTES_MAX - 4, 3 * BUNDLE_BYTES_MAX, 7, 20_000, 20_000, 40_000, 1]
    messages = [bytes([65 + index]) * size for index, size in enumerate(sizes)]

    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            await (await a.join("g")).multicast_many(messages)
            assert await payloads(await b.join("g"), len(messages)) == messages

    run(main())


def test_a_change_of_address_keeps_the_order_of_sending() -> None:
    async def main() -> None:
        configuration = make_configuration("ab", groups={"g": ["a", "b"], "h": ["a", "b"]})
        async with open_nodes(configuration) as (a, b):
            both = await b.join("g", "h")
            await a.multicast(b"1", ["g"])
            await a.multicast(b"2", ["h"])
            await a.multicast(b"3", ["g"])
            await a.multicast(b"4", ["g", "h"])
            assert await payloads(both, 4) == [b"1", b"2", b"3", b"4"]

    run(main())


def test_what_was_delivered_before_joining_waits() -> None:
    async def main() -> None:
        configuration = make_configuration("ab", groups={"g": ["a", "b"], "h": ["a", "b"]})
        async with open_nodes(configuration) as (a, b):
            for index in range(6):
                await a.multicast(b"%d" % index, ["g"] if index % 2 else ["h"])
            await a.flush()
            await asyncio.wait_for(_delivered(b, {"g": 3, "h": 3}), 10)
            assert await payloads(await b.join("h", "g"), 6) == [b"%d" % index for index in range(6)]

    run(main())


async def _delivered(node: ordercast.Node, offsets: dict[str, int]) -> None:
    while node.status()["offsets"] != offsets:
        await asyncio.sleep(0)


def test_a_source_outside_the_group_needs_not_join() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("abc", groups={"g": ["a", "b"]})) as (a, _, c):
            await c.multicast(b"from outside", ["g"])
            assert await payloads(await a.join("g"), 1) == [b"from outside"]
            with pytest.raises(ordercast.UsageError, match="process c is not in group"):
                await c.join("g")

    run(main())


def test_batches_and_iteration_can_take_turns_without_losing_anything() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            group = await b.join("g")
            await (await a.join("g")).multicast_many([b"%d" % index for index in range(10)])
            begun = await payloads(group, 3)
            rest: list[bytes] = []
            async for batch in group.batches():
                assert batch.offset == 3 + len(rest)
                rest.extend(batch)
                if len(rest) == 7:
                    break
            assert begun + rest == [b"%d" % index for index in range(10)]

    run(main())


def test_a_callback_gets_every_message_at_once() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            seen: list[bytes] = []
            done = asyncio.Event()

            def on_delivery(delivery: ordercast.Delivery) -> None:
                seen.append(delivery.payload)
                if len(seen) == 5:
                    done.set()

            (await b.join("g")).on_delivery(on_delivery)
            await a.multicast_many([b"%d" % index for index in range(5)], ["g"])
            await done.wait()
            assert seen == [b"%d" % index for index in range(5)]

    run(main())


def test_an_exception_in_a_callback_stops_the_node() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):

            def on_delivery(delivery: ordercast.Delivery) -> None:
                raise ValueError("the application's own mistake")

            (await b.join("g")).on_delivery(on_delivery)
            await a.multicast(b"x", ["g"])
            with pytest.raises(ordercast.NodeFailed, match="the application's own mistake"):
                await b.wait_failed()
            with pytest.raises(ordercast.NodeFailed):
                await b.multicast(b"y", ["g"])

    run(main())


def test_a_full_window_makes_multicast_wait_and_try_multicast_raise() -> None:
    async def main() -> None:
        # The sequencer a is not there: nothing is accepted.
        configuration = make_configuration("ab", options={"blocked_seconds": 100.0})
        async with ordercast.open(configuration, "b") as b:
            group = await b.join("g")
            with pytest.raises(ordercast.WouldBlock):
                await try_flood(group, 50_000)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(group.multicast(b"x"), 0.1)
            b.kill()

    run(main())


def test_whoever_waits_gets_an_exception_when_the_group_cannot_go_on() -> None:
    async def main() -> None:
        configuration = make_configuration("ab", options={"blocked_seconds": 0.01, "retransmit_seconds": 0.01})
        async with ordercast.open(configuration, "b") as b:
            group = await b.join("g")
            with pytest.raises(ordercast.GroupBlocked, match="the sequencer a accepts nothing"):
                await flood(group, 50_000)
            b.kill()

    run(main())


def test_a_member_that_does_not_join_is_named_when_everyone_waits_for_it() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            await (await b.join("g")).leave()
            with pytest.raises(ordercast.GroupBlocked, match="a has not joined g"):
                await flood_from(a)
            a.kill()
            b.kill()

    run(main())


async def flood_from(node: ordercast.Node) -> None:
    """Multicast to g until something goes wrong, as somebody who has not joined it."""
    while True:
        await node.multicast(bytes(50_000), ["g"])


def test_a_cancelled_iteration_loses_nothing() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            group = await b.join("g")
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(take(group, 1), 0.02)
            await a.multicast_many([b"1", b"2"], ["g"])
            assert await payloads(group, 2) == [b"1", b"2"]

    run(main())


def test_closing_flushes_what_was_sent() -> None:
    async def main() -> None:
        configuration = make_configuration("ab")
        async with ordercast.open(configuration, "a") as a:
            group = await a.join("g")
            async with ordercast.open(configuration, "b") as b:
                await b.multicast_many([b"%d" % index for index in range(1000)], ["g"])
            assert await payloads(group, 1000) == [b"%d" % index for index in range(1000)]

    run(main())


def test_iteration_ends_when_the_node_is_closed() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (a,):
            group = await a.join("g")
            await group.multicast(b"last")
            await a.flush()
        assert [delivery.payload async for delivery in group] == [b"last"]
        with pytest.raises(ordercast.NodeClosed):
            await a.multicast(b"too late", ["g"])

    run(main())


def test_leaving_a_group_holds_nobody_up() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            group = await b.join("g")
            await group.leave()
            own = await a.join("g")
            taken = asyncio.create_task(payloads(own, 400))
            for _ in range(400):
                await own.multicast(bytes(50_000))
            assert len(await taken) == 400
            with pytest.raises(ordercast.UsageError, match="joined already"):
                await a.join("g")
            assert (await b.join("g")).name == "g"

    run(main())


def test_views_begin_with_the_members() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, _):
            group = await a.join("g")
            assert group.members == ("a", "b")
            async for view in group.views():
                assert (view.group, view.members) == ("g", ("a", "b"))
                break

    run(main())


def test_messages_to_single_processes_where_the_protocol_can() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration(protocol="two-phase")) as (a, b, c):
            await a.multicast(b"for b and c", destinations=["c", "b"])
            assert await payloads(b.direct(), 1) == [b"for b and c"]
            assert await payloads(c.direct(), 1) == [b"for b and c"]

    run(main())


def test_mistakes_are_told_at_once_and_to_who_made_them() -> None:
    async def main() -> None:
        configuration = make_configuration("ab", payload_max=1_000_000)
        with pytest.raises(ordercast.UsageError, match="no process 'x'"):
            ordercast.open(configuration, "x")
        node = ordercast.open(configuration, "a")
        with pytest.raises(ordercast.UsageError, match="enter the node first"):
            await node.join("g")
        async with node as a:
            with pytest.raises(ordercast.UsageError, match="no group 'h'"):
                await a.multicast(b"x", ["h"])
            with pytest.raises(ordercast.UsageError, match="at least one group"):
                await a.multicast(b"x")
            with pytest.raises(ordercast.UsageError, match="not single processes"):
                await a.multicast(b"x", destinations=["b"])
            with pytest.raises(ordercast.UsageError, match="no group 'h'"):
                await a.join("h")
            with pytest.raises(ordercast.UsageError, match="larger than payload_max"):
                await a.multicast(bytes(1_000_001), ["g"])
            with pytest.raises(ordercast.UsageError, match="no process 'x'"):
                await a.wait_for_peers("x")
            with pytest.raises(ordercast.UsageError, match="is the process running already"):
                async with ordercast.open(configuration, "a"):
                    pass
            a.kill()

    run(main())


def test_a_sealed_cluster_does_not_hear_a_process_without_its_key(tmp_path: Path) -> None:
    from ordercast.wire.keys import create_key_file

    async def main() -> None:
        create_key_file(tmp_path / "ours")
        create_key_file(tmp_path / "theirs")
        configuration = make_configuration(key_file=str(tmp_path / "ours"))
        stranger = configuration | {"key_file": str(tmp_path / "theirs")}
        async with open_nodes(configuration, "ab") as (a, b), ordercast.open(stranger, "c") as c:
            group = await b.join("g")
            await c.multicast(b"let me in", ["g"])
            await a.multicast(b"ours", ["g"])
            assert await payloads(group, 1) == [b"ours"]
            assert not c.status()["peers"]
            assert set(a.status()["peers"]) == {"b"}
            assert sum(a.status()["dropped"].values()) > 0
            c.kill()

    run(main())


def test_the_synchronous_node_does_the_same_without_an_event_loop() -> None:
    configuration = make_configuration("ab")
    with (
        ordercast.open_synchronous(configuration, "a") as a,
        ordercast.open_synchronous(configuration, "b") as b,
    ):
        group = b.join("g")
        a.multicast(b"1", ["g"])
        a.multicast_many([b"2", b"3"], ["g"])
        a.flush()
        taken = []
        for delivery in group:
            taken.append(delivery.payload)
            if len(taken) == 3:
                break
        assert taken == [b"1", b"2", b"3"]
        with pytest.raises(ordercast.UsageError, match="no group"):
            a.multicast(b"x", ["nowhere"])
    with pytest.raises(ordercast.UsageError, match="there is no host"):
        ordercast.open_synchronous(
            make_configuration("a") | {"processes": {"a": "no.such.host.invalid:7"}}, "a"
        ).__enter__()


def test_what_the_synchronous_node_waits_for_has_a_timeout_and_nothing_is_lost_by_it() -> None:
    configuration = make_configuration("ab", options={"sequencer": "b"})
    with ordercast.open_synchronous(configuration, "a") as a:
        group = a.join("g")
        # The sequencer is not there: nothing is accepted.
        with pytest.raises(TimeoutError):
            next(group.batches(timeout=0.01))
        a.multicast(b"1", ["g"])
        with pytest.raises(TimeoutError):
            a.flush(timeout=0.01)
        with ordercast.open_synchronous(configuration, "b") as b:
            other = b.join("g", timeout=30.0)
            assert list(next(other.batches(timeout=30.0))) == [b"1"]
            assert other.multicast(b"2", confirm=True, timeout=30.0).offset == 1
            taken = (payload for batch in group.batches(timeout=30.0) for payload in batch)
            assert [next(taken), next(taken)] == [b"1", b"2"]
