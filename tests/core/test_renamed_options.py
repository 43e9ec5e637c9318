"""Options that have had other names: the old one is taken, with a warning that says the new one."""

from __future__ import annotations

import pytest

from ordercast.core import RenamedOption, UsageError
from ordercast.core.tables import rename_options
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from tests.support import run_ordercast

OLD = ("window", "history_max", "reader_max", "patience")


def options_of(name: str) -> type:
    return find_protocol(name).contract.options


def test_an_old_name_is_taken_with_a_warning_that_says_the_new_one() -> None:
    with pytest.warns(RenamedOption, match=r"\[options\]: the option window is called window_messages now \(here: 8\)"):
        assert rename_options({"window": 8}, options_of("sequencer"), "[options]") == {"window_messages": 8}


def test_what_counted_time_outs_is_a_time_now() -> None:
    with pytest.warns(RenamedOption):
        given = rename_options({"patience": 4, "retransmit_seconds": 0.5}, options_of("sequencer"), "[options]")
    assert given == {"retransmit_seconds": 0.5, "blocked_seconds": 2.0}
    with pytest.warns(RenamedOption):
        assert rename_options({"patience": 4}, options_of("propagation-graph"), "[options]") == {"blocked_seconds": 0.4}


def test_old_and_new_name_together_are_a_mistake() -> None:
    with pytest.raises(UsageError, match="window is the old name of window_messages; leave out window"):
        rename_options({"window": 8, "window_messages": 8}, options_of("lamport"), "[options]")


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_every_option_has_its_one_word(name: str) -> None:
    options = find_protocol(name).contract.options
    assert not set(options.__struct_fields__) & set(OLD)
    assert {renamed.to for renamed in options.renamed.values()} <= set(options.__struct_fields__)


def test_a_command_warns_in_one_line(tmp_path: object) -> None:
    file = f"{tmp_path}/old.toml"
    with open(file, "w", encoding="utf-8") as opened:
        opened.write('protocol = "sequencer"\nduration = 1.0\n[groups]\ng = ["a", "b"]\n[options]\nwindow = 4\n')
    done = run_ordercast("simulate", file, "--json")
    assert done.returncode == 0
    assert "ordercast: [options]: the option window is called window_messages now (here: 4)" in done.stderr
