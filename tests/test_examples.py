"""The examples run as they stand, each in processes of its own, and are as short as is said of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ordercast.cli import main
from ordercast.net.ports import free_ports

EXAMPLES = Path(__file__).parents[1] / "examples"
LINES_MAX = {"store.py": 40, "chat.py": 30}


@pytest.mark.parametrize("name", LINES_MAX)
def test_an_example_is_short(name: str) -> None:
    lines = (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip()]) <= LINES_MAX[name]


class Talk:
    """A program that is typed to."""

    def __init__(self, folder: Path, name: str, process: str) -> None:
        words = [sys.executable, "-u", str(EXAMPLES / name), "cluster.toml", process]
        self.process = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def talks(folder: Path, example: str, *processes: str) -> Iterator[list[Talk]]:
    """The example at some processes of a cluster of three."""
    if not (folder / "cluster.toml").exists():
        port = str(free_ports(3)[0])
        assert main(["config", "new", str(folder / "cluster.toml"), "--processes", "3", "--port", port]) == 0
    started = [Talk(folder, example, process) for process in processes]
    try:
        yield started
    finally:
        for talk in started:
            talk.process.kill()
            talk.process.communicate()


def test_the_store_sets_watches_and_locks(tmp_path: Path) -> None:
    with talks(tmp_path, "store.py", "node-1", "node-2", "node-3") as (one, two, _):
        two.say("watch colour")
        two.say("get colour.sky")
        assert two.hear() == "None"
        one.say("set colour.sky blue")
        assert one.hear() == "version 1"
        assert two.hear() == "colour.sky = blue"
        one.say("lock backup")
        assert one.hear() == "fence 1"
        two.say("lock backup")
        one.say("unlock backup")
        assert one.hear() == "unlocked True"
        assert two.hear() == "fence 2"


def test_the_chat_shows_its_history_to_whoever_comes_later(tmp_path: Path) -> None:
    with talks(tmp_path, "chat.py", "node-1", "node-2") as (one, two):
        one.say("hello")
        assert one.hear() == two.hear() == "node-1: hello"
        two.say("hello yourself")
        assert one.hear() == two.hear() == "node-2: hello yourself"
        with talks(tmp_path, "chat.py", "node-3") as (three,):
            assert [three.hear(), three.hear()] == ["node-1: hello", "node-2: hello yourself"]
