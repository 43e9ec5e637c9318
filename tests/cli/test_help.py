"""Help pages and completion: one spelling, nothing eaten, and the core installation has what prepares a machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ordercast.cli import main
from ordercast.cli.commands import COMMANDS
from tests.support import run_ordercast

ANY_TYPE = re.compile(r"<(bool|str|int|float|path|list)[^>]*>", re.IGNORECASE)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_what_stands_for_a_value_is_in_capitals_and_flags_have_none(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [command, "--help"] if command else ["--help"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert not ANY_TYPE.search(shown)
    assert not re.search(r"--[a-z-]+ +(TEXT|PATH|INTEGER|FLOAT)\b", shown)
    assert not re.search(r"│[ *]*--[a-z-]*seconds +(?!SECONDS\b| )", shown)
    assert re.search(r"--help +Show this message", shown)
    usage = next(line for line in shown.splitlines() if "Usage:" in line)
    assert not re.search(r"[{}]|\[\[", usage)


def test_tables_of_a_configuration_are_not_taken_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["send", "--help"]) == 0
    assert "[clients]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "wanted"), [("ordercast sta", "status"), ("ordercast status --wa", "--watch"), ("ordercast key n", "new")]
)
def test_shells_complete_commands_and_options(words: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "_ORDERCAST_COMPLETE", "complete_bash")
    monkeypatch.setitem(os.environ, "COMP_WORDS", words)
    monkeypatch.setitem(os.environ, "COMP_CWORD", str(words.count(" ")))
    result = run_ordercast()
    assert result.stdout.split() == [wanted]


def test_the_core_installation_makes_keys_and_configurations(tmp_path: Path) -> None:
    blocked = ["typer", "rich"]
    file = tmp_path / "bank.toml"
    made = run_ordercast("config", "new", str(file), "--processes", "3", blocked=blocked)
    assert (made.returncode, made.stdout) == (
        0,
        f"{file}: a cluster of 3 on this machine, with its key in {file.with_suffix('.key')}\n",
    )
    for words in (("config", "validate", str(file)), ("config", "show", str(file))):
        plain, usual = run_ordercast(*words, blocked=blocked), run_ordercast(*words)
        assert plain.returncode == 0
        assert plain.stdout == usual.stdout
    key = tmp_path / "other.key"
    assert run_ordercast("key", "new", str(key), blocked=blocked).returncode == 0
    again = run_ordercast("key", "new", str(key), blocked=blocked)
    assert (again.returncode, again.stdout, again.stderr.count("\n")) == (2, "", 1)
    misused = run_ordercast("key", "frob", blocked=blocked)
    assert misused.returncode == 2
    assert "frob" in misused.stderr
    assert run_ordercast("key", blocked=blocked).returncode == 0
    for asked in ((), ("--help",)):
        shown = run_ordercast(*asked, blocked=blocked)
        assert shown.returncode == 0
        assert "pip install 'ordercast[cli]'" in " ".join(shown.stdout.split())
