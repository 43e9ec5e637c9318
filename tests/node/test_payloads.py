"""What a message may be is asked where it is handed over; what comes and is none is set aside, by everyone alike."""

from __future__ import annotations

import asyncio
import logging
from array import array
from typing import Any

import msgspec
import pytest

import ordercast
from tests.node.cluster import make_configuration, open_nodes, payloads, run, take

NO_MESSAGES: list[Any] = ["text", {"a": 1}, 7, None, ["a", "list"], ""]


@pytest.mark.parametrize("wrong", NO_MESSAGES, ids=repr)
def test_what_is_no_bytes_is_refused_to_the_caller(wrong: Any) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            group, other = await a.join("g"), await b.join("g")
            for _ in range(2):  # at once, and while others are under way
                with pytest.raises(TypeError, match="a message is bytes, not"):
                    await group.multicast(wrong)
                with pytest.raises(TypeError, match="a message is bytes, not"):
                    group.try_multicast(wrong)
                with pytest.raises(TypeError, match="a message is bytes, not"):
                    await a.multicast(wrong, ["g"])
                with pytest.raises(TypeError, match="a message is bytes, not"):
                    await group.multicast_many([b"1", wrong, b"2"])
                await group.multicast(b"good")
            await a.multicast_many([b"3"] * 3, ["g"])
            assert await payloads(other, 5) == [b"good", b"good", b"3", b"3", b"3"]

    run(main())


def test_a_list_that_is_wrong_in_its_second_bundle_has_sent_the_first() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            wrong: Any = "text"
            with pytest.raises(TypeError, match="not str"):
                await a.multicast_many([b"x" * 30_000] * 2 + [wrong], ["g"])
            assert await payloads(await b.join("g"), 2) == [b"x" * 30_000] * 2

    run(main())


def test_whatever_holds_bytes_is_copied_when_it_is_handed_over() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            group = await a.join("g")
            held: Any
            for held in (bytearray(b"123"), memoryview(b"123"), array("B", b"123")):
                await group.multicast(held)
                await group.multicast_many([held, b"4"])
            assert await payloads(await b.join("g"), 9) == [b"123", b"123", b"4"] * 3

    run(main())


BAD_BUNDLES = [msgspec.msgpack.encode(["text"]), msgspec.msgpack.encode([b"1", b"2"]), b"", b"\xff\xff"]


@pytest.mark.parametrize("bad", BAD_BUNDLES, ids=repr)
def test_a_bundle_that_cannot_be_decoded_is_set_aside_counted_and_named(
    bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration()) as (a, b, c):
            seen: list[ordercast.Delivery] = []
            (await c.join("g")).on_delivery(seen.append)
            batches = (await b.join("g")).batches()
            await a.multicast(b"before", ["g"])
            await a.flush()
            a.internals.engine.site.request(bad, ("g",), None, 1)
            await a.flush()
            await a.multicast(b"after", ["g"])
            taken = await take(await a.join("g"), 2)
            assert [(delivery.payload, delivery.offset) for delivery in taken] == [(b"before", 0), (b"after", 2)]
            assert [list(await anext(batches)) for _ in range(3)] == [[b"before"], [], [b"after"]]
            while len(seen) < len(taken):
                await asyncio.sleep(0)
            assert seen == taken
            for node in (a, b, c):
                assert node.status()["dropped"]["bad-bundles"] == 1

    with caplog.at_level(logging.WARNING, logger="ordercast"):
        run(main())
    assert len([record for record in caplog.records if "a:0:2 of a is set aside" in record.getMessage()]) == 3
