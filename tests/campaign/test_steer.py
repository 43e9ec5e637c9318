"""Steered campaigns: runs are led to branches that were not taken together yet, and each has a name that replays it."""

from __future__ import annotations

import json

import pytest

from ordercast.campaign import Draw, read_draw, run_draw, run_steered, steer
from ordercast.campaign.steer import branch_pairs
from ordercast.campaign.turns import take_turn
from ordercast.cli import main
from ordercast.core import UsageError
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.protocols.classic.sequencer import Sequencer
from ordercast.protocols.classic.token import Token


def test_runs_that_are_led_further_take_branches_together_that_no_run_before_took_together() -> None:
    seen: set[tuple[str, str]] = set()
    found = {"drawn": 0, "led": 0}
    for outcome in steer(Token, 0, 40):
        pairs = branch_pairs(outcome)
        found["led" if outcome.turns else "drawn"] += len(pairs - seen)
        seen |= pairs
    assert found["led"] >= 100
    assert found["drawn"] >= 100


def test_a_steered_campaign_is_the_same_every_time_on_any_number_of_processes() -> None:
    names, seeds = ("fan-1", "sequencer"), range(5, 17)
    one = run_steered(names, seeds, workers=1)
    two = run_steered(names, seeds, workers=2)
    assert one == two
    assert [outcome.protocol for outcome in one.outcomes] == ["fan-1"] * 12 + ["sequencer"] * 12


def test_a_run_with_turns_is_named_and_found_again() -> None:
    led = next(outcome for outcome in steer(Sequencer, 0, 20) if outcome.turns)
    turns = "-".join(map(str, led.turns))
    assert led.replay == f"ordercast simulate --replay sequencer:{led.seed}:turns-{turns}"
    assert run_draw(read_draw(led.replay.split()[-1])).outcome == led


@pytest.mark.parametrize("name", ["token:1:turns", "token:1:turns-", "token:1:turns-1000", "token:1:turns" + "-1" * 9])
def test_turns_that_no_campaign_takes_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--replay takes a run"):
        read_draw(name)


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_turns_stay_within_the_contract_and_leave_deaths_where_they_are(name: str) -> None:
    protocol = find_protocol(name)
    for seed in range(10):
        drawn = Draw(protocol, seed).scenario()
        led = drawn
        for turn in (seed, 10 + seed, 20 + seed):
            led = take_turn(led, turn)
        assert led.outside_contract == drawn.outside_contract == ()
        for scenario in (drawn, led):
            scenario.check()
        assert _deaths(led.faults) == _deaths(drawn.faults)


def _deaths(faults: tuple[object, ...]) -> list[object]:
    return [fault for fault in faults if getattr(fault, "forever", False)]


def test_a_turn_changes_the_run() -> None:
    drawn = Draw(Sequencer, 0).scenario()
    led = [take_turn(drawn, turn) for turn in range(40)]
    assert all(scenario.seed != drawn.seed for scenario in led)
    assert {len(scenario.faults) - len(drawn.faults) for scenario in led} == {-1, 0, 1}
    assert any(len(scenario.faults) == len(drawn.faults) and scenario.faults != drawn.faults for scenario in led), (
        "no fault was moved"
    )


def test_the_command_line_steers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--campaign", "8", "--protocol", "fan-1", "--steered", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 8
    assert main(["simulate", "--campaign", "8", "--steered", "--large"]) == 2
    assert "--steered runs follow from each other" in capsys.readouterr().err
