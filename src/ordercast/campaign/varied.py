"""Variations of the ordinary run: checkpoints every few records, no log at all, a group of one, a thousand messages,
processes that come back as strangers, sites that fail with a tail of deliveries that is theirs alone.

Each befalls a share of the seeds, decided and drawn by a stream of its own, so that all other runs are as they would be
without.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from msgspec.structs import replace

from ordercast.core import GroupId, SiteId, UsageError, log_uniform, random_stream
from ordercast.sim.faults import AnyFault, Crash, Cut, Partition, Pause
from ordercast.sim.memory_faults import MemoryFault
from ordercast.sim.scenario import Scenario, needs_log
from ordercast.sim.workload import Workload

CHECKPOINT_SHARE: Final = 1 / 6
CHECKPOINT_RECORDS: Final = (3, 3, 5, 16, 64)
"""A run of fifty messages writes some hundred records at a site; of the usual 512 nothing would ever be summed up."""
NO_LOG_SHARE: Final = 1 / 20
GROUP_OF_ONE_SHARE: Final = 1 / 16
GROUP_OF_ONE: Final = "o"
LONG_SHARE: Final = 1 / 96
LONG_MESSAGES: Final = 1_100
"""Beyond every bound and batch of less than a thousand."""
LONG_SETTLE_SECONDS: Final = 100.0
"""More to settle: with a window of one message, a thousand of them take that long."""
RETURN_SHARE: Final = 1 / 3
TAIL_SHARE: Final = 1 / 3
TAIL_PROPERTIES: Final = frozenset({"R2", "R3"})
"""They make an exception for the last deliveries of a site that fails."""

Vary = Callable[[Scenario, tuple[SiteId, ...], Random], Scenario]


def vary(scenario: Scenario, fragile: tuple[SiteId, ...], attempt: int) -> Scenario:
    """The scenario with the variations of its seed; `fragile` are the sites to which something may happen."""
    name = scenario.protocol.contract.name
    for what, (share, change) in _VARIATIONS.items():
        if random_stream(scenario.seed, "variation", what, name).random() < share:
            varied = change(scenario, fragile, random_stream(scenario.seed, "variation", what, name, attempt))
            scenario = varied if _makes_sense(varied) else scenario
    return scenario


def _with_checkpoints(scenario: Scenario, _fragile: tuple[SiteId, ...], random: Random) -> Scenario:
    """Only where there is something to sum up."""
    if not scenario.protocol.records:
        return scenario
    return replace(scenario, checkpoint_records=random.choice(CHECKPOINT_RECORDS))


def _without_log(scenario: Scenario, _fragile: tuple[SiteId, ...], _random: Random) -> Scenario:
    """Then nobody who crashes may come back."""
    faults = tuple(fault for fault in scenario.faults if not needs_log(fault))
    if not faults or any(isinstance(fault, MemoryFault) for fault in scenario.faults):
        return scenario
    return replace(scenario, stable=False, checkpoint_records=None, faults=faults)


def _with_group_of_one(scenario: Scenario, fragile: tuple[SiteId, ...], random: Random) -> Scenario:
    """One of the sites that are sure to be there in the end."""
    if not fragile:
        return scenario
    groups = {**scenario.groups, GROUP_OF_ONE: (random.choice(fragile),)}
    if not _majorities_live(scenario, groups):
        return scenario
    first, *others = scenario.workloads
    if scenario.protocol.contract.single_source:
        workloads: tuple[Workload, ...] = (*scenario.workloads, replace(first, groups=(GROUP_OF_ONE,)))
    else:
        to_groups: tuple[GroupId, ...] = (*first.groups, GROUP_OF_ONE)
        workloads = (replace(first, groups=to_groups), *others)
    members = {site for group in groups.values() for site in group}
    outside = tuple(site for site in scenario.extra_sites if site not in members)
    return replace(scenario, groups=groups, extra_sites=outside, workloads=workloads)


def _majorities_live(scenario: Scenario, groups: dict[GroupId, tuple[SiteId, ...]]) -> bool:
    """Where a protocol needs a majority of each part: a new group may divide a part, and more than half of what is left
    may die."""
    majorities = scenario.protocol.arrangement.campaign.majorities
    dying = {site for fault in scenario.faults if getattr(fault, "forever", False) for site in fault.sites}
    return majorities is None or all(2 * len(dying & set(part)) < len(part) for part in majorities(groups))


def _made_long(scenario: Scenario, _fragile: tuple[SiteId, ...], _random: Random) -> Scenario:
    """The first workload with a thousand small messages, in the same time."""
    options = {**scenario.options, **scenario.protocol.arrangement.campaign.long}
    first, *others = scenario.workloads
    count = -(-LONG_MESSAGES // len(first.sources))
    rate = round(1.2 * count / scenario.duration, 3)
    workloads = (replace(first, count=count, rate=rate, size=10), *others)
    return replace(scenario, workloads=workloads, options=options, settle=scenario.settle + LONG_SETTLE_SECONDS)


def _with_return(scenario: Scenario, _fragile: tuple[SiteId, ...], random: Random) -> Scenario:
    """Somebody whose crash the others survive comes back, although the protocol has nothing to bring it back with: to
    them it is a stranger."""
    contract = scenario.contract
    dying = [fault for fault in scenario.faults if isinstance(fault, Crash) and fault.forever]
    if "crash" in contract.faults or contract.successive_deaths or not dying:
        return scenario
    back = random.choice(dying)
    end = round(min(back.from_ + random.uniform(0.5, 0.4 * scenario.duration), 0.95 * scenario.duration), 3)
    returning = replace(back, to=end, forever=False)
    return replace(scenario, faults=tuple(returning if fault is back else fault for fault in scenario.faults))


def _with_tail(scenario: Scenario, fragile: tuple[SiteId, ...], random: Random) -> Scenario:
    """From a moment before it fails nobody hears a site that orders a group, while others multicast to that: what it
    delivers then, nobody else has, and it comes again from its sources, in an order of its own. (Random faults hardly
    ever bring that about: what is on its way when a site crashes still arrives.)"""
    contract, orders = scenario.contract, scenario.protocol.arrangement.campaign.orders
    if orders is None or TAIL_PROPERTIES.isdisjoint(contract.guarantees):
        return scenario
    heads = orders(scenario.groups, scenario.options)
    chosen = [group for group, site in sorted(heads.items()) if site in scenario.groups[group]]
    if not chosen:
        return scenario  # all of them come later
    group = random.choice(chosen)
    failing = heads[group]
    others = [site for site in scenario.sites if site != failing]
    # With them it is no majority, which would go on as it was.
    along = random.sample(others, random.randint(0, max(0, len(others) // 2 - 1)))
    deaf = [site for site in others if site not in along] if random.random() < 0.25 else others
    begin = random.uniform(0.1, 0.4) * scenario.duration
    ahead = log_uniform(random, 0.05, 0.25)  # shorter than most leases, without which it delivers nothing
    # Longer than the others wait until they go on without it.
    end = begin + ahead + log_uniform(random, 1.5, 0.45 * scenario.duration)
    cut_off, back = round(begin + ahead, 4), round(end, 4)
    kinds: list[AnyFault] = [Partition(from_=cut_off, to=back, parts=(tuple(sorted((failing, *along))),))]
    if failing in fragile and "crash" in contract.faults:
        kinds.append(Crash(from_=cut_off, to=back, sites=(failing,)))
    if failing in fragile and "pause" in contract.faults:
        kinds.append(Pause(from_=cut_off, to=back, sites=(failing,)))
    cut = Cut(from_=round(begin, 4), to=back, sites=(failing,), peers=tuple(deaf))
    sources = [site for site in others if site not in scenario.late_sites]
    # Of two sources at least, in turns: when each submits all of its own again, they come otherwise.
    bursts = tuple(
        Workload(
            sources=(source,),
            groups=(group,),
            count=(count := random.randint(2, 6)),
            rate=round(count / (0.6 * ahead), 3),
            arrivals="regular",
            start=round(begin + random.uniform(0.0, 0.2 * ahead), 4),
        )
        for source in random.sample(sources, min(random.randint(2, 3), len(sources)))
    )
    # In half of these runs nothing else is wrong, for who is out already has no tail.
    faults = (*(scenario.faults if random.random() < 0.5 else ()), cut, random.choice(kinds))
    return replace(scenario, faults=faults, workloads=(*scenario.workloads, *bursts))


_VARIATIONS: Final[dict[str, tuple[float, Vary]]] = {
    "checkpoints": (CHECKPOINT_SHARE, _with_checkpoints),
    "no log": (NO_LOG_SHARE, _without_log),
    "group of one": (GROUP_OF_ONE_SHARE, _with_group_of_one),
    "long": (LONG_SHARE, _made_long),
    "return": (RETURN_SHARE, _with_return),
    "tail": (TAIL_SHARE, _with_tail),
}


def _makes_sense(scenario: Scenario) -> bool:
    try:
        scenario.check()
    except UsageError:
        return False
    return True
