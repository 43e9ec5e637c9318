"""Live processes that go on without one that fails (`propagation-graph` with `delivery = "non-atomic"`)."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path

import pytest

import ordercast
from ordercast.cli.graph.command import graph
from ordercast.net.ports import free_ports
from ordercast.node.advice import find_warnings
from ordercast.node.configuration import read_configuration

DEADLINE_SECONDS = 120.0


def _write(folder: Path, processes: str, *options: str) -> Path:
    file = folder / "bank.toml"
    ports = free_ports(len(processes))
    file.write_text(
        "\n".join(
            (
                'cluster = "bank"',
                'protocol = "propagation-graph"',
                "insecure = true",
                'log_directory = "log"',
                'control = "unix:{process}.sock"',
                "[processes]",
                *(f'{name} = "127.0.0.1:{port}"' for name, port in zip(processes, ports, strict=True)),
                "[groups]",
                f"accounts = {json.dumps([*processes])}",
                "[options]",
                'delivery = "non-atomic"',
                "suspicion_seconds = 0.5",
                "lease_seconds = 1.0",
                *options,
            )
        ),
        encoding="utf-8",
    )
    return file


async def _next(group: ordercast.Group) -> bytes:
    return (await anext(aiter(group))).payload


def test_the_others_go_on_say_so_and_the_process_comes_back_behind_what_it_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _write(tmp_path, "abc")
    gaps: list[int] = []

    async def play() -> None:
        async with ordercast.open(file, process="b") as b, ordercast.open(file, process="c") as c:
            groups = [await node.join("accounts") for node in (b, c)]
            async with ordercast.open(file, process="a") as a:
                first = await a.join("accounts")
                await a.multicast(b"before", ["accounts"])
                assert [await _next(group) for group in (first, *groups)] == [b"before"] * 3
            # a, which orders accounts and manages the graph, is gone.
            await b.multicast(b"meanwhile", ["accounts"])
            assert [await _next(group) for group in groups] == [b"meanwhile"] * 2
            while not b.status()["graph"]["delivers"]:
                await asyncio.sleep(0)
            standing = b.status()["graph"]
            assert (standing["manager"], [*standing["out"]]) == ("b", ["a"])
            await asyncio.to_thread(graph, live=True, config=file, process="b")
            await asyncio.to_thread(graph, live=True, config=file, process="b", json_wanted=True)
            async with ordercast.open(file, process="a") as a:
                again = await a.join("accounts")
                again.on_gap(gaps.append)
                while a.status()["graph"]["out"] or not a.status()["graph"]["delivers"]:
                    await asyncio.sleep(0)
                await c.multicast(b"after", ["accounts"])
                seen = [await _next(again)]
                while seen[-1] != b"after":
                    seen.append(await _next(again))
                assert b"meanwhile" not in seen

    caplog.set_level(logging.INFO, "ordercast.node")
    asyncio.run(asyncio.wait_for(play(), DEADLINE_SECONDS))
    lines = [record.message for record in caplog.records]
    assert any(re.fullmatch(r"a is out \(.*\); graph 1 orders accounts at b; \d\.\d s", line) for line in lines)
    assert any(line.startswith("a is back; graph ") for line in lines)
    assert gaps == [2]
    shown = capsys.readouterr().out
    assert re.search(r"manager b; its lease lasts \d\.\d s\na is out for \d+\.\d s \(.*\)", shown)
    assert json.loads(shown.splitlines()[-1])["out"].keys() == {"a"}


def test_a_graph_of_two_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    two, three = _write(tmp_path / "two", "ab"), _write(tmp_path, "abc")
    warned = [find_warnings(read_configuration(file, {}, {})) for file in (two, three)]
    assert [any("a graph of two" in line for line in lines) for lines in warned] == [True, False]


def test_with_rollback_a_process_that_was_out_gets_what_it_missed_and_no_gap(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = _write(tmp_path, "abc", 'rejoin = "rollback"')
    gaps: list[int] = []

    async def play() -> None:
        async with ordercast.open(file, process="b") as b, ordercast.open(file, process="c") as c:
            groups = [await node.join("accounts") for node in (b, c)]
            async with ordercast.open(file, process="a") as a:
                first = await a.join("accounts")
                await a.multicast(b"before", ["accounts"])
                assert [await _next(group) for group in (first, *groups)] == [b"before"] * 3
            await b.multicast(b"meanwhile", ["accounts"])
            assert [await _next(group) for group in groups] == [b"meanwhile"] * 2
            async with ordercast.open(file, process="a") as a:
                again = await a.join("accounts")
                again.on_gap(gaps.append)
                await c.multicast(b"after", ["accounts"])
                seen = [await _next(again)]
                while seen[-1] != b"after":
                    seen.append(await _next(again))
                assert seen == [b"before", b"meanwhile", b"after"]

    caplog.set_level(logging.INFO, "ordercast.node")
    asyncio.run(asyncio.wait_for(play(), DEADLINE_SECONDS))
    assert gaps == []
    assert any(record.message.startswith("a is back; graph ") for record in caplog.records)
