"""Services and roles: who receives with which service in which group, and who asks for another one while messages and
faults are under way.

Drawn by a stream of their own, for protocols whose contract has services or roles: receivers with different services
in one group, a receiver with different services in its groups, single sources, two choices right after each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import msgspec

from ordercast.core import GroupId, SiteId, UsageError, log_uniform, random_stream
from ordercast.sim.change import Change
from ordercast.sim.scenario import Scenario

DEFAULT_SHARE: Final = 1 / 4
"""Of the groups, in which everyone begins with what the protocol gives."""
UNIFORM_SHARE: Final = 1 / 4
"""Of the groups, in which everyone begins with the same service; in the others each chooses for itself."""
SWITCHES_MAX: Final = 6
ROLE_SWITCHES_MAX: Final = 3
SOURCES_SHARE: Final = 0.4
"""Of the choices, which are for the messages of some sources only."""
AGAIN_SHARE: Final = 0.3
"""Of the choices, after which the same site soon makes another one."""
PERSISTENT_SHARE: Final = 1 / 2
"""Of the runs, in which some say the same again and again, each time of other sources: applications that ask for what
they miss."""
REPETITIONS_MAX: Final = 5
END: Final = 0.8
"""The share of the run after which nobody chooses: that has to come about under faults, too."""


def add_services(scenario: Scenario, attempt: int) -> Scenario:
    """The scenario with what applications choose, where there is something to choose."""
    contract = scenario.contract
    if not contract.services and not contract.roles:
        return scenario
    random = random_stream(scenario.seed, "services", contract.name, attempt)
    services, roles = tuple(contract.services), contract.roles
    choices = _Choices(scenario, random)
    changes = [_with_wishes(change, services, roles, random) for change in scenario.changes]
    if services:
        changes += choices.first_services(services)
        changes += choices.later_services(services)
        changes += choices.repeated_services(services)
    if roles:
        changes += choices.later_roles(roles)
    candidate = msgspec.structs.replace(scenario, changes=tuple(sorted(changes, key=lambda change: change.at)))
    try:
        candidate.check()
    except UsageError:
        return scenario
    return candidate


def _with_wishes(change: Change, services: tuple[str, ...], roles: tuple[str, ...], random: Random) -> Change:
    """Whoever joins may say at once what it wants."""
    if change.kind != "join":
        return change
    service = random.choice(services) if services and random.random() < 0.5 else ""
    role = random.choice(roles) if roles and random.random() < 0.5 else ""
    return msgspec.structs.replace(change, service=service, role=role)


class _Choices:
    """What the members of a scenario's groups choose. (A site that joins later can choose something else later.)"""

    def __init__(self, scenario: Scenario, random: Random) -> None:
        self._random = random
        self._duration = scenario.duration
        self._groups = scenario.groups
        self._sources = tuple(sorted({source for workload in scenario.workloads for source in workload.sources}))
        self._speakers = {
            group: {
                source for workload in scenario.workloads if group in workload.groups for source in workload.sources
            }
            for group in scenario.groups
        }
        self._since: dict[tuple[GroupId, SiteId], float] = {
            (group, site): 0.0 for group, members in scenario.groups.items() for site in members
        }
        for change in scenario.changes:
            if change.kind == "join":
                for site in change.sites:
                    self._since.setdefault((change.group, site), change.at)

    def first_services(self, services: tuple[str, ...]) -> Iterator[Change]:
        """What members choose when they start."""
        random = self._random
        for group, members in self._groups.items():
            fate = random.random()
            if fate < DEFAULT_SHARE:
                continue
            if fate < DEFAULT_SHARE + UNIFORM_SHARE:
                chosen = {random.choice(services): list(members)}
            else:
                chosen = {}
                for site in members:
                    chosen.setdefault(random.choice(services), []).append(site)
            for service, sites in sorted(chosen.items()):
                yield Change(kind="service", at=0.0, sites=tuple(sites), group=group, service=service)

    def later_services(self, services: tuple[str, ...]) -> Iterator[Change]:
        """Somebody chooses another one, or the same again, of everyone or of some sources."""
        random = self._random
        for _ in range(random.randint(0, SWITCHES_MAX) if self._since else 0):
            group, site, at = self._somebody()
            choice = self._service(services, group, site, at)
            yield choice
            if random.random() < AGAIN_SHARE:
                # The same once more says something, too: where an application asks for what it misses.
                others = (choice.service,) if random.random() < 0.5 else services
                yield self._service(others, group, site, self._soon(at))

    def repeated_services(self, services: tuple[str, ...]) -> Iterator[Change]:
        """Some choose a service as soon as they are there, and then the same of some sources, until the end."""
        random = self._random
        if not self._since or random.random() >= PERSISTENT_SHARE:
            return
        members = tuple(self._since.items())
        for (group, site), since in random.sample(members, random.randint(1, len(members))):
            service = random.choice(services)
            yield Change(kind="service", at=since, sites=(site,), group=group, service=service)
            others = tuple(sorted(self._speakers.get(group, set()) - {site}))
            if not others:
                continue
            for _ in range(random.randint(1, REPETITIONS_MAX)):
                # Rather late: by then there is something to miss.
                at = round(max(since, random.uniform(0.3, END) * self._duration), 3)
                sources = self._some(others)
                yield Change(kind="service", at=at, sites=(site,), group=group, service=service, sources=sources)

    def later_roles(self, roles: tuple[str, ...]) -> Iterator[Change]:
        """Somebody wants another role, or the same again."""
        random = self._random
        for _ in range(random.randint(0, ROLE_SWITCHES_MAX) if self._since else 0):
            group, site, at = self._somebody()
            yield Change(kind="role", at=at, sites=(site,), group=group, role=random.choice(roles))
            if random.random() < AGAIN_SHARE:
                again = self._soon(at)
                yield Change(kind="role", at=again, sites=(site,), group=group, role=random.choice(roles))

    def _service(self, services: tuple[str, ...], group: GroupId, site: SiteId, at: float) -> Change:
        random = self._random
        sources: tuple[SiteId, ...] = ()
        if self._sources and random.random() < SOURCES_SHARE:
            sources = self._some(self._sources)
        service = random.choice(services)
        return Change(kind="service", at=at, sites=(site,), group=group, service=service, sources=sources)

    def _some(self, sources: tuple[SiteId, ...]) -> tuple[SiteId, ...]:
        return tuple(sorted(self._random.sample(sources, self._random.randint(1, len(sources)))))

    def _somebody(self) -> tuple[GroupId, SiteId, float]:
        """A member of a group, and a moment at which it is in or wants to be."""
        (group, site), since = self._random.choice(tuple(self._since.items()))
        return group, site, round(self._random.uniform(since, max(since, END * self._duration)), 3)

    def _soon(self, at: float) -> float:
        return round(min(at + log_uniform(self._random, 0.001, 1.0), max(at, END * self._duration)), 3)
