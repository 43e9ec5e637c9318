"""Rare faults: one run of eight has one of them, drawn by a stream of their own, so that all other runs are as they
would be without.

A site that is away for long, and packets from nowhere, are faults like any other. A site that comes back without its
history, or with another configuration, is to be refused: the run around it is arranged so that those who relied on what
was lost can be heard when it comes back, which is what the contract asks for.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from ordercast.core import Protocol, SiteId, UsageError, log_uniform, random_stream
from ordercast.core.memory import ROLL_CALL_SECONDS
from ordercast.sim.faults import AnyFault, Away, Foreign
from ordercast.sim.memory_faults import Drift, LostLog, Rollback
from ordercast.sim.scenario import Scenario
from ordercast.sim.workload import Workload

SHARE: Final = 1 / 8
"""Of the runs."""

RARE_KINDS: Final = ("away", "foreign", "rollback", "lost-log", "drift")

ATTEMPTS_MAX: Final = 4
"""After so many attempts at a run that proves something it has no rare fault: nobody ever hears of the log of a site
that says nothing (a destination of `fan-1`), so nobody relies on it."""

_HARMLESS: Final = ("loss", "duplication", "skew", "slow-reader")
"""Faults under which greetings still come through within a roll call."""

_AFTERMATH_SECONDS: Final = ROLL_CALL_SECONDS + 0.5
"""So long may a fault be felt when it is over: a roll call, or routes that have to be found again."""

_ABSENCE_SIZE: Final = 1000
"""Bytes of each message that a site misses while it is away."""

_BOUNDS_BYTES: Final = (4000, 16000, 64000, 1 << 18)
"""What the others may keep for somebody, the smallest that makes sense to the protocol."""


def add_rare_fault(scenario: Scenario, fragile: tuple[SiteId, ...], attempt: int) -> Scenario:
    """The scenario, in one seed of eight with a rare fault; `fragile` are the sites to which something may happen."""
    protocol = scenario.protocol
    name = protocol.contract.name
    decides = random_stream(scenario.seed, "rare fault", name)
    kinds = _kinds_of(protocol)
    if not kinds or not fragile or attempt >= ATTEMPTS_MAX or decides.random() >= SHARE:
        return scenario
    kind = decides.choice(kinds)
    random = random_stream(scenario.seed, "rare fault", name, kind, attempt)
    if kind == "foreign":
        return _with_foreign(scenario, random)
    site = random.choice(fragile)
    if kind == "away":
        return _with_absence(scenario, site, random)
    return _with_lost_memory(scenario, kind, site, random)


def _kinds_of(protocol: type[Protocol]) -> tuple[str, ...]:
    """What can be drawn for a protocol: what its contract admits, and what every protocol with a log must refuse."""
    contract = protocol.contract
    kinds = set(contract.faults) & set(RARE_KINDS)
    if protocol.records:
        kinds |= {"rollback", "lost-log"} | ({"drift"} if contract.options.shared else set())
    return tuple(kind for kind in RARE_KINDS if kind in kinds)


# ---------------------------------------------------------------------- what contracts admit
def _with_foreign(scenario: Scenario, random: Random) -> Scenario:
    begin = round(random.uniform(0.0, 0.5) * scenario.duration, 3)
    sites = tuple(sorted(random.sample(scenario.sites, random.randint(1, len(scenario.sites)))))
    rate = round(log_uniform(random, 2.0, 50.0), 1)
    fault = Foreign(from_=begin, to=round(begin + 0.4 * scenario.duration, 3), sites=sites, rate=rate)
    return _with(scenario, (*scenario.faults, fault))


def _with_absence(scenario: Scenario, site: SiteId, random: Random) -> Scenario:
    """A site is away for half of the run, while the others multicast more than anybody may keep for it."""
    begin = round(random.uniform(0.15, 0.3) * scenario.duration, 3)
    end = round(random.uniform(0.6, 0.8) * scenario.duration, 3)
    faults = [fault for fault in scenario.faults if site not in fault.sites]
    away = _with(scenario, (*faults, Away(from_=begin, to=end, sites=(site,))))
    sources = tuple(source for source in scenario.workloads[0].sources if source != site)
    if not sources:
        return away
    for bound in _BOUNDS_BYTES:
        options = {name: bound for name in scenario.protocol.contract.options.__struct_fields__ if _is_bound(name)}
        workload = _beyond(scenario.workloads[0], sources, bound if options else _BOUNDS_BYTES[0], begin, end)
        candidate = msgspec.structs.replace(
            away, options={**away.options, **options}, workloads=(*away.workloads, workload)
        )
        if _makes_sense(candidate):
            return candidate
    return away


def _is_bound(option: str) -> bool:
    return option.endswith("_bytes_max")


def _beyond(like: Workload, sources: tuple[SiteId, ...], bound: int, begin: float, end: float) -> Workload:
    """Half as much again as the bound, within the first half of the absence."""
    count = max(2, -(-3 * bound // (2 * _ABSENCE_SIZE * len(sources))))
    rate = round(count / ((end - begin) / 2), 3)
    return msgspec.structs.replace(
        like, sources=sources, count=count, rate=rate, start=begin, size=_ABSENCE_SIZE, arrivals="regular"
    )


# ---------------------------------------------------------------------- what must be refused
def _with_lost_memory(scenario: Scenario, kind: str, site: SiteId, random: Random) -> Scenario:
    begin = round(random.uniform(0.3, 0.5) * scenario.duration, 3)
    end = round(begin + random.uniform(0.2, 0.15 * scenario.duration), 3)
    fault = _draw_lost_memory(scenario, kind, site, begin, end, random)
    if fault is None:
        return scenario
    kept = [each for each in scenario.faults if not _disturbs(each, site, end)]
    return _with(scenario, (*kept, fault))


def _draw_lost_memory(
    scenario: Scenario, kind: str, site: SiteId, begin: float, end: float, random: Random
) -> AnyFault | None:
    if kind == "rollback":
        return Rollback(from_=begin, to=end, sites=(site,))
    if kind == "lost-log":
        repair = random.random() < 0.7 and _is_repairable(scenario)
        return LostLog(from_=begin, to=end, sites=(site,), repair=repair)
    shared = sorted(scenario.protocol.contract.options.shared)
    random.shuffle(shared)
    for name in shared:
        for value in _other_values(scenario, name, random):
            fault = Drift(from_=begin, to=end, sites=(site,), options={name: value})
            if _makes_sense(_with(scenario, (fault,))):
                return fault
    return None


def _is_repairable(scenario: Scenario) -> bool:
    """Whether the others can give a site everything back: two at least, none of whom dies."""
    protocol = scenario.protocol
    leavers = {site for change in scenario.changes if change.kind == "leave" for site in change.sites}
    if not protocol.contract.repairs or len(set(scenario.sites) - scenario.late_sites - leavers) < 3:
        return False
    dies = any(getattr(fault, "forever", False) for fault in scenario.faults)
    return not dies and protocol.arrangement.campaign.repairable(scenario.options, scenario.groups)


def _other_values(scenario: Scenario, option: str, random: Random) -> list[Any]:
    """Some that an operator may have written instead; not all of them need make sense."""
    value = getattr(scenario.protocol_options(), option)
    hint = get_type_hints(type(scenario.protocol_options()))[option]
    if get_origin(hint) is Literal:
        return [other for other in get_args(hint) if other != value]
    if isinstance(value, bool):
        return [not value]
    if value is None or isinstance(value, int | float):
        return [(value or 0) + 1]
    others = [name for name in scenario.sites if name != value]
    random.shuffle(others)
    return others if isinstance(value, str) else [names for names in (others[:1], others) if set(names) != set(value)]


def _disturbs(fault: AnyFault, site: SiteId, end: float) -> bool:
    """Whether a fault keeps somebody from being heard when the site comes back, or befalls the site itself."""
    if fault.kind in _HARMLESS:
        return False
    if site in fault.sites and fault.kind in ("crash", "torn-log", "pause"):
        return True
    over = fault.to is not None and fault.to + _AFTERMATH_SECONDS < end and not getattr(fault, "forever", False)
    return not over and fault.from_ < end + _AFTERMATH_SECONDS


# ---------------------------------------------------------------------- scenarios
def _with(scenario: Scenario, faults: tuple[AnyFault, ...]) -> Scenario:
    return msgspec.structs.replace(scenario, faults=faults)


def _makes_sense(scenario: Scenario) -> bool:
    try:
        scenario.check()
    except UsageError:
        return False
    return True
