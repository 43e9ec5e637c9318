"""What is on the way of every packet and every bundle has fewer than 30 attributes: from there on Python 3.11 keeps
those of an object in a dictionary of its own, and finds methods and attributes more slowly."""

from __future__ import annotations

from tests.node.cluster import make_configuration, open_nodes, run
from tests.support import find_crowded


def test_what_is_on_the_way_of_every_packet_has_few_attributes() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a"), "a") as (node,):
            group = await node.join("g")
            await group.multicast(b"one")
            internals = node.internals
            engine = internals.engine
            sockets = (engine.site, engine.endpoint, engine.transport)
            assert find_crowded(internals, internals.sender, internals.receiver, *sockets) == {}

    run(main())
