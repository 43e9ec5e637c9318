"""On sockets: a member that is gone fills no more than the bound in bytes, and who multicasts hears who it is."""

from __future__ import annotations

import asyncio
from typing import cast

import ordercast
from ordercast.protocols.classic.sequencer import Sequencer
from tests.node.cluster import flood, make_configuration, open_nodes, run

BOUND = 300_000
SIZE = 10_000


def test_a_member_that_is_gone_blocks_the_sources_at_the_bound_and_is_named_there() -> None:
    async def main() -> None:
        configuration = make_configuration(protocol="sequencer", options={"history_bytes_max": BOUND})
        async with open_nodes(configuration) as (a, b, c):
            most = 0

            def measure(_: ordercast.Batch) -> None:
                nonlocal most
                most = max(most, *(link.kept_bytes for link in center.links.values()))

            center = cast(Sequencer, a.internals.engine.core).center
            groups = [await node.join("g") for node in (a, b)]
            for group in groups:
                group.on_batch(measure)
            c.kill()
            errors = await asyncio.gather(*(flood(group, SIZE) for group in groups), return_exceptions=True)
            for node, error in zip((a, b), errors, strict=True):
                assert isinstance(error, ordercast.GroupBlocked)
                assert "waits for c" in str(error) or "waiting for c" in str(error)
                assert str(error) == node.status()["blocked"]
            # A bundle that begins below the bound is kept, and it is 64 kB at the most.
            assert BOUND <= most < BOUND + 64_000
            for node in (a, b):
                node.kill()

    run(main())
