"""Live processes whose propagation graph changes."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

import ordercast
from ordercast.net.ports import free_ports

DEADLINE_SECONDS = 60.0


def test_the_log_has_one_line_for_each_change_and_a_group_that_has_ended_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (port,) = free_ports(1)
    configuration = {
        "cluster": "lines",
        "protocol": "propagation-graph",
        "insecure": True,
        "log_directory": str(tmp_path / "log"),
        "processes": {"a": f"127.0.0.1:{port}"},
        "groups": {"accounts": ["a"]},
    }

    async def play() -> None:
        async with ordercast.open(configuration, "a") as node:
            quotes = await node.join("quotes")
            await quotes.leave()
            with pytest.raises(ordercast.UsageError, match="quotes"):
                await node.multicast(b"late", ["quotes"])
            await node.join("quotes")

    caplog.set_level(logging.INFO, "ordercast.node")
    asyncio.run(asyncio.wait_for(play(), DEADLINE_SECONDS))
    lines = [record.message for record in caplog.records]
    assert "view 1: a joins quotes" in lines
    assert "view 3: a joins quotes" in lines
