"""The examples run as they stand, each in processes of its own, and are as short as is said of them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from ordercast.cli import main
from ordercast.net.ports import free_ports

EXAMPLES = Path(__file__).parents[1] / "examples"
STOP_SECONDS_MAX = 1.0
"""Of what a process does and waits for; without the time in which it could run and others had the processors."""

LINES_MAX = {"store.py": 40, "chat.py": 30}


@pytest.mark.parametrize("name", LINES_MAX)
def test_an_example_is_short(name: str) -> None:
    lines = (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip()]) <= LINES_MAX[name]


def ask(port: int, method: str, body: bytes | None = None) -> tuple[int, bytes] | None:
    """What the store behind HTTP says of a colour; None while it does not listen."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10.0)
    try:
        connection.request(method, "/colour", body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (ConnectionError, HTTPException):
        return None
    finally:
        connection.close()


def seconds_in_line(process: int) -> float:
    """How long a process that could run has waited for a processor, in its whole life, and after its end, too."""
    return int(Path(f"/proc/{process}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9


def seconds_to_stop(process: subprocess.Popen[bytes]) -> float:
    """From the signal to the end of the process; a machine that is busy with other tests does not count."""
    pids = (process.pid, os.getpid())
    in_line, began = sum(map(seconds_in_line, pids)), time.monotonic()
    ended = os.pidfd_open(process.pid)
    process.terminate()
    # It stays to be looked at until somebody waits for it in earnest.
    assert select.select([ended], [], [], 30.0)[0]
    seconds = time.monotonic() - began - (sum(map(seconds_in_line, pids)) - in_line)
    os.close(ended)
    assert process.wait() == -signal.SIGTERM  # uvicorn ends in order, then by the signal
    return seconds


def test_the_store_behind_http_stops_within_a_second_without_a_majority_too(tmp_path: Path) -> None:
    *http, port = free_ports(4)
    assert main(["config", "new", str(tmp_path / "cluster.toml"), "--port", str(port)]) == 0
    started = []
    try:
        for number, own in enumerate(http, start=1):
            words = [sys.executable, str(EXAMPLES / "web_store.py"), "cluster.toml", f"node-{number}", str(own)]
            started.append(subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL))
        deadline = time.monotonic() + 60.0
        while (answer := ask(http[0], "PUT", b"blue")) is None or answer[0] != 200:
            assert time.monotonic() < deadline
        assert ask(http[1], "GET") == (200, b"blue")
        one, two, three = started
        assert seconds_to_stop(three) < STOP_SECONDS_MAX
        two.kill()
        two.wait()
        # A request waits for a group that cannot go on while the process is told to end.
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask, http[0], "PUT", b"red")
            assert seconds_to_stop(one) < STOP_SECONDS_MAX
            answer = asked.result()
            assert answer is None or answer[0] >= 500
    finally:
        for process in started:
            process.kill()
            process.wait()


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
