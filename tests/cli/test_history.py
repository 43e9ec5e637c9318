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
        (("one", "two", "--regression", "latency:-5"), "'-5' is not a number of percent, 0 or more"),
        (("one", "two", "--regression", "latency:nan"), "'nan' is not a number of percent, 0 or more"),
        (("one", "two"), "there is no such table"),
        (("--add", "nowhere.json", "--commit", "c"), "nowhere.json: No such file"),
    ],
)
def test_misuse_of_the_history_is_one_line(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    result = run_ordercast("history", str(tmp_path / "results"), *arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_regression_that_nothing_is_called_is_refused_and_one_value_is_told_apart_from_no_change(
    tmp_path: Path,
) -> None:
    """A name that is misspelt would never be worse, and one value never significant."""
    table = str(tmp_path / "results")
    file = write_verdict(tmp_path, "same.json", "holds")
    for commit in ("one", "two"):
        assert run_ordercast("history", table, "--add", file, "--commit", commit).returncode == 0
    misspelt = run_ordercast("history", table, "one", "two", "--regression", "verdikt.integrity")
    assert misspelt.returncode == 2
    assert (
        "nothing that is compared is called 'verdikt.integrity'; the nearest is 'verdict.integrity'" in misspelt.stderr
    )
    alone = run_ordercast("history", table, "one", "two", "--regression", "verdict")
    assert (alone.returncode, alone.stderr) == (0, "")
    assert "1 of 1 have one value in a commit, which says nothing: add several runs" in alone.stdout
    for commit in ("one", "two"):
        run_ordercast("history", table, "--add", file, "--commit", commit)
    assert "1 of 1 have not changed significantly" in run_ordercast("history", table, "one", "two").stdout


def test_a_document_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    result = run_ordercast("history", str(tmp_path / "results"), "--add", str(tmp_path / "other.json"), "--commit", "c")
    assert result.returncode == 2
    assert "other.json: this is not what verify, measure or simulate --campaign print" in result.stderr
