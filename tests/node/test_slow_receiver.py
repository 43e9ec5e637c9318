"""A receiver whose application takes nothing holds everyone, takes bounded memory, and is named."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import count

import pytest

import ordercast
from ordercast.node.bundles import BUNDLE_BYTES_MAX
from tests.node.cluster import make_configuration, open_nodes, run, take

MESSAGE_BYTES = 20_000
LAST = b"last"
SOCKET_BUFFER = 1 << 20
WAITING_BYTES_MAX = 2 * SOCKET_BUFFER + 8 * BUNDLE_BYTES_MAX
"""Of a slow receiver: what the sequencer may be ahead of it, and a window of every source."""


async def consume(group: ordercast.Group) -> list[bytes]:
    """The beginnings of all messages up to the last."""
    taken: list[bytes] = []
    async for delivery in group:
        if delivery.payload == LAST:
            break
        taken.append(delivery.payload[:8])
    return taken


async def send_until_blocked(node: ordercast.Node) -> int:
    """How many messages were taken."""
    for sent in count():
        try:
            await node.multicast(sent.to_bytes(8) + bytes(MESSAGE_BYTES - 8), ["g"])
        except ordercast.GroupBlocked:
            return sent
    raise AssertionError


async def send_until(node: ordercast.Node, is_over: Callable[[], bool]) -> int:
    """How many messages were sent."""
    for sent in count():
        if is_over():
            return sent
        await node.multicast(sent.to_bytes(8) + bytes(MESSAGE_BYTES - 8), ["g"])
        await asyncio.sleep(0)
    raise AssertionError


def test_a_slow_receiver_is_bounded_and_named_and_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration(socket_buffer=SOCKET_BUFFER)) as (a, b, c):
            slow = await c.join("g")
            fast = [asyncio.create_task(consume(await node.join("g"))) for node in (a, b)]
            sent = await send_until_blocked(b)
            assert slow.waiting_bytes <= WAITING_BYTES_MAX
            assert sent * MESSAGE_BYTES <= 2 * WAITING_BYTES_MAX
            assert any("waiting for c" in record.message for record in caplog.records if record.levelname == "WARNING")
            # As soon as its application takes something, everyone goes on, and nothing is missing.
            expected = [number.to_bytes(8) for number in range(sent)]
            assert [delivery.payload[:8] for delivery in await take(slow, sent)] == expected
            await b.multicast(LAST, ["g"])
            assert await asyncio.gather(*fast) == [expected, expected]

    with caplog.at_level(logging.WARNING, logger="ordercast"):
        run(main())


def test_what_waits_for_an_application_is_at_most_queue_bytes_also_without_flow_control(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue_bytes = 1 << 20

    async def main() -> None:
        configuration = make_configuration("ab", protocol="fan-1", payload_max=100_000, queue_bytes=queue_bytes)
        async with open_nodes(configuration) as (a, b):
            slow = await b.join("g")
            (await a.join("g")).on_batch(lambda _: None)
            sent = await send_until(a, lambda: bool(caplog.records))
            assert queue_bytes <= slow.waiting_bytes <= queue_bytes + 2 * BUNDLE_BYTES_MAX
            assert "the application of b is too slow" in caplog.text
            taken = [delivery.payload[:8] for delivery in await take(slow, sent)]
            assert taken == [number.to_bytes(8) for number in range(sent)]

    with caplog.at_level(logging.WARNING, logger="ordercast"):
        run(main())


def test_a_sequencer_is_ahead_of_a_slow_receiver_by_queue_bytes_at_the_most() -> None:
    queue_bytes = 1 << 20

    async def main() -> None:
        async with open_nodes(make_configuration("ab", payload_max=100_000, queue_bytes=queue_bytes)) as (a, b):
            slow = await b.join("g")
            (await a.join("g")).on_batch(lambda _: None)
            await send_until_blocked(a)
            assert slow.waiting_bytes <= queue_bytes + BUNDLE_BYTES_MAX
            b.kill()
            a.kill()

    run(main())
