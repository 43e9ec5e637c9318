"""Misuse of the command line: one line on standard error, exit code 2, no traceback."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import ordercast
from ordercast.cli.commands import COMMANDS
from ordercast.cli.extras import CORE_MODULES, EXTRA_MODULES, INCLUDED_EXTRAS
from tests.support import run_ordercast

PROJECT = Path(__file__).parents[1]

# A command that imports what it is told to, under the name of a real one.
PLANTED = """
import sys, types
from ordercast.cli.commands import COMMANDS, CommandEntry

def register(app):
    @app.command("planted")
    def planted(module: str = "numpy", number: int = 1) -> int:
        if module == "interrupt":
            raise KeyboardInterrupt
        if module == "misuse":
            from ordercast.core.errors import UsageError
            raise UsageError("two\\nlines")
        if module == "print":
            for line in range(100000):
                print(line)
        __import__(module)
        return number

planted_module = types.ModuleType("planted_module")
planted_module.register = register
sys.modules["planted_module"] = planted_module
COMMANDS["planted"] = CommandEntry("planted_module", "Planted by a test.", {extras!r})
"""


def planted(*extras: str) -> str:
    return PLANTED.replace("{extras!r}", repr(extras))


def assert_one_line(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode == 2, result
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    for word in words:
        assert word in result.stderr


def test_unknown_command() -> None:
    assert_one_line(run_ordercast("doctr"), "'doctr'", "did you mean doctor?")
    assert_one_line(run_ordercast("xyzzy"), "'xyzzy'", "ordercast --help")


def test_unknown_option() -> None:
    assert_one_line(run_ordercast("doctor", "--colour"), "ordercast doctor:", "--colour", "ordercast doctor --help")
    assert_one_line(run_ordercast("--colour"), "--colour", "ordercast --help")


def test_superfluous_argument() -> None:
    assert_one_line(run_ordercast("doctor", "me"), "ordercast doctor:", "me")


def test_bad_value() -> None:
    assert_one_line(run_ordercast("planted", "--number", "many", setup=planted()), "ordercast planted:", "--number")


def test_usage_error_of_a_command() -> None:
    assert_one_line(run_ordercast("planted", "--module", "misuse", setup=planted()), "ordercast planted: two lines\n")


@pytest.mark.parametrize("module", ["typer", "rich"])
def test_only_core_dependencies(module: str) -> None:
    result = run_ordercast("doctor", blocked=[module])
    assert_one_line(result, "ordercast needs the extra [cli]: pip install 'ordercast[cli]'")


def test_missing_extra_of_a_command() -> None:
    result = run_ordercast("planted", blocked=["numpy"], setup=planted("lab"))
    assert_one_line(result, "ordercast planted needs the extra [lab]: pip install 'ordercast[lab]'")


def test_missing_extra_that_a_command_did_not_declare() -> None:
    result = run_ordercast("planted", blocked=["numpy"], setup=planted())
    assert_one_line(result, "ordercast planted needs the extra [lab]: pip install 'ordercast[lab]'")


def test_all_missing_extras_of_a_command_at_once() -> None:
    result = run_ordercast("planted", blocked=["numpy", "uvicorn"], setup=planted("lab", "dashboard"))
    assert_one_line(result, "needs the extras [lab,dashboard]: pip install 'ordercast[lab,dashboard]'")


def test_our_own_missing_module_is_a_bug_with_a_traceback() -> None:
    result = run_ordercast("planted", "--module", "ordercast.nowhere", setup=planted())
    assert "Traceback" in result.stderr


def test_interrupted() -> None:
    assert run_ordercast("planted", "--module", "interrupt", setup=planted()).returncode == 130


def test_a_command_returns_its_exit_code() -> None:
    assert run_ordercast("planted", "--module", "json", "--number", "1", setup=planted()).returncode == 1
    assert run_ordercast("planted", "--module", "json", "--number", "0", setup=planted()).returncode == 0


def test_a_closed_pipe_is_no_failed_check() -> None:
    close = "import os; reader, writer = os.pipe(); os.close(reader); os.dup2(writer, 1)"
    result = run_ordercast("planted", "--module", "print", setup=f"{planted()}\n{close}")
    assert (result.returncode, result.stderr) == (141, "")


def test_version() -> None:
    result = run_ordercast("--version")
    assert (result.returncode, result.stdout) == (0, f"ordercast {ordercast.__version__}\n")


@pytest.mark.parametrize("arguments", [("--help",), ()])
def test_help_lists_every_command_and_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    # A blocked import would end in an error: so none is tried.
    result = run_ordercast(*arguments, blocked=["numpy", "scipy", "pyarrow", "pandas", "pyspark", "matplotlib"])
    assert result.returncode == 0
    for command in COMMANDS:
        assert re.search(rf"\b{command}\b", result.stdout)


def test_extras_are_those_of_the_project_file() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    import_names = {"pytest-xdist": "xdist"}

    def modules(requirements: list[str]) -> tuple[set[str], set[str]]:
        names = {re.split(r"[\[<>=!~; ]", requirement)[0] for requirement in requirements} - {"ordercast"}
        included = {
            requirement.split("[")[1].rstrip("]") for requirement in requirements if "ordercast[" in requirement
        }
        return {import_names.get(name, name) for name in names}, included

    assert modules(project["dependencies"])[0] == set(CORE_MODULES)
    declared = {extra: modules(requirements) for extra, requirements in project["optional-dependencies"].items()}
    assert declared == {
        extra: (set(names), set(INCLUDED_EXTRAS.get(extra, ()))) for extra, names in EXTRA_MODULES.items()
    }
