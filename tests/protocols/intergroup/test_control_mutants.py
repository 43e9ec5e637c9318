"""Whoever is up is counted, whatever the hierarchy goes through; and hierarchies that break this are caught."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from ordercast.core import Context, GroupId, InvariantViolation, SiteId
from ordercast.protocols.intergroup.control import Control, ControlOptions, GroupReport
from ordercast.protocols.intergroup.control.appropriateness import Appropriateness, of_child, of_coordinator
from ordercast.protocols.intergroup.control.determination import SelfDetermination
from ordercast.protocols.intergroup.control.hierarchy import Hierarchy
from ordercast.protocols.intergroup.control.local_group import LocalGroup
from ordercast.protocols.intergroup.control.report import ControlData, merge
from ordercast.protocols.intergroup.control.states import State
from ordercast.sim.faults import Loss, Partition
from tests.mutants.registry import break_part
from tests.protocols.intergroup.control_host import UNITS, ControlHost, Run, names, wide_area

SITES = names(18)
MERGED = 50.0
CRASHED = 100.0
SETTLED = 170.0
LOSS = 0.4
SEEDS = range(8)


class Watched(ControlHost):
    """For each site there is a group that everyone is in, and in which only that site stands still: when it is not
    counted, the acknowledgement of its group rises."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.passed_by: list[tuple[float, SiteId]] = []

    def local_report(self) -> Mapping[GroupId, GroupReport]:
        now = int(self.now * UNITS)
        return {site: GroupReport(1 if site == self.site else now, self.site, 1) for site in SITES}

    def on_system_report(self, group: GroupId, report: GroupReport) -> None:
        if report.timestamp > 1 and self.now > MERGED + 8.0:
            self.passed_by.append((self.now, group))


def complaints(seed: int, protocol: type[Watched] = Watched) -> list[str]:
    """Two hierarchies are merged: there are too many coordinators, and some leave. Then one crashes, and a child takes
    its place."""
    options = ControlOptions(coordinators_low=2, coordinators_high=3)
    faults = [
        Partition(from_=0.0, to=MERGED, parts=(SITES[::2],)),
        Loss(from_=MERGED + 8.0, to=CRASHED - 15.0, rate=LOSS),
    ]
    run = Run(wide_area(SITES), SITES, options, seconds=200.0, seed=seed, faults=faults, protocol=protocol)
    settled: list[int] = []
    crashed: list[SiteId] = []

    def crash() -> None:
        crashed.append(run.coordinators()[0])
        run.simulation.sites[crashed[0]].crash()

    run.at(CRASHED, crash).at(SETTLED, lambda: settled.append(run.changes()))
    try:
        run.execute()
    except InvariantViolation as violation:
        return [str(violation)]
    found = [
        f"{name} passes {group} by at {time:.2f}"
        for name, host in run.hosts().items()
        for time, group in cast(Watched, host).passed_by
        if group != crashed[0]
    ]
    if run.changes() != settled[0]:
        found.append("states still change")
    if not 2 <= len(run.coordinators()) <= 3:
        found.append(f"{len(run.coordinators())} coordinators")
    if protocol is Watched:
        assert run.branches["to-child"] > 0
        assert run.branches["moved"] > 0
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_is_passed_by_while_coordinators_leave_and_children_move_3_5(seed: int) -> None:
    assert complaints(seed) == []


# ---------------------------------------------------------------------- mutants
def leaves_before_its_children(self: Hierarchy) -> bool:
    """A coordinator becomes a child while it has children: they report to nobody, and nobody knows of it."""
    return True


def moves_at_once(self: Hierarchy, group: LocalGroup) -> None:
    """A child leaves its old coordinator before the new one has heard it."""
    if self.joined is not None and self.state is State.CHILD:
        self._bid_farewell(self.joined)
        self.joined = None
    self.approached = group
    self._control.enter(group)


def speaks_for_all_at_once(self: Control, own: LocalGroup) -> ControlData:
    """A coordinator speaks for the system before it has heard the others."""
    return merge((self._group_data(own), *self.hierarchy.coords.data()))


def leaves_as_printed(self: SelfDetermination) -> Appropriateness | None:
    """Table 2.2 as printed: a coordinator leaves unless there are fewer than the low threshold already."""
    hierarchy = self._control.hierarchy
    if hierarchy.state is State.COORDINATOR and hierarchy.own is not None:
        close = self._control.distances.to_close_coordinator() < self._options.coordinator_closeness_seconds
        return of_coordinator(self._options, hierarchy.num_coords + 1, len(hierarchy.own.locals), close)
    if hierarchy.state is State.CHILD and hierarchy.joined is not None:
        return of_child(self._options, hierarchy.joined.size, self.is_far())
    return None


MUTANTS: list[tuple[str, str, Callable[..., Any]]] = [
    ("hierarchy", "children_have_left", leaves_before_its_children),
    ("hierarchy", "_approach", moves_at_once),
    ("control", "_system_data", speaks_for_all_at_once),
    ("determination", "appropriateness", leaves_as_printed),
]


@pytest.mark.parametrize(("part", "method", "function"), MUTANTS, ids=[function.__name__ for _, _, function in MUTANTS])
def test_a_broken_hierarchy_is_caught(part: str, method: str, function: Callable[..., Any]) -> None:
    class Broken(Watched):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            broken = self.control if part == "control" else getattr(self.control, part)
            break_part(self, broken, method, function)

    assert any(complaints(seed, Broken) for seed in SEEDS)
