"""The rules of chapter 5, each of them broken on purpose: the judges, or what is counted, must show it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from ordercast.campaign.outcome import run_scenario
from ordercast.protocols.intergroup.dynamic import DynamicInterGroup
from ordercast.sim.change import Change
from ordercast.sim.faults import AnyFault, Crash, Cut, Duplication, Partition, Pause, Skew
from ordercast.sim.network_table import PointToPointTable
from ordercast.sim.scenario import Scenario
from ordercast.sim.workload import Workload
from tests.mutants.membership import RULES

SITES = ("a", "b", "c", "d")
SECONDS = 8.0
HIERARCHY = {"control_seconds_min": 0.1, "start_seconds": 0.3, "check_seconds": 0.2}
"""It knows of all receivers after a second."""


def scenario(
    *faults: AnyFault,
    changes: tuple[Change, ...] = (),
    workloads: tuple[Workload, ...] = (Workload(sources=SITES, groups=("g",), rate=10.0, count=int(8 * SECONDS)),),
    senders: tuple[str, ...] = SITES,
    **options: float,
) -> Scenario:
    """Four senders, all of which multicast."""
    return Scenario(
        protocol=DynamicInterGroup,
        name="mutant",
        seed=1,
        groups={"g": SITES},
        network=PointToPointTable(processing=0.0001, latency=0.005),
        duration=SECONDS,
        settle=10.0,
        options={"views": "change", "senders": list(senders), **HIERARCHY, **options},
        workloads=workloads,
        faults=faults,
        changes=changes,
    )


# ---------------------------------------------------------------------- what shows that a rule is broken
def is_violated(run: Scenario) -> bool:
    """Whether a claim does not hold, or a core goes wrong."""
    return bool(run_scenario(run).outcome.violations)


def repairs(run: Scenario) -> bool:
    """Whether there is a repair."""
    return run_scenario(run).outcome.branches.get("sender>mra", 0) > 0


def stands_still(run: Scenario) -> bool:
    """Whether a process that nothing happens to delivers nothing for longer than a consensus and a repair take."""
    times = [row["time"] for row in rows(run, "deliver") if row["site"] == "d"]
    return max(after - before for before, after in pairwise(times)) > 4.0


def changes_without_cause(run: Scenario) -> bool:
    """Whether there is a view long after the last fault that anyone could have noticed."""
    return any(row["time"] > 7.0 for row in rows(run, "view"))


def repairs_again_and_again(run: Scenario) -> bool:
    """Whether each of three has given up more than once whoever does not hear them."""
    return run_scenario(run).outcome.branches.get("given-up", 0) > 3


def has_left(run: Scenario) -> bool:
    """Whether a receiver has found itself ahead of a cut."""
    return run_scenario(run).outcome.branches.get("r-recovery>r-failed", 0) > 0


def speaks_to_itself(run: Scenario) -> bool:
    """Whether something that was multicast when all could hear each other was delivered by its source alone."""
    late = {row["message"] for row in rows(run, "multicast") if row["time"] > 5.1}
    got = {row["message"] for row in rows(run, "deliver") if row["site"] == "d"}
    return not late <= got


def rows(run: Scenario, kind: str) -> list[dict[str, Any]]:
    """The rows of a kind."""
    return [row for row in run_scenario(run).table.to_pylist() if row["kind"] == kind]


CRASH = Crash(from_=3.0, sites=("b",), forever=True)
ALONE = Partition(from_=2.0, to=5.0, parts=(("d",),))
AHEAD = Skew(from_=3.5, sites=("d",), jump=3.0)
"""By then d is alone, and the others do not follow its clock."""
HASTY = (Skew(from_=1.0, to=2.8, sites=("d",), drift=1.5), Partition(from_=2.0, to=2.8, parts=(("d",),)))
"""d believes that the others have failed before they believe it of d."""
DEAF = Cut(from_=2.0, to=7.5, sites=("a", "c", "d"), peers=("b",))
"""b hears nobody, and is heard by all."""
OFTEN = (Workload(sources=SITES, groups=("g",), rate=60.0),)
JOIN = (Change(kind="join", at=3.0, sites=("p",), group="g"),)
ROLES = (
    Change(kind="role", at=2.0, sites=("b",), group="g", role="receiver"),
    Change(kind="role", at=4.0, sites=("b",), group="g", role="sender"),
)

CASES: dict[str, tuple[Scenario, Callable[[Scenario], bool]]] = {
    "equal_sets_storm": (scenario(CRASH), is_violated),
    "own_failure_from_a_stale_proposal": (
        scenario(
            Cut(from_=1.0, to=3.0, sites=("a",), peers=("b", "c", "d")),
            Duplication(from_=2.0, to=3.0, rate=1.0, seconds=8.0),
        ),
        changes_without_cause,
    ),
    "no_consensus_timeout": (scenario(DEAF), stands_still),
    "block_set_ignored": (scenario(DEAF, consensus_seconds=0.5, foreign_seconds=0.2), repairs_again_and_again),
    "cut_without_receivers": (
        scenario(
            Cut(from_=2.9, to=4.0, sites=("b",), peers=("a", "c")),
            Crash(from_=3.15, sites=("b",), forever=True),
            senders=("a", "b", "c"),
            workloads=(Workload(sources=("b",), groups=("g",), rate=40.0),),
        ),
        has_left,
    ),
    "cut_below_what_was_delivered": (
        scenario(
            Cut(from_=2.9, to=4.0, sites=("b",), peers=("c", "d")),
            Crash(from_=3.15, sites=("b",), forever=True),
            workloads=OFTEN,
        ),
        is_violated,
    ),
    "view_begins_before_a_cut": (scenario(ALONE, AHEAD, workloads=OFTEN), is_violated),
    "data_leaves_during_a_repair": (scenario(CRASH, workloads=OFTEN), is_violated),
    "leader_does_not_wait_for_all": (scenario(ALONE, AHEAD, workloads=OFTEN), is_violated),
    "view_tag_ignored": (scenario(ALONE), is_violated),
    "new_sender_is_foreign": (scenario(changes=ROLES), repairs),
    "first_number_one_too_high": (scenario(changes=JOIN), is_violated),
    "transitional_set_by_intersection": (scenario(*HASTY), is_violated),
    "leaver_leaves_early": (scenario(changes=ROLES, workloads=OFTEN), is_violated),
    "joiner_that_died_stays": (scenario(Crash(from_=3.08, sites=("p",), forever=True), changes=JOIN), is_violated),
    "goes_on_in_its_old_view": (
        scenario(
            Pause(from_=2.0, to=5.0, sites=("b",)),
            Partition(from_=2.0, to=5.0, parts=(("b",),)),
            workloads=(Workload(sources=("b",), groups=("g",), rate=50.0, start=5.0),),
        ),
        speaks_to_itself,
    ),
}


VIOLATES = {
    "cut_below_what_was_delivered": "reliable-timestamp-order",
    "data_leaves_during_a_repair": "virtual-synchrony",
    "transitional_set_by_intersection": "transitional-set",
    "view_tag_ignored": "view-agreement",
}
"""The property that must be among those that see it, where there is one that hardly anything else violates."""


def test_every_rule_has_its_run() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_the_rule_is_needed(name: str) -> None:
    run, shows = CASES[name]
    assert not shows(run)
    with pytest.MonkeyPatch.context() as patch:
        RULES[name].plant(patch)
        assert shows(run)


@pytest.mark.parametrize("name", VIOLATES)
def test_the_property_that_must_see_it_does(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        RULES[name].plant(patch)
        assert VIOLATES[name] in run_scenario(CASES[name][0]).outcome.properties
