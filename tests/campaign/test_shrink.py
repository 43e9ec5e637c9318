"""The shrinker: a planted bug ends up in a scenario that a person can read, and that still shows it."""

from __future__ import annotations

import tomllib

import pytest

from ordercast.campaign import find_failing_trial, run_scenario
from ordercast.campaign.shrink import shrink, without_site
from ordercast.check import choose
from ordercast.sim.faults import Crash, Cut, Loss, Partition
from ordercast.sim.scenario import Scenario, dump_scenario, parse_scenario
from ordercast.sim.workload import Workload
from tests.mutants import fan, sequencer
from tests.mutants.registry import MUTANTS, Mutant

PLANTED = {fan: ("asks_once", "forgets_the_log_of_deliveries"), sequencer: ("forgets_to_log_deliveries",)}


def planted() -> list[Mutant]:
    names = [name for chosen in PLANTED.values() for name in chosen]
    return [mutant for mutant in MUTANTS if mutant.name in names]


@pytest.mark.campaign
@pytest.mark.parametrize("mutant", planted(), ids=str)
def test_a_planted_bug_shrinks_to_a_quarter_and_still_fails(mutant: Mutant) -> None:
    trial = find_failing_trial(mutant.broken, range(200))
    assert trial is not None
    small = shrink(trial)
    assert small.outcome.events <= trial.outcome.events / 4
    assert len(small.scenario.faults) <= len(trial.scenario.faults)
    assert trial.outcome.properties[0] in small.outcome.properties
    # Written to a file and read again, it is the same run.
    document = tomllib.loads(dump_scenario(small.scenario))
    again = parse_scenario(document, lambda _name: mutant.broken, name=small.scenario.name)
    assert run_scenario(again, choose(trial.outcome.properties[:1])).table.equals(small.table)


def test_a_site_that_is_left_out_is_gone_everywhere() -> None:
    broken = planted()[0].broken
    scenario = Scenario(
        protocol=broken,
        groups={"g": ("a", "b"), "h": ("b",)},
        workloads=(Workload(sources=("a", "b"), groups=("g",)), Workload(sources=("b",), groups=("g",))),
        faults=(
            Loss(from_=1.0, sites=("b",), rate=0.1),
            Loss(from_=1.0, rate=0.1),
            Crash(from_=1.0, sites=("a", "b")),
            Cut(from_=1.0, sites=("a",), peers=("b",)),
            Partition(from_=1.0, parts=(("b",),)),
        ),
    )
    left = without_site(scenario, "b")
    left.check()
    assert left.sites == ("a",)
    assert left.groups == {"g": ("a",)}
    assert [workload.sources for workload in left.workloads] == [("a",)]
    assert left.faults == (Loss(from_=1.0, rate=0.1), Crash(from_=1.0, sites=("a",)))
