"""Rare faults: drawn in some seeds only, and so that whoever must be refused can be."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from ordercast.campaign import draw_scenario, run_seed
from ordercast.campaign.draw import read_draw
from ordercast.campaign.rare import _HARMLESS, RARE_KINDS, _kinds_of
from ordercast.core import Contract, Options
from ordercast.core.memory import ROLL_CALL_SECONDS
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.sim.memory_faults import MemoryFault
from ordercast.sim.scenario import Scenario

SEEDS = range(400)


def rare_kinds(scenario: Scenario) -> list[str]:
    return [fault.kind for fault in scenario.faults if fault.kind in RARE_KINDS]


@pytest.mark.parametrize("name", ["sequencer", "lamport", "token", "fan-3"])
def test_one_seed_of_eight_has_one_rare_fault_and_every_kind_comes(name: str) -> None:
    drawn = [rare_kinds(draw_scenario(find_protocol(name), seed)) for seed in SEEDS]
    counts = Counter(kind for kinds in drawn for kind in kinds)
    assert max(map(len, drawn)) == 1
    assert 30 <= sum(counts.values()) <= 70
    assert set(counts) == set(_kinds_of(find_protocol(name)))


def test_a_seed_has_the_same_rare_fault_in_every_attempt_at_it_or_none() -> None:
    protocol = find_protocol("two-phase")
    for seed in range(100):
        kinds = [rare_kinds(draw_scenario(protocol, seed, attempt=attempt)) for attempt in range(6)]
        assert kinds[0] == kinds[1] == kinds[2] == kinds[3]
        assert kinds[4] == kinds[5] == []


def test_the_matrix_and_calm_runs_have_none() -> None:
    for seed in range(100):
        assert not rare_kinds(read_draw(f"sequencer:{seed}:broadcast:several").scenario())
        assert not rare_kinds(draw_scenario(find_protocol("sequencer"), seed, calm=True))


@pytest.mark.parametrize("name", ["sequencer", "token", "broadcast-tree"])
def test_nobody_is_down_or_cut_off_when_a_site_without_its_memory_comes_back(name: str) -> None:
    for seed in SEEDS:
        scenario = draw_scenario(find_protocol(name), seed)
        for lost in (fault for fault in scenario.faults if isinstance(fault, MemoryFault)):
            assert lost.to is not None
            for fault in scenario.faults:
                if fault is not lost and fault.kind not in _HARMLESS:
                    over = fault.to is not None and fault.to < lost.to - ROLL_CALL_SECONDS
                    assert over or fault.from_ > lost.to + ROLL_CALL_SECONDS


@pytest.mark.parametrize("name", [name for name in PROTOCOL_NAMES if find_protocol(name).records])
def test_who_must_not_go_on_is_refused_and_nothing_that_is_safe_fails(name: str) -> None:
    """Three seeds with such a fault; the campaign has many more."""
    protocol = find_protocol(name)
    seeds = [seed for seed in SEEDS if {"rollback", "drift"} & set(rare_kinds(draw_scenario(protocol, seed)))]
    for seed in seeds[:3]:
        outcome = run_seed(protocol, seed).outcome
        assert outcome.properties == ()
        assert outcome.vacuous == ""
        # A destination of these may have said nothing, and then nobody relies on its log.
        assert outcome.refused == 1 or name in ("fan-1", "fan-2")


def test_who_is_away_misses_more_than_anybody_may_keep() -> None:
    class Bounded(Options, frozen=True):
        kept_bytes_max: int = 1 << 26

    class Keeping(find_protocol("fan-0")):  # type: ignore[misc]
        contract: Contract = msgspec.structs.replace(find_protocol("fan-0").contract, options=Bounded)

    absent = [draw_scenario(Keeping, seed) for seed in SEEDS]
    absent = [scenario for scenario in absent if rare_kinds(scenario) == ["away"]]
    assert absent
    for scenario in absent:
        away = next(fault for fault in scenario.faults if fault.kind == "away")
        during = [workload for workload in scenario.workloads if workload.start == away.from_]
        for workload in during:
            assert (workload.count or 0) * len(workload.sources) * workload.size > scenario.options["kept_bytes_max"]
            assert away.sites[0] not in workload.sources
    assert sum(bool(scenario.options) for scenario in absent) > len(absent) // 2


def test_what_a_protocol_does_not_declare_and_has_no_log_for_is_not_drawn() -> None:
    assert _kinds_of(find_protocol("fan-0")) == ("away", "foreign")
    assert _kinds_of(find_protocol("selective-total")) == ("foreign",)
    assert _kinds_of(find_protocol("sequencer")) == RARE_KINDS
