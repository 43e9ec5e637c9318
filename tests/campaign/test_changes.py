"""Campaigns of dynamic protocols: sites come and go in two runs of three, and what goes wrong then is found and cut
down."""

from __future__ import annotations

import tomllib

import pytest
from msgspec.structs import replace

from ordercast.campaign.changes import NEW_GROUP, NEWCOMERS
from ordercast.campaign.draw import draw_scenario
from ordercast.campaign.outcome import UNANSWERED, run_scenario, run_seed
from ordercast.campaign.shrink import shrink
from ordercast.core import CRASH_FAULTS, NETWORK_FAULTS, Protocol
from ordercast.core.events import Arrival
from ordercast.protocols.classic.sequencer import Sequencer
from ordercast.sim.faults import Crash, Partition
from ordercast.sim.scenario import Scenario, dump_scenario, parse_scenario
from tests.sim.desk import Ask, Desk, Tell


class Hardy(Desk):
    """Claims to stand everything."""

    contract = replace(Desk.contract, faults=(*NETWORK_FAULTS, *CRASH_FAULTS), minority_may_die=True)


def drawn(protocol: type[Protocol], count: int) -> list[Scenario]:
    return [draw_scenario(protocol, seed) for seed in range(count)]


RUNS = drawn(Hardy, 300)
CHANGED = [run for run in RUNS if run.changes]


def test_two_runs_of_three_of_a_dynamic_protocol_have_changes_and_none_of_a_static_one() -> None:
    assert 0.6 < len(CHANGED) / len(RUNS) < 0.73
    assert not any(run.changes for run in drawn(Sequencer, 30))


def test_every_story_is_told() -> None:
    def some(wanted: object) -> bool:
        return any(wanted(run) for run in CHANGED)  # type: ignore[operator]

    def leaves_everything(run: Scenario) -> bool:
        gone = {(site, change.group) for change in run.changes if change.kind == "leave" for site in change.sites}
        return any(all((site, group) in gone for site in members) for group, members in run.groups.items())

    def returns(run: Scenario) -> bool:
        left = {
            (site, change.group): change.at for change in run.changes if change.kind == "leave" for site in change.sites
        }
        joins = [(site, change) for change in run.changes if change.kind == "join" for site in change.sites]
        return any(left.get((site, change.group), 99.0) < change.at for site, change in joins)

    def asks_in_vain(run: Scenario, kind: type) -> bool:
        return any(
            isinstance(fault, kind) and fault.from_ <= change.at + 0.4 and (fault.to or 99.0) > change.at
            for fault in run.faults
            for change in run.changes
            if not isinstance(fault, Crash) or fault.sites == change.sites
        )

    assert some(lambda run: any(change.kind == "join" and len(change.sites) > 1 for change in run.changes))
    assert some(lambda run: run.late_sites and run.late_sites <= set(NEWCOMERS))
    assert some(lambda run: NEW_GROUP in run.all_groups)
    assert some(lambda run: not run.groups)
    assert some(leaves_everything)
    assert some(returns)
    assert some(lambda run: asks_in_vain(run, Crash))
    assert some(lambda run: asks_in_vain(run, Partition))
    assert some(
        lambda run: any(getattr(fault, "forever", False) and fault.sites[0] in NEWCOMERS for fault in run.faults)
    )


def test_a_crowd_comes_to_a_minority_while_the_network_splits() -> None:
    found = 0
    for run in CHANGED:
        members = set(run.sites) - run.late_sites
        for change in run.changes:
            for split in (fault for fault in run.faults if isinstance(fault, Partition)):
                part = set(split.parts[0])
                few = members - part
                with_them = len(few) + len(change.sites) > (len(members) + len(change.sites)) / 2
                soon = change.at < split.from_ < change.at + 1.0 and set(change.sites) <= run.late_sites
                found += with_them and soon and part <= members and len(few) < len(part)
    assert found > 10


def test_the_dead_are_always_a_minority_of_those_who_stay() -> None:
    for run in CHANGED:
        dead = {site for fault in run.faults if getattr(fault, "forever", False) for site in fault.sites}
        left = [change for change in run.changes if change.kind == "leave" and change.group in run.groups]
        # A newcomer that dies is counted on both sides, or on none, when it was never in.
        stay = (set(run.sites) - run.late_sites - {site for change in left for site in change.sites}) | dead
        assert not dead or 2 * len(dead) < len(stay), run.seed


def test_every_run_with_changes_makes_sense_and_can_be_written_down() -> None:
    for run in CHANGED[:60]:
        run.check()
        again = parse_scenario(tomllib.loads(dump_scenario(run)), lambda _name: Hardy, name=run.name)
        assert again == run


def test_changes_leave_the_rest_of_the_run_alone() -> None:
    static = replace(Hardy.contract, dynamic=False)
    plain = type("Plain", (Hardy,), {"contract": static})
    with_changes, without = draw_scenario(Hardy, CHANGED[0].seed), draw_scenario(plain, CHANGED[0].seed)
    assert with_changes.groups in (without.groups, {})
    assert with_changes.workloads[: len(without.workloads)] == without.workloads
    assert with_changes.faults[: len(without.faults)] == without.faults


def test_a_protocol_that_is_right_keeps_its_claims_and_every_run_with_changes_has_some_that_come_about() -> None:
    outcomes = [run_seed(Desk, seed).outcome for seed in range(60)]
    assert [outcome.violations for outcome in outcomes if outcome.violations] == []
    assert [outcome.seed for outcome in outcomes if outcome.vacuous] == []
    assert sum(outcome.changes.get("join", 0) for outcome in outcomes) > 30
    assert sum(outcome.changes.get("leave", 0) for outcome in outcomes) > 15
    assert {branch for outcome in outcomes for branch in outcome.branches} == set(Desk.contract.branches)


class Deaf(Desk):
    """Lets nobody go."""

    def on_ask(self, sender: str, packet: Ask, arrival: Arrival) -> None:
        if packet.join or packet.multicast is not None:
            super().on_ask(sender, packet, arrival)


class Forgetful(Desk):
    """Whoever joins second is told nothing of the messages that come."""

    def on_tell(self, sender: str, packet: Tell, arrival: Arrival) -> None:
        if packet.multicast is None or not self.context.sites[0].startswith("q"):
            super().on_tell(sender, packet, arrival)


@pytest.fixture(scope="module")
def unanswered() -> Scenario:
    return next(run for run in drawn(Deaf, 60) if UNANSWERED in run_scenario(run).outcome.properties)


def test_a_leave_that_nobody_answers_is_found(unanswered: Scenario) -> None:
    outcome = run_scenario(unanswered).outcome
    (why,) = [each.why for each in outcome.violations if each.property == UNANSWERED]
    assert why.endswith("and nothing came of it")
    assert "has asked to leave" in why


def test_the_shrinker_cuts_changes_and_those_who_came_with_them(unanswered: Scenario) -> None:
    small = shrink(run_scenario(unanswered), property=UNANSWERED).scenario
    assert [change.kind for change in small.changes] in (["leave"], ["join", "leave"])
    assert all(len(change.sites) == 1 for change in small.changes)
    assert (small.faults, small.workloads) == ((), ())
    assert len(small.sites) <= 2
    small.check()


def test_what_a_newcomer_lacks_is_found_by_a_judge_and_cut_down_to_it() -> None:
    trials = (run_seed(Forgetful, seed) for seed in range(200))
    trial = next(trial for trial in trials if "termination" in trial.outcome.properties)
    small = shrink(trial, property="termination").scenario
    assert [(change.kind, change.sites) for change in small.changes] == [("join", ("q",))]
    assert sum(workload.count or 0 for workload in small.workloads) == 1


def test_a_run_in_which_no_change_comes_about_is_vacuous() -> None:
    run = next(run for run in CHANGED if run.groups and run.changes[0].kind == "join")
    again = replace(run.changes[0], sites=run.groups["g"][:1], group="g")
    trial = run_scenario(replace(run, protocol=Desk, changes=(again,), faults=(), workloads=run.workloads[:1]))
    assert trial.outcome.vacuous == "no change came about"
