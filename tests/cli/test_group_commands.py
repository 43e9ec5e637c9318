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

from ordercast.cli import main
from ordercast.net.ports import free_ports
from tests.node import roster
from tests.node.cluster import open_nodes, run
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
