"""Schedules that look for trouble: each brings about what it is for, and no run has one unless that is asked for."""

from __future__ import annotations

import tomllib

import pytest

from ordercast.campaign import Draw, read_draw, run_draw, run_seed
from ordercast.campaign.draw import draw_scenario
from ordercast.campaign.schedules import SCHEDULES, choose_schedule
from ordercast.campaign.state import default_path
from ordercast.core import UsageError
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.protocols.classic.sequencer import Sequencer
from ordercast.sim.scenario import dump_scenario, parse_scenario

KINDS = {
    "priorities": "priorities",
    "quorums": "bare-quorum",
    "effects": "at-effect",
    "leaders": "hit-leader",
    "old-packets": "old-packets",
}


def test_the_schedules_are_these() -> None:
    assert set(SCHEDULES) == set(KINDS)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_schedule_strikes_and_the_sequencer_stands_it(schedule: str) -> None:
    outcomes = [run_draw(Draw(Sequencer, seed, schedule=schedule)).outcome for seed in range(6)]
    assert sum(KINDS[schedule] in outcome.faults for outcome in outcomes) >= 4
    assert [outcome.violations for outcome in outcomes if outcome.violations] == []


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_no_run_has_a_schedule_that_was_not_asked_for(name: str) -> None:
    for seed in range(20):
        faults = draw_scenario(find_protocol(name), seed).faults
        assert not {fault.kind for fault in faults} & set(KINDS.values())


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_a_schedule_asks_for_nothing_that_the_contract_does_not_stand(name: str) -> None:
    protocol = find_protocol(name)
    for seed in range(20):
        schedule = choose_schedule(protocol, seed)
        if schedule:
            scenario = draw_scenario(protocol, seed, schedule=schedule)
            assert scenario.outside_contract == ()


def test_a_run_with_a_schedule_is_named_and_found_again() -> None:
    outcome = run_seed(Sequencer, 3, "schedules").outcome
    assert outcome.replay == f"ordercast simulate --replay sequencer:3:{outcome.schedule}"
    again = run_draw(read_draw(outcome.replay.split()[-1])).outcome
    assert again == outcome
    with pytest.raises(UsageError, match="--replay takes a run"):
        read_draw("sequencer:3:luck")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_scenario_with_a_schedule_is_written_and_read(schedule: str) -> None:
    scenario = draw_scenario(Sequencer, 5, schedule=schedule)
    again = parse_scenario(tomllib.loads(dump_scenario(scenario)), find_protocol, name=scenario.name)
    assert again == scenario


def test_a_campaign_with_schedules_goes_on_in_a_file_of_its_own() -> None:
    assert default_path(("sequencer",)) != default_path(("sequencer",), "schedules")
