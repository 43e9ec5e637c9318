"""`ordercast send` and `tail` as clients: they need no process of the cluster on their machine."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import ordercast
from ordercast.net.ports import free_ports
from ordercast.wire.keys import create_key_file
from tests.node.cluster import run
from tests.support import COMMAND_SECONDS_MAX, RUN_ORDERCAST


def make_file(folder: Path) -> Path:
    """A cluster of two with addresses for clients, and no control sockets."""
    create_key_file(folder / "key")
    a, b, c, d = free_ports(4)
    path = folder / "c.toml"
    path.write_text(
        f'cluster = "test"\nprotocol = "sequencer"\nkey_file = "key"\n'
        f'[processes]\na = "127.0.0.1:{a}"\nb = "127.0.0.1:{b}"\n[groups]\ng = ["a", "b"]\n'
        f'[clients]\na = "127.0.0.1:{c}"\nb = "0.0.0.0:{d}"\n'
    )
    return path


def _run(config: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN_ORDERCAST, *words, "--config", str(config)],
        input=text,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )


def test_send_and_tail_reach_any_member_without_a_control_socket(tmp_path: Path) -> None:
    config = make_file(tmp_path)

    async def main() -> None:
        async with ordercast.open(config, "a") as a, ordercast.open(config, "b") as b:
            for node in (a, b):
                (await node.join("g")).on_batch(lambda batch: None)
            words = ("send", "g", "--lines", "--key", "k")
            sent = await asyncio.to_thread(_run, config, "one\ntwo\n", *words, "--json")
            assert (sent.returncode, sent.stderr) == (0, "")
            answer = json.loads(sent.stdout)
            assert [answer[name] for name in ("sent", "ordered", "offset", "repeated")] == [2, True, 1, False]
            again = await asyncio.to_thread(_run, config, "one\ntwo\n", *words)
            assert again.stderr == "2 messages to g had been sent before, the last one is at offset 1\n"
            plain = await asyncio.to_thread(_run, config, "three", "send", "g", "--process", "b")
            assert plain.stderr == "1 message sent to g, the last one at offset 2\n"
            tail = await asyncio.to_thread(_run, config, "", "tail", "g", "--from", "0", "--count", "3", "--json")
            lines = [json.loads(line) for line in tail.stdout.splitlines()]
            assert [(line["offset"], line["payload"]) for line in lines] == [(0, "one"), (1, "two"), (2, "three")]

    run(main())


def test_without_a_member_or_an_address_one_line_says_what_to_do(tmp_path: Path) -> None:
    config = make_file(tmp_path)
    lonely = tmp_path / "lonely.toml"
    lonely.write_text(config.read_text().partition("[clients]")[0])
    nowhere = _run(lonely, "x", "send", "g")
    assert (nowhere.returncode, nowhere.stdout) == (2, "")
    assert "has no [clients]" in nowhere.stderr
    assert nowhere.stderr.count("\n") == 1
