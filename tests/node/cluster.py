"""Small clusters on the loopback, all nodes in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import ordercast
from ordercast.net.hub import Hub
from ordercast.net.ports import free_ports
from ordercast.net.sockets import resolve

DEADLINE_SECONDS = 30.0
"""Against hanging; everything here is done in a fraction of it."""

Result = TypeVar("Result")


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a test's coroutine, with a deadline."""
    return asyncio.run(asyncio.wait_for(coroutine, DEADLINE_SECONDS))


def make_configuration(names: str = "abc", **keys: Any) -> dict[str, Any]:
    """A cluster of processes on free ports, all in the group g unless it is said otherwise."""
    ports = free_ports(len(names))
    defaults: dict[str, Any] = {
        "cluster": "test",
        "protocol": "sequencer",
        "processes": {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)},
        "groups": {"g": list(names)},
    }
    if "key_file" not in keys:
        defaults["insecure"] = True
    return defaults | keys


def start_hub(configuration: dict[str, Any]) -> Hub:
    """The relay of the configuration's channel, which shows everyone the same order of datagrams."""
    addresses = {name: where.rpartition(":")[2] for name, where in configuration["processes"].items()}
    processes = {name: resolve("127.0.0.1", int(port)) for name, port in addresses.items()}
    port = int(configuration["channel"].rpartition(":")[2])
    return Hub(asyncio.get_running_loop(), resolve("127.0.0.1", port), processes, 1 << 22)


@asynccontextmanager
async def open_nodes(configuration: dict[str, Any], names: str = "") -> AsyncIterator[list[ordercast.Node]]:
    """Nodes for these processes (by default all), which have met each other."""
    async with AsyncExitStack() as stack:
        processes = names or "".join(configuration["processes"])
        nodes = [await stack.enter_async_context(ordercast.open(configuration, name)) for name in processes]
        for node in nodes:
            await node.wait_for_peers(*(other.process for other in nodes if other is not node))
        yield nodes


async def take(group: ordercast.Group, count: int) -> list[ordercast.Delivery]:
    """The next deliveries."""
    taken: list[ordercast.Delivery] = []
    async for delivery in group:
        taken.append(delivery)
        if len(taken) == count:
            break
    return taken


async def payloads(group: ordercast.Group, count: int) -> list[bytes]:
    """The payloads of the next deliveries."""
    return [delivery.payload for delivery in await take(group, count)]


async def flood(group: ordercast.Group, size: int) -> None:
    """Multicast until something goes wrong."""
    while True:
        await group.multicast(bytes(size))


async def try_flood(group: ordercast.Group, size: int) -> None:
    """The same without waiting."""
    while True:
        group.try_multicast(bytes(size))
        await asyncio.sleep(0)
