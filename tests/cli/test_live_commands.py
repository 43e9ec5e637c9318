"""`ordercast node`, `send`, `tail` and `bench`, as processes on the loopback."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordercast.net.ports import free_ports
from tests.support import COMMAND_SECONDS_MAX, RUN_ORDERCAST, run_ordercast


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A cluster of two; the paths of sockets are short, so they lie in the test's own folder."""
    first, second = free_ports(2)
    path = tmp_path / "c.toml"
    path.write_text(
        f'cluster = "test"\nprotocol = "sequencer"\ninsecure = true\nlog_directory = "log"\n'
        f'control = "unix:{{process}}.sock"\n[processes]\na = "127.0.0.1:{first}"\nb = "127.0.0.1:{second}"\n'
        f'[groups]\ng = ["a", "b"]\nsolo = ["a"]\n'
    )
    return path


def _start(config: Path, process: str) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", RUN_ORDERCAST, "node", "--config", str(config), "--process", process, "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=config.parent,
    )
    assert started.stdout is not None
    assert json.loads(started.stdout.readline())["process"] == process
    return started


@pytest.fixture
def nodes(config: Path) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Both processes, running."""
    running = {name: _start(config, name) for name in "ab"}
    try:
        yield running
    finally:
        for process in running.values():
            process.kill()
            process.communicate()


def _send(config: Path, group: str, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN_ORDERCAST, "send", group, "--config", str(config), "--process", "b", *options],
        input=text,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )


def test_send_says_where_the_last_message_stands_and_a_key_makes_it_harmless_to_repeat(
    config: Path, nodes: dict[str, subprocess.Popen[str]]
) -> None:
    for repeated in (False, True):
        sent = _send(config, "g", "one\ntwo\n", "--lines", "--json", "--key", "k")
        assert sent.returncode == 0
        answer = json.loads(sent.stdout)
        assert (answer["sent"], answer["ordered"], answer["offset"], answer["repeated"]) == (2, True, 1, repeated)
    plain = _send(config, "g", "three")
    assert (plain.returncode, plain.stderr) == (0, "1 message sent to g, the last one at offset 2\n")
    outside = _send(config, "solo", "four")
    assert outside.returncode == 0
    assert "1 message sent to solo; process b is not in solo and does not see what is ordered there" in outside.stderr
    refused = _send(config, "solo", "four", "--key", "k")
    assert refused.returncode == 2
    assert "process b is not in solo" in refused.stderr


def test_send_exits_differently_when_messages_are_taken_and_not_yet_ordered(config: Path) -> None:
    alone = _start(config, "b")
    try:
        sent = _send(config, "g", "one", "--timeout", "0.2")
        assert sent.returncode == 1
        assert sent.stderr.startswith("1 message to g taken, not yet ordered: ")
    finally:
        alone.kill()
        alone.communicate()


def test_what_is_sent_through_one_process_is_tailed_at_another(
    config: Path, nodes: dict[str, subprocess.Popen[str]]
) -> None:
    sent = _send(config, "g", "one\ntwo\n\u00fcber\n", "--lines", "--json")
    assert (sent.returncode, json.loads(sent.stdout)["sent"]) == (0, 3)
    where = ("--config", str(config), "--process", "a")
    tailed = run_ordercast("tail", "g", *where, "--from", "0", "--count", "3", "--json")
    assert tailed.returncode == 0
    rows = [json.loads(line) for line in tailed.stdout.splitlines()]
    assert [(row["offset"], row["source"], row["payload"]) for row in rows] == [
        (0, "b", "one"),
        (1, "b", "two"),
        (2, "b", "\u00fcber"),
    ]
    assert all("/" in row["message"] for row in rows)
    people = run_ordercast("tail", "g", *where, "--from", "2", "--count", "1")
    assert people.stdout.split() == ["2", "b", "\u00fcber"]


def test_ctrl_c_ends_a_node_in_good_order_and_a_killed_one_comes_back(
    config: Path, nodes: dict[str, subprocess.Popen[str]]
) -> None:
    assert _send(config, "g", "kept", "--json").returncode == 0
    nodes["b"].send_signal(signal.SIGINT)
    output, errors = nodes["b"].communicate(timeout=COMMAND_SECONDS_MAX)
    assert nodes["b"].returncode == 0
    assert "Traceback" not in errors
    assert json.loads(output)["offsets"]["g"] == 1
    nodes["a"].kill()
    nodes["a"].communicate()
    nodes["a"] = _start(config, "a")
    nodes["b"] = _start(config, "b")
    where = ("--config", str(config), "--process", "a")
    tailed = run_ordercast("tail", "g", *where, "--from", "0", "--count", "1", "--json")
    assert json.loads(tailed.stdout)["payload"] == "kept"


def test_a_node_that_has_lost_its_log_says_so_in_one_line_and_leaves_with_exit_code_1(
    config: Path, nodes: dict[str, subprocess.Popen[str]]
) -> None:
    assert _send(config, "g", "kept", "--json").returncode == 0
    nodes["a"].kill()
    nodes["a"].communicate()
    for folder in ("a", "_end.a"):
        shutil.rmtree(config.parent / "log" / folder)
    nodes["a"] = _start(config, "a")
    _, errors = nodes["a"].communicate(timeout=COMMAND_SECONDS_MAX)
    assert nodes["a"].returncode == 1
    assert errors.count("\n") == 1
    assert "process a stops: b refuses a: its log had 0 records when it started" in errors


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("tail", "h", "--process", "a"), "there is no group 'h'"),
        (("tail", "g", "--process", "x"), "there is no process 'x'"),
        (("tail", "solo", "--process", "b", "--from", "0"), "not in group 'solo'"),
        (("tail", "g", "--process", "a", "--from", "0", "--count", "0"), "count"),
        (("send", "h", "--process", "a"), "there is no group 'h'"),
        (("node", "--process", "x"), "there is no process 'x'"),
        (("node", "--process", "a"), "is in use by another process"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    config: Path, nodes: dict[str, subprocess.Popen[str]], words: tuple[str, ...], complaint: str
) -> None:
    result = run_ordercast(*words, "--config", str(config))
    assert result.returncode == 2
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ('control = "unix:{process}.sock"\n', "has no `control`"),
        (None, "no node answers"),
    ],
)
def test_without_a_running_node_the_commands_say_what_to_do(config: Path, change: str | None, complaint: str) -> None:
    if change is not None:
        config.write_text(config.read_text().replace(change, ""))
    for words in (("tail", "g"), ("send", "g")):
        result = run_ordercast(*words, "--config", str(config), "--process", "a")
        assert (result.returncode, result.stderr.count("\n")) == (2, 1)
        assert complaint in result.stderr


def test_bench_prints_what_scripts_expect_and_leaves_nothing(tmp_path: Path) -> None:
    setup = f"import tempfile; tempfile.tempdir = {str(tmp_path)!r}"
    result = run_ordercast("bench", "--nodes", "2", "--seconds", "0.5", "--rate", "200", "--json", setup=setup)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert {"messages_per_second", "p50_ms", "p99_ms", "lost", "sealed", "protocol", "nodes", "size"} <= set(document)
    assert document["lost"] == 0
    assert document["sealed"] is True
    assert document["messages_per_second"] > 100
    assert list(tmp_path.iterdir()) == []


def test_bench_at_full_speed_loses_nothing_by_any_way_of_taking() -> None:
    for api in ("batches", "iterate", "callback"):
        result = run_ordercast("bench", "--nodes", "2", "--seconds", "0.3", "--api", api, "--insecure", "--json")
        assert result.returncode == 0, result.stderr
        document = json.loads(result.stdout)
        assert document["lost"] == 0
        assert document["p50_ms"] > 0


def test_bench_of_a_protocol_that_does_not_exist_is_one_line() -> None:
    result = run_ordercast("bench", "--protocol", "sequenzer")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "sequencer" in result.stderr
