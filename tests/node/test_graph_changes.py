"""Live processes whose propagation graph changes."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path

import pytest

import ordercast
from ordercast.cli.graph.command import graph
from ordercast.core import UsageError
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
    for number in (1, 3):
        assert any(re.fullmatch(rf"graph {number}: a joins quotes \(\d+ ms\)", line) for line in lines)


def test_the_graph_of_a_running_cluster_is_shown_as_a_process_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    file = tmp_path / "bank.toml"
    file.write_text(
        f"""
cluster = "bank"
protocol = "propagation-graph"
insecure = true
log_directory = "log"
control = "unix:{{process}}.sock"
[processes]
a = "127.0.0.1:{port}"
[groups]
accounts = ["a"]
""",
        encoding="utf-8",
    )

    async def play() -> None:
        async with ordercast.open(file, process="a") as node:
            await node.join("quotes")
            await asyncio.to_thread(graph, live=True, config=file, process="a")
            await asyncio.to_thread(graph, live=True, config=file, process="a", json_wanted=True)

    asyncio.run(asyncio.wait_for(play(), DEADLINE_SECONDS))
    shown = capsys.readouterr().out
    assert "graph 1, as a has it" in shown
    assert "orders accounts, quotes" in shown
    document = json.loads(shown.splitlines()[-1])
    assert (document["process"], document["graph"], document["blocked"]) == ("a", 1, None)


def test_a_live_graph_needs_a_process_of_a_cluster_that_has_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--config FILE --process NAME"):
        graph(live=True)
    file = tmp_path / "other.toml"
    file.write_text(
        'cluster = "c"\nprotocol = "token"\ninsecure = true\n[processes]\na = "127.0.0.1:7001"\n[groups]\ng = ["a"]\n',
        encoding="utf-8",
    )
    with pytest.raises(UsageError, match="has no graph"):
        graph(live=True, config=file, process="a")
