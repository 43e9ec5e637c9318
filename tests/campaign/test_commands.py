"""The commands around campaigns: exit codes, JSON, replay, interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ordercast.campaign import campaign, outcome
from ordercast.campaign import draw as drawing
from ordercast.cli.campaign import replay_run, run_campaign
from ordercast.core import Protocol
from tests.mutants import sequencer
from tests.mutants.registry import MUTANTS
from tests.support import COMMAND_SECONDS_MAX, RUN_ORDERCAST, run_ordercast, run_python


@pytest.fixture
def broken_sequencer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Protocol]:
    """In place of the real one."""
    assert sequencer
    mutant = next(mutant for mutant in MUTANTS if str(mutant) == "sequencer-forgets-to-log-deliveries")
    for module in (campaign, outcome, drawing):
        monkeypatch.setattr(module, "find_protocol", lambda _name: mutant.broken)
    monkeypatch.chdir(tmp_path)
    return mutant.broken


@pytest.mark.usefixtures("broken_sequencer")
def test_a_protocol_that_violates_is_reported_with_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_campaign(3, "sequencer", None, True, workers=1) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["runs"] == 3
    first = document["violations"][0]
    assert (first["protocol"], first["property"]) == ("sequencer", "no-duplication")
    assert first["replay"] == f"ordercast simulate --replay sequencer:{first['seed']}"
    assert not Path(".ordercast").exists()


@pytest.mark.usefixtures("broken_sequencer")
def test_a_person_sees_the_failing_seeds_and_how_to_replay_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_campaign(3, "sequencer", 0, False, workers=1) == 1
    text = capsys.readouterr().out
    assert "ordercast simulate --replay sequencer:0" in text
    assert "no-duplication" in text


@pytest.mark.usefixtures("broken_sequencer")
def test_a_replay_shows_the_violation_and_shrinks_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert replay_run("sequencer:0", False, None, False) == 1
    text = capsys.readouterr().out
    assert "no-duplication" in text
    assert "--shrink" in text
    assert replay_run("sequencer:0", True, Path("small.toml"), True) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["events"] <= document["events_before_shrinking"] / 4
    assert document["scenario"] == Path("small.toml").read_text()


def test_a_sound_run_is_replayed_with_exit_code_0(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    done = run_ordercast("simulate", "--replay", "fan-2:3", "--json", "--write", str(file))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["violations"] == []
    assert all(verdict["verdict"] != "violated" for verdict in document["verdicts"].values())
    again = run_ordercast("simulate", str(file), "--json")
    assert again.returncode == 0, again.stderr
    assert sum(json.loads(again.stdout)["events"].values()) == document["events"]


@pytest.mark.parametrize("name", ["fan-2", "fan-2:x", "fun-2:3"])
def test_what_cannot_be_replayed_is_told_in_one_line(name: str) -> None:
    done = run_ordercast("simulate", "--replay", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1


def group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.campaign
def test_an_interrupted_campaign_ends_with_130_and_leaves_no_process_behind(tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", RUN_ORDERCAST, "simulate", "--campaign", "100000", "--state", str(state)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + COMMAND_SECONDS_MAX
        while not (state.exists() and state.stat().st_size):
            assert time.monotonic() < deadline
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.05)
        # As a terminal does it: to the whole group.
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=COMMAND_SECONDS_MAX)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert process.returncode == 130
    assert b"Traceback" not in errors
    assert state.stat().st_size
    # The helper of multiprocessing that clears up after dead processes ends when it sees that its parent has.
    while group_exists(process.pid):
        assert time.monotonic() < deadline
        run_python("")
