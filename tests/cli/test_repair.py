"""`ordercast repair`: a process that has lost its log is prepared for a start in which the others help it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from ordercast.cli.app import run
from ordercast.core import UsageError
from ordercast.protocols import find_protocol
from ordercast.storage.folder import open_log


def written(folder: Path, protocol: str = "token", log: str = 'log_directory = "log"') -> Path:
    path = folder / "c.toml"
    path.write_text(
        f'cluster = "test"\nprotocol = "{protocol}"\ninsecure = true\n{log}\n'
        '[processes]\na = "127.0.0.1:7001"\nb = "127.0.0.1:7002"\n[groups]\ng = ["a", "b"]\n'
    )
    return path


@pytest.fixture(autouse=True)
def repairs(monkeypatch: pytest.MonkeyPatch) -> None:
    token = find_protocol("token")
    monkeypatch.setattr(token, "contract", msgspec.structs.replace(token.contract, repairs=True))


def test_it_says_where_the_old_log_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_log(tmp_path / "log" / "a", "test", "a").close()
    config = written(tmp_path)
    assert run(["repair", str(config), "--process", "a"]) == 0
    (aside,) = (tmp_path / "log").glob("_lost.a.*")
    text = capsys.readouterr().out
    assert text.count("\n") == 1
    assert str(aside) in text
    assert run(["repair", str(config), "--process", "b", "--json"]) == 0
    log = tmp_path / "log" / "b"
    assert json.loads(capsys.readouterr().out) == {"process": "b", "log": str(log), "set_aside": None}
    opened = open_log(log, "test", "b")
    assert opened.lost
    opened.close()


def refusal(*words: str) -> str:
    with pytest.raises(UsageError) as caught:
        run(["repair", *words])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_protocol_that_cannot_repair_says_what_to_do_instead(tmp_path: Path) -> None:
    line = refusal(str(written(tmp_path, "sequencer")), "--process", "a")
    assert line.startswith("sequencer cannot give a process back what it has lost: give a the log that it had, or stop")
    assert not (tmp_path / "log").exists()


def test_a_running_process_is_left_alone(tmp_path: Path) -> None:
    opened = open_log(tmp_path / "log" / "a", "test", "a")
    assert "is in use by another process (pid " in refusal(str(written(tmp_path)), "--process", "a")
    opened.close()


def test_there_must_be_such_a_process_and_a_log(tmp_path: Path) -> None:
    assert "there is no process 'c'" in refusal(str(written(tmp_path)), "--process", "c")
    assert "there is no log to repair" in refusal(str(written(tmp_path, log="")), "--process", "a")
