"""`ordercast history`: kept by commit, compared, and an exit code for a regression that was asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import run_ordercast


def write_verdict(folder: Path, name: str, verdict: str) -> str:
    of_run = {"integrity": {"claimed": True, "verdict": verdict, "witnesses": 0, "first": None}}
    (folder / name).write_text(json.dumps({"runs": {"r": of_run}, "violated_claims": []}))
    return str(folder / name)


def test_a_regression_that_was_asked_for_is_exit_code_1(tmp_path: Path) -> None:
    table = str(tmp_path / "results")
    for commit, verdict in (("one", "holds"), ("two", "violated")):
        file = write_verdict(tmp_path, f"{commit}.json", verdict)
        result = run_ordercast("history", table, "--add", file, "--commit", commit)
        assert (result.returncode, result.stderr) == (0, "")
        assert commit in result.stdout
    asked = ("--regression", "verdict", "--json")
    result = run_ordercast("history", table, "one", "two", *asked)
    assert result.returncode == 1
    assert json.loads(result.stdout)["regressions"] == [["verdict.integrity", "claimed"]]
    assert run_ordercast("history", table, "two", "one", *asked).returncode == 0
    assert run_ordercast("history", table, "one", "two").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("one",), "two commits are compared"),
        (("--regression", "latency"), "between two commits"),
        (("one", "two", "--regression", "latency:much"), "'much' is not a number of percent"),
        (("one", "two"), "there is no such table"),
        (("--add", "nowhere.json", "--commit", "c"), "nowhere.json: No such file"),
    ],
)
def test_misuse_of_the_history_is_one_line(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    result = run_ordercast("history", str(tmp_path / "results"), *arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
