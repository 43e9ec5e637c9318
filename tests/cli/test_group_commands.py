"""`ordercast members`, `join` and `leave`, and `node --group`, with groups that no file names."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import ordercast
from ordercast.cli import main
from ordercast.cli.processes import HEADER
from ordercast.net.ports import free_ports
from ordercast.node.configuration import read_configuration
from tests.node import roster
from tests.node.cluster import make_configuration, open_nodes, payloads, run
from tests.support import COMMAND_SECONDS_MAX

RUN_WITH_ROSTER = """
import sys
from ordercast.cli import main
from tests.node import roster
with roster.known():
    sys.exit(main())
"""


@pytest.fixture(autouse=True)
def _roster() -> Iterator[None]:
    with roster.known():
        yield


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A cluster of two with a group of one, whose protocol takes whoever comes."""
    first, second = free_ports(2)
    path = tmp_path / "c.toml"
    path.write_text(
        f'cluster = "test"\nprotocol = "roster"\ninsecure = true\ncontrol = "unix:{tmp_path}/{{process}}.sock"\n'
        f'[processes]\na = "127.0.0.1:{first}"\nb = "127.0.0.1:{second}"\n[groups]\ng = ["a"]\n'
    )
    return path


def test_a_running_node_joins_and_leaves_groups_and_says_who_is_in_them(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def ask(*words: str, process: str = "a") -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, [*words, "--config", str(config), "--process", process])
        out, err = capsys.readouterr()
        return code, out.strip(), err.strip()

    async def main_test() -> None:
        async with open_nodes(tomllib.loads(config.read_text())) as (_, b):
            code, out, _ = await ask("join", "quotes", "--json")
            assert code == 0
            assert json.loads(out) == {
                "process": "a",
                "group": "quotes",
                "members": ["a"],
                "view": "1",
                "joined": True,
            }
            assert await ask("join", "quotes", process="b") == (0, "b is in quotes: a, b", "")
            assert await ask("members", "quotes", process="b") == (0, "quotes: a, b", "")
            code, out, _ = await ask("members", "--json")
            groups = json.loads(out)["groups"]
            assert {name: about["members"] for name, about in groups.items()} == {"g": ["a"], "quotes": ["a", "b"]}
            await b.multicast(b"hello", ["quotes"])
            code, out, _ = await ask("tail", "quotes", "--from", "0", "--count", "1", "--json")
            assert (code, json.loads(out)["payload"]) == (0, "hello")
            assert await ask("leave", "quotes", "--json", process="b") == (
                0,
                json.dumps({"process": "b", "group": "quotes"}),
                "",
            )
            assert b.internals.engine.groups.keys() == {"g"}
            for words, complaint in (
                (("join", "quotes"), "group 'quotes' is joined already"),
                (("join", "full"), "group 'full' cannot be joined: it is full"),
                (("join", "nobody", "--timeout", "0.05"), "process a is not in nobody after 0.05 s"),
                (("join", "q" * 65), "is no name; use at most 64"),
                (("leave", "strange"), "process a is not in group 'strange': there is nothing to leave"),
                (("leave", "g"), "the configuration has process a in group 'g', and there it stays"),
                (("members", "strange"), "process a knows no group 'strange'; known: g, quotes"),
                (("tail", "strange", "--count", "1"), "there is no group 'strange'"),
            ):
                code, out, err = await ask(*words)
                assert (code, out) == (2, "")
                assert complaint in err
                assert "\n" not in err

    run(main_test())


def test_a_process_is_added_and_removed_while_the_cluster_runs(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    before = config.read_text()

    async def ask(*words: str, process: str = "a") -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, [*words, "--config", str(config), "--process", process])
        out, err = capsys.readouterr()
        return code, out.strip(), err.strip()

    async def main_test() -> None:
        async with open_nodes(tomllib.loads(before)) as (a, b):
            addition = ("processes", "add", "d", f"127.0.0.1:{port}")
            code, out, err = await ask(*addition, "--json")
            assert (code, err) == (0, "")
            expected = {"process": "a", "added": "d", "processes": ["a", "b", "d"], "written": True}
            assert json.loads(out) == expected
            assert tomllib.loads(config.read_text())["added"] == {"d": f"127.0.0.1:{port}"}
            assert config.read_text().startswith(before), "nothing else is touched"
            assert (await ask(*addition, process="b"))[0] == 0
            # Those who start with the old file agree with those who have the new one.
            old, new = read_configuration(tomllib.loads(before), {}, {}), read_configuration(config, {}, {})
            assert old.agreed() == new.agreed()
            async with ordercast.open(config, "d") as d:
                assert d.groups == {}
                group = await d.join("g", timeout=20)
                await d.wait_for_peers("a", "b")
                assert group.members == ("a", "d")
                await group.multicast(b"from d")
                assert await payloads(await a.join("g"), 1) == [b"from d"]
                d.kill()
            code, out, _ = await ask("processes", "remove", "d")
            assert (code, out) == (0, "d is out of every group")
            assert a.members("g") == ("a",)
            assert config.read_text().rstrip() == before.rstrip() + "\n\n" + HEADER
            assert (await ask("processes", "remove", "d", process="b"))[0] == 0
            for words, complaint in (
                (("processes", "add", "a", "127.0.0.1:9"), "give the new process another name"),
                (("processes", "add", "b", show(b)), "b is a process already"),
                (("processes", "add", "e", show(b)), f"has b at {show(b)}: give the new process its own port"),
                (("processes", "add", "e", "127.0.0.1"), "has no port"),
                (("processes", "add", "e e", "127.0.0.1:9"), "is no name"),
                (("processes", "remove", "strange"), "there is no process 'strange'; known: a, b"),
                (("processes", "remove", "a"), "a is the process that was asked"),
            ):
                code, out, err = await ask(*words)
                assert (code, out) == (2, "")
                assert complaint in err
                assert "\n" not in err

    run(main_test())


def show(node: ordercast.Node) -> str:
    return str(node.status()["address"])


def test_where_processes_are_static_none_can_be_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def main_test() -> None:
        configuration = make_configuration("a", control=f"unix:{tmp_path}/{{process}}.sock")
        file = tmp_path / "c.toml"
        file.write_text(
            f'cluster = "test"\nprotocol = "sequencer"\ninsecure = true\ncontrol = "unix:{tmp_path}/{{process}}.sock"\n'
            f'[processes]\na = "{configuration["processes"]["a"]}"\n[groups]\ng = ["a"]\n'
        )
        before = file.read_text()
        async with open_nodes(configuration):
            where = ("--config", str(file), "--process", "a")
            for words in (("add", "d", "127.0.0.1:9"), ("remove", "a")):
                assert await asyncio.to_thread(main, ["processes", *words, *where]) == 2
                assert "sequencer has the processes of [processes]; to have others, stop" in capsys.readouterr().err
            assert file.read_text() == before
            file.write_text(before + '[added]\nd = "127.0.0.1:9"\n')
            assert main(["config", "validate", str(file)]) == 2
            assert "[added]: sequencer has the processes of [processes]" in capsys.readouterr().err

    run(main_test())


def test_a_node_joins_the_groups_that_are_asked_for_and_ends_in_good_order(config: Path) -> None:
    with subprocess.Popen(
        [
            *(sys.executable, "-c", RUN_WITH_ROSTER, "node", "--config", str(config), "--process", "b"),
            *("--group", "quotes", "--group", "rates", "--json"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as started:
        try:
            with subprocess.Popen(
                [sys.executable, "-c", RUN_WITH_ROSTER, "node", "--config", str(config), "--process", "a", "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[2],
            ) as other:
                try:
                    assert started.stdout is not None
                    status = json.loads(started.stdout.readline())
                    joined = {name for name, about in status["groups"].items() if about["joined"]}
                    assert joined == {"quotes", "rates"}
                    started.send_signal(signal.SIGINT)
                    _, errors = started.communicate(timeout=COMMAND_SECONDS_MAX)
                    assert (started.returncode, "Traceback" in errors) == (0, False)
                finally:
                    other.kill()
        finally:
            started.kill()
