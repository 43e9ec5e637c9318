"""Variations of the ordinary run, each in a share of the seeds, all others as they would be without."""

from __future__ import annotations

import tomllib

import pytest

from ordercast.campaign import draw_scenario, run_scenario, varied
from ordercast.core import Protocol, Record, UsageError
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.runtime import MemoryLog
from ordercast.sim.faults import Crash
from ordercast.sim.scenario import Scenario, dump_scenario, needs_log, parse_scenario

SEEDS = range(120)


def drawn(name: str, what: str, seeds: range = SEEDS) -> list[Scenario]:
    """The runs of these seeds that the variation has changed."""
    share, change = varied._VARIATIONS[what]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(varied, "_VARIATIONS", {what: (share, change)})
        chosen = [draw_scenario(find_protocol(name), seed) for seed in seeds]
        patch.setattr(varied, "_VARIATIONS", {})
        ordinary = [draw_scenario(find_protocol(name), seed) for seed in seeds]
    return [one for one, other in zip(chosen, ordinary, strict=True) if one != other]


def test_all_other_seeds_keep_their_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = find_protocol("sequencer")
    chosen = [draw_scenario(protocol, seed) for seed in SEEDS]
    monkeypatch.setattr(varied, "_VARIATIONS", {})
    same = sum(one == draw_scenario(protocol, seed) for seed, one in zip(SEEDS, chosen, strict=True))
    assert 0.6 * len(SEEDS) < same < 0.85 * len(SEEDS)


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_what_is_drawn_makes_sense_and_can_be_written_down(name: str) -> None:
    for seed in range(40):
        scenario = draw_scenario(find_protocol(name), seed)
        scenario.check()
        document = tomllib.loads(dump_scenario(scenario))
        assert parse_scenario(document, find_protocol, name=scenario.name) == scenario


def test_logs_are_summed_up_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    checkpoint = MemoryLog.checkpoint

    def note(log: MemoryLog, state: Record, position: int) -> None:
        taken.append(position)
        checkpoint(log, state, position)

    monkeypatch.setattr(MemoryLog, "checkpoint", note)
    scenarios = drawn("lamport", "checkpoints")
    assert {scenario.checkpoint_records for scenario in scenarios} >= {3, 16}
    with_crash = [each for each in scenarios if "crash" in {fault.kind for fault in each.faults}]
    frequent = [each for each in with_crash if each.checkpoint_records == 3]
    assert not run_scenario(frequent[0]).outcome.violations
    assert len(taken) > 10


def test_without_a_log_nobody_comes_back_from_a_crash() -> None:
    scenarios = drawn("two-phase", "no log")
    assert scenarios
    for scenario in scenarios:
        assert not scenario.stable
        assert scenario.faults
        assert not any(map(needs_log, scenario.faults))
    assert not run_scenario(scenarios[0]).outcome.violations


@pytest.mark.parametrize("name", ["scalatom", "fan-3", "propagation-graph"])
def test_groups_of_one_are_addressed(name: str) -> None:
    scenarios = drawn(name, "group of one")
    assert scenarios
    for scenario in scenarios:
        assert len(scenario.groups[varied.GROUP_OF_ONE]) == 1
        assert any(varied.GROUP_OF_ONE in workload.groups for workload in scenario.workloads)


def test_some_runs_have_a_thousand_messages() -> None:
    (scenario, *_) = drawn("fan-0", "long")
    workload = scenario.workloads[0]
    assert workload.count is not None
    assert workload.count * len(workload.sources) > 1000


def test_a_thousand_messages_are_not_caught_up_with_two_at_a_time() -> None:
    scenarios = drawn("broadcast-tree", "long", range(400))
    assert scenarios
    assert {scenario.options["gap_messages_max"] for scenario in scenarios} == {256}


def test_processes_of_selective_total_order_come_back_as_strangers() -> None:
    scenarios = drawn("selective-total", "return")
    assert scenarios
    for scenario in scenarios[:3]:
        crashes = [fault for fault in scenario.faults if isinstance(fault, Crash)]
        assert any(not crash.forever and crash.to is not None for crash in crashes)
        trial = run_scenario(scenario)
        assert not trial.outcome.violations
        assert "no-silent-divergence" not in trial.run.guarantees
        assert "awake" in trial.table.column("kind").to_pylist()


def test_sites_fail_with_a_tail_that_is_theirs_alone_where_that_is_an_exception_of_what_is_claimed() -> None:
    scenarios = drawn("propagation-graph", "tail")
    assert {scenario.options["delivery"] for scenario in scenarios} == {"non-atomic"}
    assert {scenario.faults[-1].kind for scenario in scenarios} == {"partition", "crash", "pause"}
    for scenario in scenarios:
        scenario.check()
        cut, fault = scenario.faults[-2:]
        assert cut.from_ < fault.from_
        assert cut.to == fault.to
    claiming = [scenario for scenario in scenarios if "R2" in scenario.contract.guarantees]
    excused = [run_scenario(scenario).outcome.excused for scenario in claiming]
    assert 4 * sum(bool(pairs) for pairs in excused) >= len(excused) > 10
    assert not drawn("sequencer", "tail")


@pytest.mark.parametrize(
    ("storage", "complaint"),
    [
        ({"checkpoint": 0}, r"\[storage\]: checkpoint is 1 or more records, not 0"),
        ({"log": False}, r"\[storage\]: whoever comes back from a crash needs a log"),
        ({"log": "no"}, r"\[storage\]: log"),
    ],
)
def test_storage_that_makes_no_sense_is_refused(storage: dict[str, object], complaint: str) -> None:
    document = {
        "protocol": "sequencer",
        "groups": {"g": ["a", "b"]},
        "storage": storage,
        "fault": [{"kind": "crash", "from": 1.0, "to": 2.0, "sites": ["a"]}],
    }
    with pytest.raises(UsageError, match=complaint):
        parse_scenario(document, find_protocol)


def test_a_protocol_without_records_comes_back_without_a_log() -> None:
    protocol: type[Protocol] = find_protocol("fan-0")
    crash = Crash(from_=1.0, to=2.0, sites=("a",))
    Scenario(protocol=protocol, groups={"g": ("a", "b")}, stable=False, faults=(crash,)).check()
