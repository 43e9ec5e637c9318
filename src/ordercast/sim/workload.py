"""Workloads: who multicasts what, to whom, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from ordercast.core import GroupId, SiteId, UsageError

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation

SIZE_MAX = 1 << 24
"""Larger payloads are cut into pieces above the protocol core, so no core ever sees one."""


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A `[[workload]]` table of a scenario."""

    sources: tuple[SiteId, ...]
    groups: tuple[GroupId, ...] = ()
    choose: int | None = None
    """Address each message to so many of the groups, at random; None: to all of them at once."""
    destinations: int | None = None
    """Address each message to so many sites, at random, instead of groups."""
    rate: float = 10.0
    """Messages a second, of each source."""
    size: int = 100
    count: int | None = None
    """So many of each source at the most."""
    start: float = 0.0
    arrivals: Literal["poisson", "regular"] = "poisson"

    def check(self, sites: frozenset[SiteId], groups: frozenset[GroupId]) -> None:
        """Raise `UsageError` when it makes no sense for these sites and groups."""
        for source in self.sources:
            if source not in sites:
                raise UsageError(f"workload: there is no site {source!r}; known: {', '.join(sorted(sites))}")
        for group in self.groups:
            if group not in groups:
                raise UsageError(f"workload: there is no group {group!r}; known: {', '.join(sorted(groups))}")
        if not self.groups and self.destinations is None:
            raise UsageError("workload: needs groups (or a number of destinations)")
        if self.choose is not None and not 1 <= self.choose <= len(self.groups):
            raise UsageError(f"workload: choose is from 1 to the {len(self.groups)} groups, not {self.choose}")
        if self.destinations is not None and not 1 <= self.destinations <= len(sites):
            raise UsageError(f"workload: destinations is from 1 to the {len(sites)} sites, not {self.destinations}")
        if self.rate <= 0:
            raise UsageError(f"workload: the rate is positive, not {self.rate}")
        if not 0 <= self.size <= SIZE_MAX:
            raise UsageError(f"workload: the size is from 0 to {SIZE_MAX} bytes, not {self.size}")
        if self.count is not None and self.count < 0:
            raise UsageError(f"workload: the count is 0 or more, not {self.count}")
        if self.start < 0:
            raise UsageError(f"workload: the start is 0 or later, not {self.start}")

    def begin(self, simulation: Simulation, index: int) -> None:
        """Schedule the first message of each source."""
        for source in self.sources:
            _Source(self, simulation, source, index).schedule_next(self.start)


class _Source:
    """One source of one workload, with a random stream of its own."""

    def __init__(self, workload: Workload, simulation: Simulation, site: SiteId, index: int) -> None:
        self._workload = workload
        self._simulation = simulation
        self._site = site
        self._random = simulation.random("workload", index, site)
        self._left = workload.count
        self._payload = bytes(workload.size)

    def schedule_next(self, after: float) -> None:
        workload = self._workload
        mean = 1 / workload.rate
        wait = self._random.expovariate(workload.rate) if workload.arrivals == "poisson" else mean
        time = after + wait
        if self._left != 0 and time <= self._simulation.duration:
            self._simulation.queue.schedule(time, self._multicast)

    def _multicast(self) -> None:
        if self._left is not None:
            self._left -= 1
        workload = self._workload
        groups = workload.groups
        destinations = None
        if workload.destinations is not None:
            destinations = tuple(sorted(self._random.sample(sorted(self._simulation.sites), workload.destinations)))
            groups = ()
        elif workload.choose is not None:
            groups = tuple(sorted(self._random.sample(groups, workload.choose)))
        self._simulation.at(self._site).multicast(self._payload, groups, destinations)
        self.schedule_next(self._simulation.queue.now)
