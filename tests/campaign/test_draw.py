"""Drawing random runs: all from the seed, all within what the protocol promises to stand."""

from __future__ import annotations

import tomllib
from collections import Counter

import pytest

from ordercast.campaign import Draw, draw_scenario, read_draw, run_scenario
from ordercast.campaign.draw import SOURCES
from ordercast.campaign.rare import RARE_KINDS
from ordercast.campaign.swarm import _DRAWERS, draw_kinds
from ordercast.core import UsageError, random_stream
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.sim.faults import FAULT_KINDS, Delay, Duplication
from ordercast.sim.scenario import dump_scenario, parse_scenario
from tests.support import run_python

SEEDS = range(40)


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_every_draw_is_within_the_contract(name: str) -> None:
    protocol = find_protocol(name)
    for seed in SEEDS:
        scenario = draw_scenario(protocol, seed)
        scenario.check()
        assert scenario.outside_contract == ()
        assert scenario.faults


@pytest.mark.parametrize("sources", SOURCES)
@pytest.mark.parametrize("network", ["broadcast", "point-to-point"])
def test_draws_of_the_matrix_are_within_the_contract(network: str, sources: str) -> None:
    for seed in SEEDS:
        scenario = read_draw(f"sequencer:{seed}:{network}:{sources}").scenario()
        scenario.check()
        assert scenario.network.kind == network
        members = {site for group in scenario.groups.values() for site in group}
        if sources == "outside":
            assert not members & {source for workload in scenario.workloads for source in workload.sources}


def test_where_loss_is_not_stood_no_packet_is_later_than_phi_n() -> None:
    for seed in SEEDS:
        scenario = draw_scenario(find_protocol("fan-1"), seed)
        extra = max((f.seconds for f in scenario.faults if isinstance(f, Delay | Duplication)), default=0.0)
        assert scenario.network.phi_n is not None
        assert scenario.network.make(scenario.sites).latency_max() + extra <= scenario.network.phi_n


def test_a_calm_draw_has_no_faults_and_default_options() -> None:
    scenario = draw_scenario(find_protocol("sequencer"), 3, calm=True)
    assert (scenario.faults, scenario.options, scenario.sync_seconds) == ((), {}, 0.0)


HUNTING_KINDS = ("priorities", "bare-quorum", "old-packets", "at-effect", "hit-leader")
"""Those that a schedule brings: see test_schedules.py."""


def test_every_fault_kind_can_be_drawn() -> None:
    assert {*_DRAWERS, *RARE_KINDS, *HUNTING_KINDS} == set(FAULT_KINDS)
    assert not set(_DRAWERS) & set(RARE_KINDS)


def test_each_fault_kind_is_on_in_half_of_the_runs_and_never_none() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1000):
        kinds = draw_kinds(random_stream(seed, "kinds"), FAULT_KINDS)
        assert kinds
        counts.update(kinds)
    assert all(400 < counts[kind] < 600 for kind in FAULT_KINDS)


def test_a_single_kind_is_always_on() -> None:
    assert draw_kinds(random_stream(1), ("loss",)) == ("loss",)


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_the_options_that_are_drawn_are_the_protocols_own(name: str) -> None:
    protocol = find_protocol(name)
    known = set(protocol.contract.options.__struct_fields__)
    assert all(set(draw_scenario(protocol, seed).options) <= known for seed in SEEDS)


def test_a_seed_means_the_same_in_another_process_with_other_hashes() -> None:
    code = """
from ordercast.campaign import draw_scenario
from ordercast.protocols import find_protocol
from ordercast.sim.scenario import dump_scenario
print(dump_scenario(draw_scenario(find_protocol("lamport"), 11)), end="")
"""
    here = dump_scenario(draw_scenario(find_protocol("lamport"), 11))
    for hash_seed in ("1", "2"):
        assert run_python(code, environment={"PYTHONHASHSEED": hash_seed, "PATH": ""}).stdout == here


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_a_draw_written_down_and_read_again_runs_the_same(name: str) -> None:
    scenario = draw_scenario(find_protocol(name), 5)
    again = parse_scenario(tomllib.loads(dump_scenario(scenario)), find_protocol, name=scenario.name)
    assert run_scenario(again).table.equals(run_scenario(scenario).table)


def test_the_name_of_a_draw_leads_back_to_it() -> None:
    for draw in (Draw(find_protocol("token"), 7), Draw(find_protocol("fan-3"), 0, "broadcast", "several")):
        assert read_draw(str(draw)) == draw
        assert draw.replay == f"ordercast simulate --replay {draw}"


NO_NAMES = [
    "",
    "token",
    "token:",
    ":3",
    "token:x",
    "token:-1",
    "tokn:3",
    "token:3:broadcast",
    "token:3:tin-can:several",
]


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_no_name_of_a_draw_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError):
        read_draw(name)
