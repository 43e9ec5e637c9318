"""Control processes by the dozen in simulated wide-area networks (chapter 2)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from ordercast.core import SiteId
from ordercast.protocols.intergroup.control import ControlOptions
from ordercast.protocols.intergroup.control.states import State
from ordercast.sim.fault import Fault
from ordercast.sim.faults import Crash, Loss, Partition, Pause, Skew
from tests.protocols.intergroup.control_host import UNITS, Run, names, wide_area

STABLE = {State.COORDINATOR, State.CHILD}


def options_for(count: int) -> ControlOptions:
    """Local groups of about sixteen, and twice as many coordinators as that takes at the most."""
    return ControlOptions(
        coordinators_low=max(1, count // 40), coordinators_high=max(3, count // 8), target_bandwidth=10_000.0
    )


def is_whole(run: Run) -> None:
    """Everyone is a coordinator, or the child of one that knows it; and they are as many as they should be."""
    controls = run.controls()
    assert set(run.states()) <= STABLE, run.states()
    options = next(iter(controls.values())).options
    coordinators = run.coordinators()
    assert options.coordinators_low <= len(coordinators) <= options.coordinators_high
    for name, control in controls.items():
        if control.state is State.CHILD:
            own = controls[control.coordinator].hierarchy.own
            assert own is not None, f"{control.coordinator} is no coordinator"
            assert name in own.locals
        else:
            assert set(control.hierarchy.coords.entries) == set(coordinators) - {name}


# ---------------------------------------------------------------------- a stable network
@pytest.mark.parametrize(
    ("count", "regions", "hops", "far"), [(10, 1, 1, 0.002), (10, 5, 20, 0.05), (50, 5, 20, 0.02), (200, 5, 16, 0.05)]
)
def test_coordinators_are_within_the_thresholds_and_nobody_changes_any_more(
    count: int, regions: int, hops: int, far: float
) -> None:
    sites = names(count)
    run = Run(wide_area(sites, regions, hops=hops, far=far, jitter=0.001), sites, options_for(count), seconds=120.0)
    settled: list[int] = []
    run.at(60.0, lambda: is_whole(run)).at(60.0, lambda: settled.append(run.changes()))
    run.execute()
    is_whole(run)
    assert run.changes() == settled[0]


def test_far_regions_get_coordinators_of_their_own_2_5() -> None:
    """Fifty sites in two regions that are twenty hops from each other, with local groups of five: whoever starts far
    away does not stay there."""
    sites = names(50)
    options = ControlOptions(coordinators_low=1, coordinators_high=4, local_target_size=5)
    run = Run(wide_area(sites, 2, hops=20, far=0.05), sites, options, seconds=120.0, seed=3).execute()
    is_whole(run)
    assert not any(control.determination.is_far() for control in run.controls().values())


def test_more_far_regions_than_coordinators_may_be_come_to_rest_table_2_3() -> None:
    """Six regions, four coordinators, local groups above their target: by the printed "always", children would become
    coordinators, and coordinators children, for ever."""
    sites = names(48)
    options = ControlOptions(coordinators_low=1, coordinators_high=4, local_target_size=4)
    run = Run(wide_area(sites, 6, hops=20, far=0.05), sites, options, seconds=200.0)
    settled: list[int] = []
    run.at(120.0, lambda: settled.append(run.changes())).execute()
    is_whole(run)
    assert run.changes() == settled[0]


def test_distances_are_within_a_tenth_of_the_truth_2_4() -> None:
    sites = names(24)
    network = wide_area(sites, 3, near=0.004, far=0.05, jitter=0.002)
    faults = [Skew(from_=0.0, sites=sites[::3], jump=123.0), Skew(from_=20.0, sites=sites[1::3], jump=-7.0)]
    run = Run(network, sites, ControlOptions(coordinators_high=6), seconds=60.0, faults=faults).execute()
    controls = run.controls()
    checked = 0
    for name, control in controls.items():
        for group in control.hierarchy.local_groups():
            for entry in (*group.locals, group.head):
                if entry.distance is not None:
                    checked += 1
                    same = sites.index(entry.site) % 3 == sites.index(name) % 3
                    truth = 0.005 if same else 0.051
                    assert control.distance(entry.site) == pytest.approx(truth, rel=0.1, abs=0.001)
    assert checked > 24
    far = max(control.distance_max() for control in controls.values())
    assert far == pytest.approx(0.056, rel=0.1), "from a child to its coordinator nearby and on to another one"


def test_what_a_site_hears_keeps_to_the_bandwidth_however_many_there_are_2_3() -> None:
    def heard(count: int) -> float:
        sites = names(count)
        options = ControlOptions(coordinators_low=1, coordinators_high=3, target_bandwidth=4000.0)
        run = Run(wide_area(sites), sites, options, seconds=90.0)
        before: list[int] = []
        run.at(30.0, lambda: before.append(run.bytes_received())).execute()
        return (run.bytes_received() - before[0]) / count / 60.0

    assert heard(25) < 1.3 * 4000
    assert heard(100) < 1.3 * 4000


def test_the_pace_of_a_small_group_is_the_minimum_2_3() -> None:
    sites = names(6)
    run = Run(wide_area(sites), sites, ControlOptions(control_seconds_min=0.1), seconds=40.0).execute()
    for control in run.controls().values():
        assert control.local_pace.usual_seconds == pytest.approx(0.1, rel=0.2)
        assert 0.3 < control.round_seconds() < 1.0


# ---------------------------------------------------------------------- the system acknowledgement (3.5)
def test_every_site_learns_what_all_have_within_a_round_3_5() -> None:
    sites = names(30)
    run = Run(wide_area(sites, 3), sites, ControlOptions(coordinators_high=5), seconds=60.0).execute()
    for host in run.hosts().values():
        time, report = host.system[-1]
        assert report.receivers == 30
        age = time - report.timestamp / UNITS
        assert 0 < age <= host.control.round_seconds() + 0.5


def test_the_system_acknowledgement_names_who_holds_it_back_3_5() -> None:
    sites = names(30)
    run = Run(wide_area(sites, 3), sites, ControlOptions(coordinators_high=5), seconds=60.0)

    def hold() -> None:
        run.hosts()["s07"].held_at = 1234

    run.at(30.0, hold).execute()
    for host in run.hosts().values():
        assert host.system[-1][1].timestamp == 1234
        assert host.system[-1][1].holder == "s07"


@pytest.mark.parametrize("seed", range(4))
def test_whoever_moves_is_counted_all_the_time_3_5(seed: int) -> None:
    """A third of the coordinators crash, and all others move about; the acknowledgement of a site that stands still is
    never passed by, at any site, as long as that one is up."""
    sites = names(40)
    options = ControlOptions(coordinators_low=2, coordinators_high=10, local_target_size=4)
    run = Run(wide_area(sites, 4, hops=20, far=0.02), sites, options, seconds=150.0, seed=seed)
    held: list[SiteId] = []

    def hold() -> None:
        child = next(name for name, control in run.controls().items() if control.state is State.CHILD)
        run.hosts()[child].held_at = 2
        held.append(child)

    def crash() -> None:
        coordinator = run.controls()[held[0]].coordinator
        others = [name for name in run.coordinators() if name != coordinator][:2]
        for name in (coordinator, *others):
            run.simulation.sites[name].crash()
        for host in run.hosts().values():
            host.system = host.system[-1:]

    run.at(30.0, hold).at(50.0, crash).execute()
    for name, host in run.hosts().items():
        assert all(report.timestamp <= 2 for _, report in host.system), (name, host.system)
        assert host.system[-1][1].receivers == 37


# ---------------------------------------------------------------------- faults (2.6.3)
def crash_some(run: Run, share: float) -> Callable[[], None]:
    def crash() -> None:
        coordinators = run.coordinators()
        for name in Random(0).sample(coordinators, max(1, round(share * len(coordinators)))):
            run.simulation.sites[name].crash()

    return crash


@pytest.mark.parametrize(("count", "regions", "hops"), [(12, 1, 1), (50, 5, 20), (80, 5, 16)])
def test_the_hierarchy_heals_when_a_third_of_the_coordinators_crash_2_6_3(count: int, regions: int, hops: int) -> None:
    sites = names(count)
    run = Run(wide_area(sites, regions, hops=hops), sites, options_for(count), seconds=180.0)
    run.at(60.0, crash_some(run, 0.3)).execute()
    is_whole(run)
    assert run.branches["lost-coordinator"] > 0


def test_it_heals_when_every_coordinator_crashes_2_6_3() -> None:
    sites = names(20)
    run = Run(wide_area(sites), sites, options_for(20), seconds=150.0)
    run.at(60.0, crash_some(run, 1.0)).execute()
    is_whole(run)


def test_a_site_that_comes_back_with_nothing_finds_its_place_again() -> None:
    sites = names(20)
    faults = [Crash(from_=40.0 + number, to=60.0 + number, sites=(site,)) for number, site in enumerate(sites[:8])]
    run = Run(wide_area(sites), sites, options_for(20), seconds=150.0, faults=faults).execute()
    assert len(run.hosts()) == 20
    is_whole(run)


@pytest.mark.parametrize("hops", [1, 20])
def test_a_partition_has_a_hierarchy_on_both_sides_and_a_merge_has_one_2_6_3(hops: int) -> None:
    sites = names(45)
    one, other = sites[:15], sites[15:]
    options = ControlOptions(coordinators_low=2, coordinators_high=6)
    faults: list[Fault] = [Partition(from_=60.0, to=160.0, parts=(one, other))]
    run = Run(wide_area(sites, 3, hops=hops), sites, options, seconds=300.0, faults=faults)

    def look() -> None:
        for side in (one, other):
            controls = {site: run.controls()[site] for site in side}
            assert all(control.coordinator in side for control in controls.values())
            assert sum(control.state is State.COORDINATOR for control in controls.values()) >= 2

    run.at(159.0, look).execute()
    is_whole(run)


def test_a_site_that_is_cut_off_coordinates_itself_and_comes_back_as_a_child() -> None:
    sites = names(20)
    run = Run(
        wide_area(sites),
        sites,
        ControlOptions(coordinators_low=2, coordinators_high=8),
        seconds=200.0,
        faults=[Partition(from_=60.0, to=120.0, parts=(sites[:1],))],
    )
    alone: list[State] = []
    run.at(119.0, lambda: alone.append(run.controls()[sites[0]].state)).execute()
    assert alone == [State.COORDINATOR]
    is_whole(run)


def test_loss_pauses_and_set_clocks_leave_a_hierarchy_that_is_whole_when_they_end() -> None:
    sites = names(30)
    faults: list[Fault] = [
        Loss(from_=20.0, to=120.0, rate=0.3),
        *(Pause(from_=30.0 + 3 * number, to=45.0 + 3 * number, sites=(site,)) for number, site in enumerate(sites[:9])),
        *(Skew(from_=40.0 + number, sites=(site,), jump=20.0 - 5 * number) for number, site in enumerate(sites[9:18])),
    ]
    run = Run(wide_area(sites, 3), sites, options_for(30), seconds=220.0, faults=faults).execute()
    is_whole(run)
