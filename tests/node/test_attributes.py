"""What is on the way of every packet and every bundle has fewer than 30 attributes: from there on Python 3.11 keeps
those of an object in a dictionary of its own, and finds methods and attributes more slowly."""

from __future__ import annotations

from tests.node.cluster import make_configuration, open_nodes, run

ATTRIBUTES_MAX = 29


def test_what_is_on_the_way_of_every_packet_has_few_attributes() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a"), "a") as (node,):
            group = await node.join("g")
            await group.multicast(b"one")
            internals = node.internals
            engine = internals.engine
            on_the_way = (
                internals,
                internals.sender,
                internals.receiver,
                engine.site,
                engine.endpoint,
                engine.transport,
            )
            counts = {type(each).__name__: len(vars(each)) for each in on_the_way}
            assert {name: count for name, count in counts.items() if count > ATTRIBUTES_MAX} == {}

    run(main())
