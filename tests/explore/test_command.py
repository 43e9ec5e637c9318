"""`ordercast explore`, and `ordercast simulate` with what it has written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ordercast.cli.app import run
from ordercast.core.errors import UsageError
from ordercast.explore.counterexample import Counterexample, Doing, write_counterexample


def test_the_command_tells_states_depth_time_and_that_nothing_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explore", "multicast-eager", "--sites", "2", "--messages", "1", "--crashes", "1", "--json"]
    assert run(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["whole"]
    assert document["problem"] is None
    assert document["states"] > 10
    assert document["states_per_second"] > 0


def test_a_run_that_was_written_is_replayed_by_simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # What a source sends once, and the network loses, nobody ever gets: the world without a link that repeats.
    example = Counterexample("multicast-eager", 2, 1, "stuck: as if", (), (Doing("request", "a"),))
    file = tmp_path / "found.toml"
    file.write_text(write_counterexample(example), encoding="utf-8")
    assert run(["simulate", str(file), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["problem"] == "stuck: termination: site 2 has not delivered a:0:1"
    assert document["verdicts"]["agreement"]["verdict"] == "violated"
    assert run(["simulate", str(file)]) == 1
    assert "a: request" in capsys.readouterr().out


def test_a_file_that_is_no_counterexample_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "found.toml"
    file.write_text('[explored]\nworld = "consensus"\n', encoding="utf-8")
    with pytest.raises(UsageError, match="not a counterexample"):
        run(["simulate", str(file)])
