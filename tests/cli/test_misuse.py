"""What a new user gets wrong, and what they are told: one line of ours, without our insides."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ordercast.cli.starter import members_text, starter_text
from ordercast.net.ports import free_ports
from ordercast.wire.keys import create_key_file
from tests.support import COMMAND_SECONDS_MAX, RUN_ORDERCAST, run_ordercast, run_python

PROGRAM = """
import ordercast

async def main():
    async with ordercast.open({arguments}) as node:
        {body}

ordercast.run(main())
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """What `ordercast config new` writes, for two processes."""
    path = tmp_path / "bank.toml"
    first, second = free_ports(2)
    text = starter_text("bank", "sequencer", "bank.key", members_text(2, first))
    path.write_text(text.replace(f'node-2 = "127.0.0.1:{first + 1}"', f'node-2 = "127.0.0.1:{second}"'))
    create_key_file(tmp_path / "bank.key")
    return path


@pytest.mark.parametrize(
    ("arguments", "body", "complaint"),
    [
        ('"nofile.toml", "node-1"', "pass", "UsageError: nofile.toml: cannot be read"),
        ('"{config}", "node-9"', "pass", "UsageError: there is no process 'node-9'"),
        ("None, 'node-1'", "pass", "TypeError: configuration is the path of a file or a mapping, not NoneType"),
        ("{{}}, 'node-1'", "pass", "UsageError: configuration: the key 'cluster' is missing"),
        ('"{config}", "node-1", frob=1', "pass", "UsageError: keyword arguments: unknown key 'frob'"),
        ('"{config}", "node-1", key_file="no.key"', "pass", "UsageError: there is no key file"),
        ('"{config}", "node-1", log_directory="/dev/null"', "pass", "UsageError: /dev/null/node-1: cannot hold"),
        ('"{config}", "node-1"', 'await node.join("nobody")', "UsageError: there is no group 'nobody'"),
        ('"{config}", "node-1"', 'await node.multicast(b"", "everyone")', "UsageError: groups is a list of names"),
        ('"{config}", "node-1"', 'ordercast.open("{config}", "x")', "UsageError: there is no process 'x'"),
    ],
)
def test_misuse_of_open_is_shown_at_the_caller(config: Path, arguments: str, body: str, complaint: str) -> None:
    program = PROGRAM.format(arguments=arguments.format(config=config), body=body.format(config=config))
    result = run_python(program)
    assert result.returncode == 1
    shown = result.stderr.splitlines()
    assert complaint in shown[-1]
    assert len(shown) < 16
    assert result.stderr.count("Traceback") == 1
    inside = [
        name for name in re.findall(r'File ".*?/(\w+)\.py"', result.stderr) if name in ("layers", "engine", "keys")
    ]
    assert inside == []


def _start(config: Path, process: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN_ORDERCAST, "node", "--config", str(config), "--process", process],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_node_with_another_key_says_that_nothing_opens(config: Path) -> None:
    create_key_file(config.parent / "other.key")
    other = config.with_name("other.toml")
    other.write_text(config.read_text().replace("bank.key", "other.key"))
    running = [_start(config, "node-1"), _start(other, "node-2")]
    try:
        for process, silent in zip(running, ("node-2", "node-1"), strict=True):
            assert process.stderr is not None
            # In either order: datagrams may come before the process has told what it runs.
            told = process.stderr.readline() + process.stderr.readline()
            assert "runs sequencer" in told
            assert f"refuses {silent}: what comes under its name does not open" in told
    finally:
        for process in running:
            process.kill()
            process.communicate()


def test_a_tail_that_waits_for_more_fails_when_the_node_ends(config: Path) -> None:
    node = _start(config, "node-1")
    assert node.stderr is not None
    assert "runs sequencer" in node.stderr.readline()
    where = ("everyone", "--config", str(config), "--process", "node-1")
    program = (sys.executable, "-c", RUN_ORDERCAST)
    subprocess.run((*program, "send", *where, "--lines"), input=b"one\n", capture_output=True, check=True)
    follower = subprocess.Popen(
        (*program, "tail", *where, "--from", "0", "--count", "2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert follower.stdout is not None
        assert follower.stdout.readline().split() == ["0", "node-1", "one"]
    finally:
        node.kill()
        node.communicate()
    _output, errors = follower.communicate(timeout=COMMAND_SECONDS_MAX)
    assert (follower.returncode, errors.count("\n")) == (2, 1)
    assert "the node ended after 1 of 2 deliveries" in errors


def test_the_commands_of_the_readme_suit_what_config_new_writes() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    starter = starter_text("bank", "three-step", "bank.key", members_text(3, 7001))
    named = re.findall(r"ordercast (?:node|send|tail)(?: (\w+))? --config bank.toml --process ([\w-]+)", readme)
    assert len(named) >= 3
    for group, process in named:
        assert f'{process} = "' in starter
        assert not group or f"\n{group} = [" in starter
    for command in ("node", "send", "tail"):
        assert "node-1" in run_ordercast(command, "--help").stdout
