"""Mistakes in the use of a node are told at once, to whoever makes them, with what to do."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import ordercast
from tests.node.cluster import make_configuration, open_nodes, payloads, run


def test_flush_on_a_node_that_is_over_raises() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (a,):
            group = await a.join("g")
            await a.flush()
        for flush in (a.flush, group.flush):
            with pytest.raises(ordercast.NodeClosed):
                await flush()

    run(main())


def test_who_gave_a_callback_cannot_iterate_too() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (a,):
            group = await a.join("g")
            seen: list[bytes] = []
            group.on_delivery(lambda delivery: seen.append(delivery.payload))
            with pytest.raises(ordercast.UsageError, match="a callback takes the deliveries of g"):
                await anext(aiter(group))
            with pytest.raises(ordercast.UsageError, match="a callback takes the deliveries of g"):
                await anext(group.batches())
            await group.multicast(b"x")
            await a.flush()
            assert seen == [b"x"]

    run(main())


def test_another_thread_is_refused() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (a,):
            group = await a.join("g")

            def elsewhere() -> None:
                for call in (
                    lambda: group.multicast(b"x"),
                    lambda: group.multicast_many([b"x"]),
                    lambda: a.multicast(b"x", ["g"]),
                    group.flush,
                    lambda: anext(aiter(group)),
                    lambda: a.join("g"),
                ):

                    async def there(call: Any = call) -> None:
                        await asyncio.wait_for(call(), 5)

                    with pytest.raises(ordercast.UsageError, match="open_synchronous"):
                        asyncio.run(there())
                with pytest.raises(ordercast.UsageError, match="open_synchronous"):
                    group.try_multicast(b"x")

            await asyncio.to_thread(elsewhere)
            await group.multicast(b"here")
            assert await payloads(group, 1) == [b"here"]

    run(main())


def test_a_text_is_no_list_of_names() -> None:
    async def main() -> None:
        configuration = make_configuration("ab", protocol="two-phase", groups={"g": ["a", "b"], "h": ["a", "b"]})
        async with open_nodes(configuration) as (a, _):
            wrong: Any = "gh"
            for _turn in range(2):
                with pytest.raises(ordercast.UsageError, match=r"groups is a list of names: \['gh'\]"):
                    await a.multicast(b"x", wrong)
                with pytest.raises(ordercast.UsageError, match=r"destinations is a list of names: \['ab'\]"):
                    await a.multicast(b"x", destinations="ab")
                await a.multicast(b"x", ["g", "h"])

    run(main())


def test_a_message_goes_to_groups_or_to_processes_and_not_to_both() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab", protocol="two-phase")) as (a, _):
            with pytest.raises(ordercast.UsageError, match="to groups or to destinations, not to both"):
                await a.multicast(b"x", ["g"], destinations=["b"])

    run(main())


def test_leaving_twice_is_leaving() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (a,):
            group = await a.join("g")
            await group.leave()
            await group.leave()
            again = await a.join("g")
            await group.leave()
            await again.multicast(b"x")

    run(main())


@pytest.mark.parametrize("protocol", ["fan-1", "lamport"])
def test_who_is_not_among_the_sources_is_told_and_nothing_raises_elsewhere(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab", protocol=protocol, options={"sources": ["a"]})) as (a, b):
            with pytest.raises(ordercast.UsageError, match="b is not among the sources a"):
                await asyncio.gather(b.multicast(b"x", ["g"]), b.flush())
            with pytest.raises(ordercast.UsageError, match="b is not among the sources a"):
                await b.multicast(b"z", ["g"])
            await a.multicast(b"from a", ["g"])
            assert await payloads(await b.join("g"), 1) == [b"from a"]

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "Exception in callback" not in caplog.text


def test_closing_while_others_close_too_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        configuration = make_configuration()
        nodes = [ordercast.open(configuration, name) for name in "abc"]
        for node in nodes:
            await node.__aenter__()
        groups = [await node.join("g") for node in nodes]
        for node in nodes:
            await node.wait_for_peers()
            await node.multicast(b"last", ["g"])
        # Everyone has everything, but nobody may know that of the others: their acknowledgements are on the way.
        for group in groups:
            assert await payloads(group, 3) == [b"last"] * 3
        await asyncio.gather(*(node.__aexit__(None, None, None) for node in nodes))

    with caplog.at_level(logging.WARNING, logger="ordercast"):
        run(main())
    assert caplog.text == ""


def test_closing_with_messages_that_never_left_says_for_whom_they_wait(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        # The sequencer a is not there.
        async with ordercast.open(make_configuration("ab", options={"blocked_seconds": 0.2}), "b") as b:
            for _ in range(20):
                await b.multicast(bytes(10_000), ["g"])
            while not b.internals.obstacles.reasons:
                await asyncio.sleep(0)

    with caplog.at_level(logging.WARNING, logger="ordercast"):
        run(main())
    (record,) = caplog.records
    assert "closed before everyone had everything: the sequencer a accepts nothing" in record.getMessage()
