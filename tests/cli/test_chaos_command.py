"""`ordercast chaos`: what it prints so that a run can be run again, and what it refuses."""

from __future__ import annotations

import inspect
import shlex
from pathlib import Path

import pytest

from ordercast.cli import main
from ordercast.cli.chaos.casting import make_groups
from ordercast.cli.chaos.command import BRANCH, OUTPUT, REPLICA, chaos, choose_worker, read_options, repeat_command
from ordercast.protocols import find_protocol


def test_the_command_for_the_same_plan_names_every_option_that_changes_it() -> None:
    options = dict.fromkeys(inspect.signature(chaos).parameters, 3)
    words = shlex.split(repeat_command(options))
    assert words[:2] == ["ordercast", "chaos"]
    assert words[2::2] == [f"--{name.replace('_', '-')}" for name in options if name not in OUTPUT]
    assert set(words[3::2]) == {"3"}


def test_an_option_that_was_not_given_is_left_to_its_default() -> None:
    assert repeat_command({"seed": 7, "partitions": None, "lost_logs": 2}) == "ordercast chaos --seed 7 --lost-logs 2"


def test_an_option_that_is_repeated_is_named_each_time() -> None:
    given = {"seed": 7, "option": ['manager="p1"', "window_messages=4"]}
    words = shlex.split(repeat_command(given))
    assert words[2:] == ["--seed", "7", "--option", 'manager="p1"', "--option", "window_messages=4"]


def test_options_of_the_protocol_are_read_as_lines_of_a_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    core = find_protocol("propagation-graph")
    assert read_options(['manager="p1"', "window_messages=4"], core) == {"manager": "p1", "window_messages": 4}
    assert read_options(["delivery=non-atomic", "manager=p2"], core) == {"delivery": "non-atomic", "manager": "p2"}
    for wrong in ("manager", "no_such_option=1"):
        assert main(["chaos", "--protocol", "propagation-graph", "--seconds", "1", "--option", wrong]) == 2
        assert "--option is NAME=VALUE with an option of propagation-graph" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, "groups", "[groups]\nx = 3\n", "[groups]\nx = ['a']\n"])
def test_a_file_of_groups_that_says_too_little_is_refused_in_one_line(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "groups.toml"
    if content is not None:
        file.write_text(content)
    assert main(["chaos", "--seconds", "1", "--groups", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(file) in line


def test_groups_of_a_file_say_who_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "groups.toml"
    file.write_text("[groups]\nx = ['a', 'b']\ny = ['b', 'c']\n")
    assert make_groups(file, None) == {"x": ("a", "b"), "y": ("b", "c")}
    assert main(["chaos", "--seconds", "1", "--groups", str(file), "--processes", "3"]) == 2
    assert "--processes cannot be with --groups, whose file says who there is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        (["--rollbacks", "1"], "no rollbacks"),
        (["--lost-logs", "1", "--strangers", "1"], "no strangers and no lost logs"),
        (["--away", "1"], "no absence"),
        (["--floods", "1"], "no floods"),
    ],
)
def test_what_cannot_happen_on_one_channel_is_refused_in_one_line(
    asked: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chaos", "--protocol", "selective-total", "--seconds", "1", *asked]) == 2
    assert f"ordercast chaos: {what} on one channel" in capsys.readouterr().err


@pytest.mark.parametrize("rejoin", ["skip", "rollback"])
def test_books_are_a_replicated_state_where_a_process_that_fails_may_have_another_tail(rejoin: str) -> None:
    contract = find_protocol("propagation-graph").contract
    options = contract.options(delivery="non-atomic", rejoin=rejoin)
    assert choose_worker(contract.with_options(options), False) == REPLICA
    assert choose_worker(contract, False) == BRANCH
