"""The shrinker: from a failing run to a small one that fails in the same way.

It tries to leave out faults, then sites and groups, then messages, then time, and keeps what still violates the same
property, until nothing more can go. What it returns is a scenario like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from ordercast.campaign.outcome import STARVED, UNANSWERED, Trial, run_scenario
from ordercast.check import CLAIMED, PROPERTIES, choose
from ordercast.core import GroupId, SiteId, UsageError
from ordercast.sim.change import Change
from ordercast.sim.faults import AnyFault, Cut, Delay, Duplication, Partition
from ordercast.sim.hunting_faults import BareQuorum
from ordercast.sim.network_table import WideAreaTable
from ordercast.sim.scenario import Scenario
from ordercast.sim.workload import Workload

EVENTS_MAX = 1_500_000
"""Events of all runs together, each run counted as two hundred more for its overhead: twenty seconds or so. What does
not go by then stays."""
_RUN_OVERHEAD = 200

SEEDS_TRIED = 3
"""To leave something out shifts every random choice after it: a candidate that passes may fail with the next seed."""

_LIVENESS = (
    "uniform-agreement",
    "agreement",
    "termination",
    "view-agreement",
    "view-termination",
    "recovery",
    "atomic-receipt",
    "selective-information",
    "no-silent-divergence",
    "offset-agreement",
    STARVED,
    UNANSWERED,
)
"""Properties that a run violates trivially when it ends too early."""

_ARRIVAL_SECONDS = 0.5
"""More than any network of a campaign takes."""

Item = TypeVar("Item")
Pass = Callable[[Scenario, str], Iterator[Scenario]]


def shrink(
    trial: Trial,
    *,
    property: str | None = None,  # noqa: A002
    events_max: int = EVENTS_MAX,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Trial:
    """A smaller trial that violates the same property (by default the first that the trial violates)."""
    search = _Search(trial, property or trial.outcome.violations[0].property, events_max, on_progress)
    passes: tuple[Pass, ...] = (
        _fewer_faults,
        _fewer_changes,
        _fewer_sites,
        _fewer_groups,
        _fewer_messages,
        _less_time,
        _simpler,
    )
    before = None
    while before is not search.best and not search.exhausted:
        before = search.best
        for make_candidates in passes:
            search.exhaust(make_candidates)
    return search.best


class _Search:
    """The smallest failing trial so far, and how many events it took to find it."""

    def __init__(self, trial: Trial, violated: str, events_max: int, on_progress: Callable[[int, int], None]) -> None:
        self.best = trial
        self._cost = _cost(trial.scenario)
        self._events = 0
        self._property = violated
        self._choice = choose([violated]) if violated in PROPERTIES else CLAIMED
        self._why = self._kind_of(trial)
        self._events_max = events_max
        self._on_progress = on_progress

    @property
    def exhausted(self) -> bool:
        """Whether no more runs are to be had."""
        return self._events >= self._events_max

    def exhaust(self, make_candidates: Pass) -> None:
        """Accept candidates as long as there are any that still fail."""
        progress = True
        while progress and not self.exhausted:
            progress = any(self._accept(each) for each in make_candidates(self.best.scenario, self._property))

    def _accept(self, candidate: Scenario) -> bool:
        cost = _cost(candidate)
        # Smaller in one respect and larger in none: whatever is accepted, the search ends.
        if cost == self._cost or any(new > old for new, old in zip(cost, self._cost, strict=True)):
            return False
        try:
            candidate.check()
        except UsageError:
            return False
        for seed in range(self.best.scenario.seed, self.best.scenario.seed + SEEDS_TRIED):
            if self.exhausted:
                return False
            trial = run_scenario(replace(candidate, seed=seed), self._choice)
            self._events += trial.outcome.events + _RUN_OVERHEAD
            self._on_progress(min(self._events, self._events_max), self._events_max)
            if self._fails_alike(trial):
                self.best, self._cost = trial, cost
                return True
        return False

    def _fails_alike(self, trial: Trial) -> bool:
        return self._property in trial.outcome.properties and self._kind_of(trial) == self._why

    def _kind_of(self, trial: Trial) -> str:
        """For a crash, which exception: another one would be another bug."""
        crashes = [each.why.partition(":")[0] for each in trial.outcome.violations if each.property == "crash"]
        return crashes[0] if crashes else ""


def _cost(scenario: Scenario) -> tuple[float, ...]:
    """How much there is in a scenario, in every respect in which it can shrink."""
    workloads = scenario.workloads
    return (
        len(scenario.faults),
        sum((scenario.duration if fault.to is None else fault.to) - fault.from_ for fault in scenario.faults),
        sum(len(change.sites) for change in scenario.changes),
        sum(len(change.sources) for change in scenario.changes),
        sum(bool(change.service or change.role) for change in scenario.changes if change.kind == "join"),
        _trouble_in_network(scenario),
        len(scenario.sites),
        sum(len(members) for members in scenario.groups.values()),
        sum((workload.count or 0) * len(workload.sources) for workload in workloads),
        sum(len(workload.groups) * (workload.choose or 1) for workload in workloads),
        sum(workload.size for workload in workloads),
        scenario.duration,
        scenario.settle,
        len(scenario.options),
        scenario.sync_seconds,
        not scenario.stable,
        scenario.checkpoint_records is not None,
    )


def _trouble_in_network(scenario: Scenario) -> float:
    """What a network does without any fault."""
    network = scenario.network
    return network.shared_loss + bool(network.hops) if isinstance(network, WideAreaTable) else 0.0


# ---------------------------------------------------------------------- faults
def _fewer_faults(scenario: Scenario, _property: str) -> Iterator[Scenario]:
    """Leave out halves of the faults, then quarters, …, then single ones."""
    for kept in _parts_left_out(scenario.faults):
        yield replace(scenario, faults=kept)


def _parts_left_out(items: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    size = len(items)
    while size >= 1:
        for start in range(0, len(items), size):
            yield (*items[:start], *items[start + size :])
        size //= 2


# ---------------------------------------------------------------------- changes
def _fewer_changes(scenario: Scenario, _property: str) -> Iterator[Scenario]:
    """Leave out halves of the changes, …, single ones, then single sites of one, then what one asks for in particular.
    A site that does not come is not there, unless it is one that was in a group."""
    for kept in _parts_left_out(scenario.changes):
        yield _without_strangers(replace(scenario, changes=kept))
    for place, change in enumerate(scenario.changes):
        for fewer in _smaller_changes(change):
            changes = (*scenario.changes[:place], fewer, *scenario.changes[place + 1 :])
            yield _without_strangers(replace(scenario, changes=changes))


def _smaller_changes(change: Change) -> Iterator[Change]:
    for gone in change.sites if len(change.sites) > 1 else ():
        yield replace(change, sites=tuple(site for site in change.sites if site != gone))
    if change.sources:
        yield replace(change, sources=())
    for gone in change.sources if len(change.sources) > 1 else ():
        yield replace(change, sources=tuple(site for site in change.sources if site != gone))
    if change.kind == "join" and (change.service or change.role):
        yield replace(change, service="", role="")


def _without_strangers(scenario: Scenario) -> Scenario:
    """What is said and done by or to sites that never begin is left out."""
    named = {site for fault in scenario.faults for site in fault.sites}
    named |= {site for workload in scenario.workloads for site in workload.sources}
    named |= {
        site
        for fault in scenario.faults
        if isinstance(fault, Partition | BareQuorum)
        for part in fault.parts
        for site in part
    }
    for stranger in sorted(named - set(scenario.sites)):
        scenario = without_site(scenario, stranger)
    return _consistent(scenario)


# ---------------------------------------------------------------------- sites and groups
def _fewer_sites(scenario: Scenario, _property: str) -> Iterator[Scenario]:
    for site in reversed(scenario.sites):
        yield without_site(scenario, site)
        # It may have to be there without being a member.
        groups = {group: tuple(s for s in members if s != site) for group, members in scenario.groups.items()}
        yield replace(
            scenario,
            groups={group: members for group, members in groups.items() if members},
            extra_sites=tuple(sorted({*scenario.extra_sites, site})),
        )


def without_site(scenario: Scenario, gone: SiteId) -> Scenario:
    """The scenario as if the site had never been; the network keeps its place, as a router."""

    def left(sites: tuple[SiteId, ...]) -> tuple[SiteId, ...]:
        return tuple(site for site in sites if site != gone)

    groups = {group: left(members) for group, members in scenario.groups.items()}
    groups = {group: members for group, members in groups.items() if members}
    faults = (_fault_without(fault, left) for fault in scenario.faults)
    workloads = (replace(workload, sources=left(workload.sources)) for workload in scenario.workloads)
    # A choice for one source would become one for everyone.
    changes = (
        replace(each, sites=left(each.sites), sources=left(each.sources))
        for each in scenario.changes
        if each.sources != (gone,)
    )
    return _consistent(
        replace(
            scenario,
            groups=groups,
            extra_sites=left(scenario.extra_sites),
            faults=tuple(fault for fault in faults if fault is not None),
            changes=tuple(change for change in changes if change.sites),
            workloads=tuple(workload for workload in workloads if workload.sources),
        )
    )


def _fault_without(fault: AnyFault, left: Callable[[tuple[SiteId, ...]], tuple[SiteId, ...]]) -> AnyFault | None:
    """The fault for the sites that are left; None when it concerned only the one that is gone."""
    if fault.sites:
        if not left(fault.sites):
            return None
        fault = replace(fault, sites=left(fault.sites))
    if isinstance(fault, Cut):
        return replace(fault, peers=left(fault.peers)) if left(fault.peers) else None
    if isinstance(fault, Partition):
        parts = tuple(left(part) for part in fault.parts if left(part))
        return replace(fault, parts=parts) if parts else None
    if isinstance(fault, BareQuorum):
        return replace(fault, parts=tuple(left(part) for part in fault.parts if left(part)))
    return fault


def _fewer_groups(scenario: Scenario, _property: str) -> Iterator[Scenario]:
    for gone in reversed(scenario.groups):
        groups = {group: members for group, members in scenario.groups.items() if group != gone}
        changes = tuple(change for change in scenario.changes if change.group != gone)
        extra = tuple(site for site in scenario.sites if site not in scenario.late_sites)
        yield _consistent(replace(scenario, groups=groups, changes=changes, extra_sites=extra))


def _consistent(scenario: Scenario) -> Scenario:
    """Workloads that multicast only to groups that exist, and only as many at once as there are; changes likewise."""
    workloads = []
    changes = tuple(change for change in scenario.changes if change.group in scenario.all_groups)
    scenario = replace(scenario, changes=changes)
    for workload in scenario.workloads:
        groups = tuple(group for group in workload.groups if group in scenario.all_groups)
        if groups or workload.destinations is not None:
            workloads.append(_to_groups(workload, groups))
    members = {site for group in scenario.groups.values() for site in group}
    extra = tuple(site for site in scenario.extra_sites if site not in members)
    return replace(scenario, workloads=tuple(workloads), extra_sites=extra)


# ---------------------------------------------------------------------- messages
def _fewer_messages(scenario: Scenario, _property: str) -> Iterator[Scenario]:
    for place, workload in enumerate(scenario.workloads):
        for smaller in _smaller_workloads(workload):
            workloads = list(scenario.workloads)
            workloads[place : place + 1] = smaller
            yield replace(scenario, workloads=tuple(workloads))


def _smaller_workloads(workload: Workload) -> Iterator[list[Workload]]:
    yield []
    count = workload.count
    if count is not None and count > 1:
        for fewer in sorted({1, count // 4, count // 2, 3 * count // 4, count - 1} - {0}):
            yield [replace(workload, count=fewer)]
            # The same rate over less time, at the end instead of the beginning.
            yield [replace(workload, count=fewer, start=round(workload.start + (count - fewer) / workload.rate, 2))]
    for source in workload.sources if len(workload.sources) > 1 else ():
        yield [replace(workload, sources=tuple(site for site in workload.sources if site != source))]
    for gone in workload.groups if len(workload.groups) > 1 else ():
        yield [_to_groups(workload, tuple(group for group in workload.groups if group != gone))]
    if workload.choose is not None and workload.choose > 1:
        yield [replace(workload, choose=workload.choose - 1)]


def _to_groups(workload: Workload, groups: tuple[GroupId, ...]) -> Workload:
    """The workload to these groups, and only to as many at once as there are."""
    choose = None if workload.choose is None else min(workload.choose, len(groups))
    return replace(workload, groups=groups, choose=choose)


# ---------------------------------------------------------------------- time
def _less_time(scenario: Scenario, violated: str) -> Iterator[Scenario]:
    """Shorter runs; but the time to settle stays long enough for a protocol that is right.

    What is under way at the heal must arrive in any case: a network multicast that nobody has received or lost by the
    end of the run looks as if nobody had been meant to get it.
    """
    delays = [fault.seconds for fault in scenario.faults if isinstance(fault, Delay | Duplication)]
    patience = scenario.protocol.arrangement.campaign.settle if violated in _LIVENESS else _ARRIVAL_SECONDS
    settle = round(max(delays, default=0.0) + patience, 3)
    if settle < scenario.settle:
        yield replace(scenario, settle=settle)
    for share in (0.25, 0.5, 0.75, 0.9):
        duration = round(share * scenario.duration, 2)
        if duration > 0.1:
            yield _cut_off(scenario, duration)
    for place, fault in enumerate(scenario.faults):
        end = scenario.duration if fault.to is None else fault.to
        middle = round((fault.from_ + end) / 2, 3)
        if end - fault.from_ > 0.05:
            for shorter in (replace(fault, to=middle), replace(fault, from_=middle)):
                faults = list(scenario.faults)
                faults[place] = shorter
                yield replace(scenario, faults=tuple(faults))


def _cut_off(scenario: Scenario, duration: float) -> Scenario:
    return replace(
        scenario,
        duration=duration,
        faults=tuple(
            fault if fault.to is None or fault.to < duration else replace(fault, to=None)
            for fault in scenario.faults
            if fault.from_ < duration
        ),
        changes=tuple(change for change in scenario.changes if change.at < duration),
        workloads=tuple(workload for workload in scenario.workloads if workload.start < duration),
    )


# ---------------------------------------------------------------------- what a reader need not think about
def _simpler(scenario: Scenario, _property: str) -> Iterator[Scenario]:
    """Defaults instead of random values, where they do as well. Nothing may grow, so this ends."""
    for name in scenario.options:
        yield replace(scenario, options={key: value for key, value in scenario.options.items() if key != name})
    if scenario.sync_seconds:
        yield replace(scenario, sync_seconds=0.0)
    if not scenario.stable:
        yield replace(scenario, stable=True)
    if scenario.checkpoint_records is not None:
        yield replace(scenario, checkpoint_records=None)
    network = scenario.network
    if isinstance(network, WideAreaTable) and _trouble_in_network(scenario):
        yield replace(scenario, network=replace(network, shared_loss=0.0))
        yield replace(scenario, network=replace(network, hops=None))
    for place, workload in enumerate(scenario.workloads):
        if workload.size:
            workloads = list(scenario.workloads)
            workloads[place] = replace(workload, size=0)
            yield replace(scenario, workloads=tuple(workloads))
