"""docs/write-a-protocol.md does what it says, from a second package that is installed beside this one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import ordercast
from ordercast.net.ports import free_ports
from tests.foreign_package import install
from tests.support import COMMAND_SECONDS_MAX, RUN_ORDERCAST

PAGE = Path(__file__).parents[1] / "docs" / "write-a-protocol.md"

FILE = re.compile(r"^`([\w./-]+)`:\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Shell:
    """Runs command lines as they stand on the page, in the project's folder."""

    def __init__(self, folder: Path, site: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []
        programs = folder / "bin"
        programs.mkdir()
        for name, arguments in (("ordercast", f"-c '{RUN_ORDERCAST}'"), ("python", "")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            program.chmod(0o755)
        own = Path(ordercast.__file__).parents[1]
        self._environment = os.environ | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join((str(site), str(own))),
        }

    def run(self, line: str) -> str:
        """Until it ends; what it prints."""
        done = subprocess.run(
            line,
            shell=True,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, line: str) -> None:
        """Until it says that it runs."""
        process = subprocess.Popen(
            f"exec {line}",
            shell=True,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        assert process.stderr is not None
        first = process.stderr.readline()
        assert " runs courier " in first, first + process.stderr.read()

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.communicate()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """The project of the page, installed; its package is nowhere but where it is installed."""
    project, site = tmp_path / "c", tmp_path / "site"
    files = dict(FILE.findall(PAGE.read_text(encoding="utf-8")))
    package = {name: text for name, text in files.items() if name.startswith("courier/")}
    described = tomllib.loads(files["pyproject.toml"])["project"]
    install(site, described["name"], package, described["entry-points"])
    for name, text in files.items():
        if name not in package:
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text, encoding="utf-8")
    made = Shell(project, site)
    yield made
    made.close()


def use_free_ports(config: Path) -> None:
    """Those that a configuration names by default may be taken here."""
    ports = iter(free_ports(2))
    config.write_text(re.sub(r"127\.0\.0\.1:\d+", lambda _: f"127.0.0.1:{next(ports)}", config.read_text()))


@pytest.mark.campaign
def test_the_tutorial_does_what_it_says(shell: Shell, tmp_path: Path) -> None:
    printed: dict[str, str] = {}
    for line in "".join(COMMANDS.findall(PAGE.read_text(encoding="utf-8"))).splitlines():
        if line == "pip install .":
            continue  # done
        if line.endswith("&"):
            shell.start(line.removesuffix("&"))
        else:
            printed[line] = shell.run(line)
        if "config new" in line:
            use_free_ports(tmp_path / "c" / "cluster.toml")
    assert "each source's messages in order" in printed["ordercast protocols courier"]
    assert "violated" not in printed["ordercast simulate lossy.toml"]
    (row,) = re.findall(
        r"courier +(\d+) +(\d+) +(\d+) ", printed["ordercast simulate --campaign 30 --protocol courier"]
    )
    assert row[:2] == ("30", "0"), "runs and violations"
    assert "3 passed" in printed["python -m pytest tests"]
    (delivery,) = [text for line, text in printed.items() if line.startswith("ordercast tail")]
    assert delivery.split() == ["0", "node-1", "hello"]


def test_every_file_that_the_page_lists_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    listed = re.findall(r"^  (\S+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(name for name, _ in FILE.findall(text))
