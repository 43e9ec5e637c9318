"""Clients: sealed, exactly once whatever becomes of their member, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.net.ports import free_ports
from ordercast.wire.keys import create_key_file
from tests.node.cluster import make_configuration, open_nodes, run


def with_clients(names: str = "abc", **keys: Any) -> dict[str, Any]:
    """A cluster whose processes all listen for clients."""
    clients = {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
    return make_configuration(names, clients=clients, **keys)


def where(configuration: dict[str, Any], names: str = "") -> list[str]:
    clients = configuration["clients"]
    return [clients[name] for name in names or clients]


@asynccontextmanager
async def open_cluster(configuration: dict[str, Any]) -> AsyncIterator[list[ordercast.Node]]:
    """Nodes whose group g only passes by."""
    async with open_nodes(configuration) as nodes:
        for node in nodes:
            (await node.join("g")).on_batch(lambda batch: None)
        yield nodes


async def take(deliveries: AsyncIterator[ordercast.Delivery], count: int) -> list[ordercast.Delivery]:
    return [await anext(deliveries) for _ in range(count)]


@pytest.mark.parametrize("protocol", ["sequencer", "three-step"])
def test_a_client_multicasts_and_follows_like_a_member(protocol: str, tmp_path: Path) -> None:
    create_key_file(tmp_path / "key")

    async def main() -> None:
        configuration = with_clients(protocol=protocol, key_file=str(tmp_path / "key"))
        async with open_cluster(configuration) as nodes:
            async with ordercast.connect(where(configuration), tmp_path / "key") as client:
                assert client.cluster == "test"
                group = client.group("g")
                receipts = [await group.multicast(b"%d" % number, confirm=True) for number in range(3)]
                assert [receipt.offset for receipt in receipts] == [0, 1, 2]
                await group.multicast_many([b"%d" % number for number in range(3, 2000)])
                large = bytes(300_000)
                assert (await group.multicast(large, confirm=True)).offset == 2000
                followed = group.subscribe(0)
                seen = await take(followed, 2001)
                assert [delivery.payload for delivery in seen[:2000]] == [b"%d" % number for number in range(2000)]
                assert seen[2000].payload == large
                assert [delivery.offset for delivery in seen] == list(range(2001))
                assert [seen[n].message for n in range(3)] == [receipt.message for receipt in receipts]
                assert all(node.status()["offsets"]["g"] == 2001 for node in nodes[:1])

    run(main())


def test_who_has_another_key_is_refused_in_words(tmp_path: Path) -> None:
    create_key_file(tmp_path / "key")
    create_key_file(tmp_path / "other")

    async def main() -> None:
        configuration = with_clients("a", key_file=str(tmp_path / "key"))
        async with open_cluster(configuration) as (node,):
            for wrong in ({"key": tmp_path / "other"}, {"insecure": True}):
                with pytest.raises(ordercast.UsageError, match="no member takes this key"):
                    async with ordercast.connect(where(configuration), **wrong):  # type: ignore[arg-type]
                        pass
            assert node.status()["clients"]["cut"]["clients-with-another-key"] == 2

    run(main())
