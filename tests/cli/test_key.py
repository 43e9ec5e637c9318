"""`ordercast key new`: a private file, never over another one."""

import json
import stat
from pathlib import Path

import pytest

from ordercast.wire import fingerprint, read_keys
from tests.support import run_ordercast


def test_a_new_key_is_private_and_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "bank.key"
    result = run_ordercast("key", "new", str(path))
    assert (result.returncode, result.stderr) == (0, "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert fingerprint(read_keys(path).used) in result.stdout
    assert path.read_text().strip() not in result.stdout


def test_machines_get_one_json_document(tmp_path: Path) -> None:
    path = tmp_path / "bank.key"
    result = run_ordercast("key", "new", str(path), "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {"key_file": str(path), "fingerprint": fingerprint(read_keys(path).used)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("new", "taken.key"), "exists"),
        (("new", "nowhere/bank.key"), "cannot write"),
        (("new", "."), "exists"),
        (("new",), "FILE"),
        (("old", "bank.key"), "'old'"),
    ],
)
def test_misuse_is_one_line_and_loses_nothing(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    (tmp_path / "taken.key").write_text("precious")
    command, *paths = arguments
    result = run_ordercast("key", command, *(str(tmp_path / path) for path in paths))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr
    assert (tmp_path / "taken.key").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["taken.key"]


def test_help_has_an_example() -> None:
    for arguments in (("key", "--help"), ("key", "new", "--help"), ("key",)):
        result = run_ordercast(*arguments)
        assert result.returncode == 0
        assert "Example: ordercast key new bank.key" in result.stdout
