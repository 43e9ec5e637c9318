"""One channel on sockets: everybody sees the same order, and a protocol that needs that is refused without it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import ordercast
from ordercast.net.hub import Hub
from ordercast.net.ports import free_ports
from ordercast.net.sockets import open_udp, resolve
from tests.node.cluster import make_configuration, open_nodes, payloads, run


def _start_hub(configuration: dict[str, Any]) -> Hub:
    processes = {name: resolve("127.0.0.1", int(where.rpartition(":")[2])) for name, where in _addresses(configuration)}
    port = int(configuration["channel"].rpartition(":")[2])
    return Hub(asyncio.get_running_loop(), resolve("127.0.0.1", port), processes, 1 << 22)


def _addresses(configuration: dict[str, Any]) -> list[tuple[str, str]]:
    return list(configuration["processes"].items())


def _configuration(names: str, **keys: Any) -> dict[str, Any]:
    return make_configuration(names, protocol="selective-total", channel=f"127.0.0.1:{free_ports(1)[0]}", **keys)


def test_five_processes_with_a_slow_one_lose_nothing_and_agree_on_the_order() -> None:
    async def main() -> None:
        configuration = _configuration("abcde")
        hub = _start_hub(configuration)
        try:
            async with open_nodes(configuration) as nodes:
                groups = [await node.join("g") for node in nodes]
                for index in range(100):
                    for group in groups:
                        await group.multicast(f"{group.members[0]}{index}".encode())
                slow = asyncio.create_task(_take_slowly(groups[4], 500))
                first, *others = [await payloads(group, 500) for group in groups[:4]]
                assert all(other == first for other in (*others, await slow))
                for node in nodes:
                    node.kill()
            assert hub.counters["relayed"] > 0
        finally:
            hub.close()

    run(main())


async def _take_slowly(group: ordercast.Group, count: int) -> list[bytes]:
    taken: list[bytes] = []
    async for delivery in group:
        taken.append(delivery.payload)
        # A hundred turns of the event loop for each: everybody else is done long before.
        for _ in range(100):
            await asyncio.sleep(0)
        if len(taken) == count:
            break
    return taken


def test_messages_for_some_reach_exactly_those() -> None:
    async def main() -> None:
        configuration = _configuration("abc")
        hub = _start_hub(configuration)
        try:
            async with open_nodes(configuration) as (a, b, c):
                await a.multicast(b"for b", destinations=["b"])
                await a.multicast(b"for b and c", destinations=["b", "c"])
                assert await payloads(b.direct(), 2) == [b"for b", b"for b and c"]
                assert await payloads(c.direct(), 1) == [b"for b and c"]
                for node in (a, b, c):
                    node.kill()
        finally:
            hub.close()

    run(main())


def test_without_a_channel_the_protocol_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(ordercast.UsageError, match="needs a channel that shows every process the same order"):
            await ordercast.open(make_configuration("ab", protocol="selective-total"), "a").__aenter__()
        with pytest.raises(ordercast.UsageError, match="needs whole datagrams"):
            await ordercast.open(_configuration("ab", max_datagram=1450), "a").__aenter__()

    run(main())


def test_a_strangers_datagram_is_not_relayed() -> None:
    async def main() -> None:
        configuration = _configuration("ab")
        hub = _start_hub(configuration)
        stranger = open_udp(resolve("127.0.0.1", 0), 1 << 16)
        try:
            port = int(configuration["channel"].rpartition(":")[2])
            stranger.sendto(b"hello", ("127.0.0.1", port))
            while not hub.counters["strangers"]:
                await asyncio.sleep(0)
            assert hub.counters["relayed"] == 0
        finally:
            stranger.close()
            hub.close()

    run(main())
