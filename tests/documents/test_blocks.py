"""What the documents show works: every block is of a kind that a test runs or reads."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from ordercast.cli import main
from ordercast.cli.app import app
from ordercast.net.ports import free_ports
from ordercast.protocols import find_protocol
from ordercast.sim.scenario import parse_scenario
from ordercast.trace import iterate_runs
from tests.cli.test_graph import FIGURE_3_2
from tests.documents.blocks import LANGUAGES, ROOT, Block, commands, iterate_blocks
from tests.support import RUN_ORDERCAST

BLOCK_SECONDS_MAX = 60  # a deadline against hanging
QUICK = (
    "ordercast config",
    "ordercast graph",
    "ordercast protocols token",
    "ordercast reproduce --list",
    "ordercast simulate --list",
    "ordercast simulate --replay",
    "ordercast simulate my.toml",
    "ordercast simulate sequencer-crash",
    "ordercast simulate small.toml",
)
"""Commands that a test runs; of the others it reads the options."""

PICTURE = "d  orders a1"
"""The groups of docs/graph.md are those of the thesis' example (Spauster 3.2)."""


@pytest.mark.parametrize("block", list(iterate_blocks()), ids=str)
def test_every_block_says_what_it_is(block: Block) -> None:
    assert block.language in LANGUAGES


# ---------------------------------------------------------------------- commands
def _words(command: str) -> list[str]:
    """The words of the `ordercast` in a command line, without a variable before it, a pipe around it, or a file into
    which it prints."""
    for piece in command.split("|"):
        words = shlex.split(piece.split(" > ")[0])
        while words and "=" in words[0]:
            words.pop(0)
        if words and words[0] == "ordercast":
            return words[1:]
    return []


ORDERCAST_COMMANDS = [
    pytest.param(command, id=f"{block}-{command[:60]}")
    for block in iterate_blocks("console")
    for command in commands(block)
    if _words(command)
]


@pytest.mark.parametrize("command", ORDERCAST_COMMANDS)
def test_a_command_has_the_options_that_are_shown(command: str) -> None:
    name, *rest = _words(command)
    found = get_command(app).get_command(None, name)  # type: ignore[attr-defined]
    while hasattr(found, "commands"):
        found = found.commands[rest.pop(0)]
    found.make_context(name, rest)


@pytest.mark.parametrize(
    "command", [c for block in iterate_blocks("console") for c in commands(block) if not _words(c)]
)
def test_what_else_is_typed_is_there(command: str) -> None:
    first, *rest = shlex.split(command)
    if first == "make":
        targets = {line.split(":")[0] for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()}
        assert {word for word in rest if "=" not in word} <= targets
    elif first == "python" and rest[0] == "-m":
        assert (ROOT / rest[1].replace(".", "/") / "__main__.py").is_file()
    elif first == "python":
        assert (ROOT / rest[0]).is_file()
    else:
        # A cluster of Spark is started by Spark's own scripts, and whoever speaks HTTP has a program for it.
        assert first.startswith(("SPARK=", "$SPARK/bin/spark-class", "curl"))


def _write_scene(folder: Path) -> None:
    """The files that the documents speak of."""
    scenario = next(block for block in iterate_blocks("toml") if block.document == "docs/scenarios.md")
    (folder / "my.toml").write_text(scenario.text, encoding="utf-8")
    (folder / "cluster.toml").write_text(FIGURE_3_2, encoding="utf-8")


@pytest.mark.parametrize(
    "block",
    [block for block in iterate_blocks("console") if any(c.startswith(QUICK) for c in commands(block))],
    ids=str,
)
def test_quick_commands_do_what_the_document_says(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    _write_scene(tmp_path)
    monkeypatch.chdir(tmp_path)
    for command in commands(block):
        if command.startswith(QUICK) and "|" not in command:
            # The load of the thesis' example cannot be brought below 8, and the command says so.
            wanted = 1 if "--load-bound" in command else 0
            assert main(shlex.split(command)[1:]) == wanted, capfd.readouterr().err


SHOWN = [
    block for block in iterate_blocks("console") if any(not line.startswith("$ ") for line in block.text.splitlines())
    and block.text.startswith("$ ")
]  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("block", SHOWN, ids=str)
def test_a_command_prints_what_is_shown(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], spark: object
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = ""
    for command in commands(block):
        assert main(shlex.split(command)[1:]) == 0
        captured = capfd.readouterr()
        printed += captured.out + captured.err
    _assert_shown(block.text, printed)


def _assert_shown(text: str, printed: str) -> None:
    """Every line that is shown is printed, in this order; an ellipsis stands for any lines."""
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    for shown in text.splitlines():
        wanted = " ".join(shown.split())
        if wanted and wanted != "…" and not shown.startswith("$ "):
            assert any(wanted == line for line in lines), f"not printed, or not here: {shown}"


def test_the_graph_that_is_drawn_is_that_of_the_commands_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    _write_scene(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["graph", "--groups", "cluster.toml", "--prefer", "d,c,e"]) == 0
    (drawn,) = [block for block in iterate_blocks("text") if block.text.startswith(PICTURE)]
    _assert_shown(drawn.text, "".join(capfd.readouterr()))


# ---------------------------------------------------------------------- files
@pytest.mark.parametrize("block", list(iterate_blocks("toml")), ids=str)
def test_a_file_that_is_shown_is_taken(block: Block, tmp_path: Path) -> None:
    tables, text = tomllib.loads(block.text), block.text
    if {*tables} <= {"clients", "metrics"}:
        # A piece of the file that docs/configuration.md shows.
        text = next(b.text for b in iterate_blocks("toml") if b.document == "docs/configuration.md") + text
        tables = tomllib.loads(text)
    if "cluster" in tables:
        assert main(["key", "new", str(tmp_path / tables["key_file"])]) == 0
        file = tmp_path / "cluster.toml"
        file.write_text(text, encoding="utf-8")
        assert main(["config", "validate", str(file)]) == 0
    else:
        named: set[str] = set(tables.get("network", {}).get("hosts", {}))
        for fault in tables.get("fault", ()):
            named |= {*fault.get("sites", ()), *(site for part in fault.get("parts", ()) for site in part)}
        for region in tables.get("network", {}).get("regions", {}).values():
            named |= set(region)
        sites = sorted(named) or ["a", "b", "c"]
        protocol = "token" if "change" in tables else "sequencer"
        whole: dict[str, Any] = {"protocol": protocol, "duration": 20.0, "groups": {"g": sites}} | tables
        parse_scenario(whole, find_protocol, name="shown", where=str(block)).simulation(tracing=False)


def test_the_trace_that_is_written_out_by_hand_can_be_read(tmp_path: Path) -> None:
    rows, runs = (block.text for block in iterate_blocks("json") if block.document == "docs/trace.md")
    (tmp_path / "events.jsonl").write_text(rows, encoding="utf-8")
    (tmp_path / "runs.jsonl").write_text(runs, encoding="utf-8")
    ((run, events),) = iterate_runs(tmp_path)
    assert (run.run, len(events)) == ("r", 3)


@pytest.mark.parametrize("block", list(iterate_blocks("json")), ids=str)
def test_json_that_is_shown_is_json(block: Block) -> None:
    if block.document != "docs/trace.md":
        json.loads(block.text)


# ---------------------------------------------------------------------- programs
PROGRAMS = list(iterate_blocks("python"))
ON_SPARK = [block for block in PROGRAMS if "open_session" in block.text]
ON_A_CHANNEL = [block for block in PROGRAMS if "desk.toml" in block.text]
AS_CLIENTS = [block for block in PROGRAMS if "ordercast.connect" in block.text]
ALONE = [block for block in PROGRAMS if block not in (*ON_SPARK, *ON_A_CHANNEL, *AS_CLIENTS)]


def _prepare(block: Block, folder: Path) -> None:
    """A cluster, a trace, and what the document has shown before."""
    if "prices.toml" in block.text:
        shown = next(b for b in iterate_blocks("toml") if b.document == "docs/groups.md")
        # Not every machine that tests has a network.
        (folder / "prices.toml").write_text(f'interface = "127.0.0.1"\n{shown.text}', encoding="utf-8")
        assert main(["key", "new", str(folder / "prices.key")]) == 0
    elif '"main-1"' in block.text:
        shown = next(b for b in iterate_blocks("toml") if b.document == "docs/configuration.md")
        (folder / "bank.toml").write_text(shown.text, encoding="utf-8")
        assert main(["key", "new", str(folder / "bank.key")]) == 0
    else:
        port = str(free_ports(3)[0])
        assert main(["config", "new", str(folder / "bank.toml"), "--processes", "3", "--port", port]) == 0
    if "trace" in block.text:
        assert main(["simulate", "sequencer-crash", "--trace", str(folder / "trace")]) == 0
    if "delays:run" in block.text:
        earlier = next(b for b in iterate_blocks("python") if b.text.startswith("# delays.py"))
        (folder / "delays.py").write_text(earlier.text, encoding="utf-8")


def _run_program(block: Block, folder: Path, text: str = "") -> str:
    """What a program prints; one that goes on for ever is stopped after its first line. `text` stands in its place."""
    (folder / "program.py").write_text(text or block.text, encoding="utf-8")
    # Mutants live in the tests: a program that makes one is run where these are.
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    process = subprocess.Popen(
        [sys.executable, "-u", "program.py"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # Killed with everything that it started, whatever happens here.
    timer = signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
    signal.alarm(BLOCK_SECONDS_MAX)
    try:
        if process.stdout is not None and "for delivery in" in block.text:
            line = process.stdout.readline()
            os.killpg(process.pid, signal.SIGKILL)
            rest, errors = process.communicate()
            assert line, errors
            return line + rest
        printed, errors = process.communicate()
        assert process.returncode == 0, errors
        return printed
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, timer)


@contextmanager
def _fellows(folder: Path, *names: str) -> Iterator[None]:
    """Processes of the cluster that run beside a program."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RUN_ORDERCAST, "node", "--config", "bank.toml", "--process", name],
            cwd=folder,
            stderr=subprocess.DEVNULL,
        )
        for name in names
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("block", ALONE, ids=str)
def test_a_program_that_is_shown_runs(block: Block, tmp_path: Path) -> None:
    _prepare(block, tmp_path)
    # Two of three are the majority that it needs.
    with _fellows(tmp_path, *(["node-2"] if 'process="node-1"' in block.text else [])):
        printed = _run_program(block, tmp_path)
    assert bool(printed) == ("print(" in block.text)


@pytest.mark.parametrize("block", AS_CLIENTS, ids=str)
def test_a_program_that_is_a_client_runs_beside_its_cluster(block: Block, tmp_path: Path) -> None:
    _prepare(block, tmp_path)
    text, ports = block.text, free_ports(2)
    with (tmp_path / "bank.toml").open("a", encoding="utf-8") as file:
        file.write("[clients]\n")
        for number, port in enumerate(ports, start=1):
            file.write(f'node-{number} = "127.0.0.1:{port}"\n')
            text = text.replace(f"10.0.0.{number}:7101", f"127.0.0.1:{port}")
    with _fellows(tmp_path, "node-1", "node-2"):
        assert _run_program(block, tmp_path, text)


@pytest.mark.spark
@pytest.mark.parametrize("block", ON_SPARK, ids=str)
def test_a_program_on_spark_that_is_shown_runs(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: object
) -> None:
    _prepare(block, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # All tests share one session, which has two processors.
    text = block.text.replace("local[4]", "local[2]")
    exec(compile(text, str(block), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("block", ON_A_CHANNEL, ids=str)
def test_a_program_on_one_channel_runs_beside_its_hub(block: Block, tmp_path: Path) -> None:
    configuration = next(b for b in iterate_blocks("toml") if b.document == block.document).text
    for place, port in zip(("192.0.2.1:7000", "192.0.2.1", "192.0.2.2", "192.0.2.3"), free_ports(4), strict=True):
        address = place if ":" in place else f"{place}:7001"
        configuration = configuration.replace(f'"{address}"', f'"127.0.0.1:{port}"')
    (tmp_path / "desk.toml").write_text(configuration, encoding="utf-8")
    assert main(["key", "new", str(tmp_path / "desk.key")]) == 0
    others = [
        subprocess.Popen(
            [sys.executable, "-m", "ordercast", *words, "--config", "desk.toml"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for words in (["hub"], ["node", "--process", "b"], ["node", "--process", "c"])
    ]
    try:
        assert _run_program(block, tmp_path) == "b'for two of us'\n"
    finally:
        for process in others:
            process.kill()
            process.wait()
