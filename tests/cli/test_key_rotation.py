"""`ordercast key reload`: three processes go over to another key, and messages flow throughout."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import ordercast
from ordercast.net.ports import free_ports
from ordercast.wire.keys import create_key_file, fingerprint, key_text, new_key
from tests.node.cluster import make_configuration, open_nodes, run
from tests.support import RUN_ORDERCAST, run_ordercast

NAMES = ("a", "b", "c")


def _configuration(folder: Path) -> Path:
    path = folder / "c.toml"
    addresses = "".join(f'{name} = "127.0.0.1:{port}"\n' for name, port in zip(NAMES, free_ports(3), strict=True))
    path.write_text(
        f'cluster = "test"\nprotocol = "sequencer"\nkey_file = "c.key"\ncontrol = "unix:{{process}}.sock"\n'
        f'[processes]\n{addresses}[groups]\ng = ["a", "b", "c"]\n'
    )
    return path


def test_three_processes_go_over_to_another_key_while_messages_flow(tmp_path: Path) -> None:
    config = _configuration(tmp_path)
    key_file = tmp_path / "c.key"
    old, new = create_key_file(key_file), new_key()
    program = (sys.executable, "-c", RUN_ORDERCAST)
    nodes = []
    try:
        for name in NAMES:
            where = ("--config", str(config), "--process", name)
            nodes.append(subprocess.Popen((*program, "node", *where, "--json"), stdout=subprocess.PIPE, text=True))
        for node in nodes:
            assert node.stdout is not None
            assert node.stdout.readline()
        # One command that goes on and on, in the background of all that follows.
        sender = subprocess.Popen(
            (*program, "send", "g", "--config", str(config), "--process", "b", "--lines", "--json"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert sender.stdin is not None
        sent = 0
        for lines in ((old, new), (new, old), (new,)):
            key_file.write_text("".join(map(key_text, lines)))
            for name in NAMES:
                for _ in range(50):
                    sender.stdin.write(f"{sent}\n")
                    sent += 1
                sender.stdin.flush()
                result = run_ordercast("key", "reload", "--config", str(config), "--process", name, "--json")
                assert result.returncode == 0, result.stderr
                assert json.loads(result.stdout) == {
                    "process": name,
                    "used": fingerprint(lines[0]),
                    "also_accepted": fingerprint(lines[1]) if len(lines) == 2 else None,
                }
        output, _ = sender.communicate(f"{sent}\n")
        assert json.loads(output)["sent"] == sent + 1
        for name in NAMES:
            where = ("--config", str(config), "--process", name)
            tailed = run_ordercast("tail", "g", *where, "--from", "0", "--count", str(sent + 1), "--json")
            assert [json.loads(line)["payload"] for line in tailed.stdout.splitlines()] == list(
                map(str, range(sent + 1))
            )
        key_file.write_text(key_text(old))
        refused = run_ordercast("key", "reload", "--config", str(config), "--process", "a")
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "the key in use is not in the key file" in refused.stderr
    finally:
        for node in nodes:
            node.kill()
            node.communicate()


def test_processes_that_have_nothing_to_say_go_over_too(tmp_path: Path) -> None:
    key_file = tmp_path / "c.key"
    old, new = create_key_file(key_file), new_key()

    async def reload(node: ordercast.Node) -> None:
        while True:
            try:
                node.internals.engine.reload_keys()
                return
            except ordercast.UsageError:
                await asyncio.sleep(0)  # another has not been heard of under the new key

    async def main() -> None:
        async with open_nodes(make_configuration("abc", key_file=str(key_file))) as nodes:
            for lines in ((old, new), (new, old), (new,)):
                key_file.write_text("".join(map(key_text, lines)))
                for node in nodes:
                    await reload(node)

    run(main())
