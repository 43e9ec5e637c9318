"""Campaigns of protocols with services: receivers choose at the start and while the run goes on, and what goes wrong
then is found and cut down."""

from __future__ import annotations

import tomllib
from collections import Counter

import pytest
from msgspec.structs import replace

from ordercast.campaign.draw import draw_scenario
from ordercast.campaign.outcome import STARVED, run_scenario, run_seed
from ordercast.campaign.shrink import shrink, without_site
from ordercast.cli.diagram import draw, legend
from ordercast.core import Contract, GroupId, Protocol, SiteId
from ordercast.core.effects import Credit
from ordercast.core.events import Started
from ordercast.sim.change import Change
from ordercast.sim.network_table import WideAreaTable
from ordercast.sim.scenario import Scenario, dump_scenario, parse_scenario
from tests.sim.desk import Desk
from tests.sim.kiosk import AS_IT_COMES, IN_ORDER, Kiosk, Say


def drawn(protocol: type[Protocol], count: int) -> list[Scenario]:
    return [draw_scenario(protocol, seed) for seed in range(count)]


RUNS = drawn(Kiosk, 200)


def choices(run: Scenario) -> list[tuple[Change, SiteId]]:
    return [(change, site) for change in run.changes if change.kind == "service" for site in change.sites]


# ---------------------------------------------------------------------- what is drawn
def test_receivers_of_one_group_have_different_services_and_one_receiver_different_ones_in_its_groups() -> None:
    def first(run: Scenario) -> dict[tuple[GroupId, SiteId], str]:
        return {(change.group, site): change.service for change, site in choices(run) if change.at == 0.0}

    def mixed(run: Scenario) -> bool:
        of_group: dict[GroupId, set[str]] = {}
        for (group, _), service in first(run).items():
            of_group.setdefault(group, set()).add(service)
        return any(len(services) > 1 for services in of_group.values())

    def divided(run: Scenario) -> bool:
        of_site: dict[SiteId, set[str]] = {}
        for (_, site), service in first(run).items():
            of_site.setdefault(site, set()).add(service)
        return any(len(services) > 1 for services in of_site.values())

    assert sum(map(mixed, RUNS)) > 80
    assert sum(map(divided, RUNS)) > 50
    assert any(not first(run) for run in RUNS)


def test_services_change_under_way_for_everyone_or_for_some_sources_and_twice_in_a_moment() -> None:
    later = [[(change, site) for change, site in choices(run) if change.at > 0.0] for run in RUNS]
    assert sum(bool(changes) for changes in later) > 140
    assert any(len(change.sources) == 1 for changes in later for change, _ in changes)
    assert any(len(change.sources) > 1 for changes in later for change, _ in changes)
    assert any(not change.sources for changes in later for change, _ in changes)
    soon = [
        abs(one.at - other.at)
        for changes in later
        for one, site in changes
        for other, again in changes
        if one is not other and (one.group, site) == (other.group, again)
    ]
    assert min(soon) < 0.05
    assert all(change.at <= 0.8 * run.duration for run in RUNS for change in run.changes)


def test_some_choose_the_same_again_and_again_of_other_sources() -> None:
    """An application that asks for what it misses does so more than once, when there is something to miss."""

    def most(run: Scenario) -> int:
        of_sources = Counter((change.group, site, change.service) for change, site in choices(run) if change.sources)
        return max(of_sources.values(), default=0)

    assert sum(most(run) > 2 for run in RUNS) > 40


def test_regions_are_near_and_far_in_hops_and_lose_packets_together() -> None:
    tables = [run.network for run in RUNS if isinstance(run.network, WideAreaTable)]
    assert len(tables) == len(RUNS)
    hops = {count for table in tables for row in (table.hops or {}).values() for count in row.values()}
    assert {1, 2, 15, 16, 32} <= hops
    assert 60 < sum(table.shared_loss > 0 for table in tables) < 140
    assert max(table.shared_loss for table in tables) <= 0.15


def test_every_run_makes_sense_and_can_be_written_down() -> None:
    for run in RUNS[:60]:
        run.check()
        again = parse_scenario(tomllib.loads(dump_scenario(run)), lambda _name: Kiosk, name=run.name)
        assert again == run


class Roles(Desk):
    """Groups that come and go, with roles and services."""

    contract = replace(
        Desk.contract, name="roles", faults=(), roles=("sender", "receiver"), services={AS_IT_COMES: (), IN_ORDER: ()}
    )


def test_where_sites_join_they_may_say_at_once_what_they_want_and_roles_change_as_well() -> None:
    runs = drawn(Roles, 150)
    joins = [change for run in runs for change in run.changes if change.kind == "join"]
    assert any(change.role and change.service for change in joins)
    assert any(not change.role and not change.service for change in joins)
    roles = [change for run in runs for change in run.changes if change.kind == "role"]
    assert {change.role for change in roles} == {"sender", "receiver"}
    for run in runs:
        run.check()
        begun = {site: min(each.at for each in run.changes if site in each.sites) for site in run.late_sites}
        first = {site: next(each for each in run.changes if site in each.sites) for site in run.late_sites}
        assert all(first[site].kind == "join" for site in begun), (
            "nobody chooses a service in a group that it is not in"
        )


# ---------------------------------------------------------------------- what is found
class Steady(Kiosk):
    """On networks without loss of their own."""

    arrangement = replace(Kiosk.arrangement, campaign=replace(Kiosk.arrangement.campaign, channels=False))


class Hasty(Steady):
    """Hands over what it should hold back."""

    def take_in_order(self, key: tuple[GroupId, SiteId], packet: Say) -> None:
        self.deliver(packet.multicast, service=IN_ORDER)


class Sluggish(Steady):
    """Waits for ever for what came before it was asked."""

    def take_in_order(self, key: tuple[GroupId, SiteId], packet: Say) -> None:
        self.next[key] = 1
        super().take_in_order(key, packet)


def test_a_protocol_that_is_right_keeps_its_claims_and_every_service_change_comes_about() -> None:
    outcomes = [run_seed(Steady, seed).outcome for seed in range(60)]
    assert [outcome.violations for outcome in outcomes if outcome.violations] == []
    assert [outcome.seed for outcome in outcomes if outcome.vacuous] == []
    assert sum(outcome.changes.get("service", 0) for outcome in outcomes) > 120
    assert {branch for outcome in outcomes for branch in outcome.branches} == set(Kiosk.contract.branches)


@pytest.mark.parametrize(("broken", "violated"), [(Hasty, "source-order"), (Sluggish, "view-termination")])
def test_a_service_that_does_not_keep_its_promise_is_found_and_cut_down_to_one_choice(
    broken: type[Protocol], violated: str
) -> None:
    trials = (run_seed(broken, seed) for seed in range(100))
    trial = next(trial for trial in trials if violated in trial.outcome.properties)
    small = shrink(trial, property=violated)
    assert violated in small.outcome.properties
    assert [(change.kind, change.service) for change in small.scenario.changes] == [("service", IN_ORDER)]
    assert small.scenario.changes[0].sources == ()
    small.scenario.check()
    shown = draw(small.table)
    assert f"S {IN_ORDER}" in shown
    assert "S service" in legend(small.table)


def test_shared_loss_and_hops_are_left_out_where_they_do_not_matter() -> None:
    trials = (run_seed(type("Lossy", (Hasty,), {"arrangement": Kiosk.arrangement}), seed) for seed in range(100))
    trial = next(trial for trial in trials if "source-order" in trial.outcome.properties)
    network = shrink(trial, property="source-order").scenario.network
    assert isinstance(network, WideAreaTable)
    assert (network.hops, network.shared_loss) == (None, 0.0)


def test_a_choice_for_a_source_that_is_left_out_is_left_out_with_it() -> None:
    run = next(run for run in RUNS if any(len(change.sources) == 1 for change in run.changes))
    gone = next(change.sources[0] for change in run.changes if len(change.sources) == 1)
    left = without_site(run, gone)
    assert all(gone not in change.sources for change in left.changes)
    wider = [change for change in left.changes if not change.sources]
    assert len(wider) <= sum(not change.sources for change in run.changes)


class Stingy(Steady):
    """Gives no credit after the first message."""

    def on_started(self, event: Started) -> None:
        super().on_started(event)
        self.outbox.append(Credit(1))


def test_a_source_that_starves_is_found_where_only_views_end() -> None:
    assert any(STARVED in run_seed(Stingy, seed).outcome.properties for seed in range(5))


def test_the_diagram_names_the_source_for_which_a_service_was_chosen() -> None:
    run = next(run for run in drawn(Steady, 100) if any(len(change.sources) == 1 for change in run.changes))
    change = next(change for change in run.changes if len(change.sources) == 1)
    shown = draw(run_scenario(run).table, width=250, rows_max=100_000)
    assert f"S {change.service} of {change.sources[0]}" in shown


def test_a_contract_without_services_draws_none() -> None:
    assert isinstance(Desk.contract, Contract)
    assert not any(choices(run) for run in drawn(Desk, 30))
