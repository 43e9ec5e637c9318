"""The member that holds everyone up is named: to who multicasts, in the log, and in the status."""

from __future__ import annotations

import asyncio
import logging

import pytest

import ordercast
from tests.node.cluster import make_configuration, open_nodes, run


async def flood(node: ordercast.Node) -> None:
    """Multicast to g until something goes wrong."""
    while True:
        await node.multicast(bytes(50_000), ["g"])


HELD_BY_C = {
    # Only the sequencer knows who has not acknowledged what, and tells the sources.
    ("sequencer", "a"): "the history is full: waiting for c",
    ("sequencer", "b"): "the sequencer a waits for c",
    ("two-phase", "a"): "site c has not",
    ("two-phase", "b"): "site c has not",
}


@pytest.mark.parametrize("protocol", ["sequencer", "two-phase"])
@pytest.mark.parametrize("fate", ["is killed", "does not read"])
def test_a_member_that_holds_everyone_up_is_named(protocol: str, fate: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        configuration = make_configuration(
            protocol=protocol, socket_buffer=1 << 20, queue_bytes=1 << 20, payload_max=100_000
        )
        async with open_nodes(configuration) as (a, b, c):
            for node in (a, b):
                (await node.join("g")).on_batch(lambda _: None)
            await c.join("g")
            if fate == "is killed":
                c.kill()
            errors = await asyncio.gather(flood(a), flood(b), return_exceptions=True)
            for node, error in zip((a, b), errors, strict=True):
                expected = HELD_BY_C[protocol, node.process]
                assert isinstance(error, ordercast.GroupBlocked)
                assert expected in str(error)
                assert expected in node.status()["blocked"]
                logged = [record.getMessage() for record in caplog.records]
                assert any(f"process {node.process} is blocked: " in line and expected in line for line in logged)
            for node in (a, b, c):
                node.kill()

    with caplog.at_level(logging.WARNING, logger="ordercast"):
        run(main())
