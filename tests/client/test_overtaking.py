"""Under three steps what a source sends may overtake what it has sent before, wherever a datagram is lost."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import ordercast
from ordercast.net.sockets import SocketAddress
from tests.client.test_client import open_cluster, take, where, with_clients
from tests.node.cluster import run

LOSS = 0.05


def losing(seed: int) -> Callable[[memoryview, SocketAddress], int]:
    random = Random(seed)
    return lambda datagram, address: int(random.random() >= LOSS)


def lose_datagrams(nodes: list[ordercast.Node]) -> None:
    for number, node in enumerate(nodes):
        node.internals.engine.transport.disturb(losing(number))


def test_of_what_a_client_sends_nothing_is_lost_and_everything_keeps_its_order() -> None:
    """A run that came before an earlier one was counted, and the earlier one was taken for one that is sent again."""

    async def main() -> None:
        configuration = with_clients(protocol="three-step")
        async with (
            open_cluster(configuration) as nodes,
            ordercast.connect(where(configuration, "b"), insecure=True) as client,
        ):
            lose_datagrams(nodes)
            group = client.group("g")
            followed = group.subscribe(0)
            count = 0
            for _ in range(100):
                payloads = [b"%d" % number for number in range(count, count + 20)]
                await group.multicast_many(payloads)
                # A run of its own.
                await group.multicast(b"%d" % (count + 20) + bytes(60_000))
                count += 21
            await client.flush()
            seen = await take(followed, count)
            assert [int(each.payload.rstrip(b"\0")) for each in seen] == list(range(count))

    run(main())


def test_a_large_message_whose_last_piece_comes_first_is_delivered_when_it_is_whole() -> None:
    """It was set aside by everybody."""

    async def main() -> None:
        async with open_cluster(with_clients(protocol="three-step")) as nodes:
            lose_datagrams(nodes)
            sender = nodes[1]
            for number in range(60):
                await sender.multicast(b"%d" % number + bytes(200_000), ["g"])
            await sender.flush()
            for node in nodes:
                deliveries = node.internals.history("g").follow(0)
                seen = [await anext(deliveries) for _ in range(60)]
                assert sorted(int(each.payload.rstrip(b"\0")) for each in seen) == list(range(60))
                assert [each.offset for each in seen] == list(range(60))

    run(main())
