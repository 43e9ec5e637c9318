"""What every fault is: the common keys of a `[[fault]]` table, and how it comes into force and goes again."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from ordercast.core import SiteId, UsageError

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation


class Verdict(msgspec.Struct, frozen=True):
    """What a rule does to a packet."""

    drop: str = ""
    """Why it is lost; empty when it is not."""
    delays: tuple[float, ...] = ()
    """Extra seconds for each copy that arrives."""


class Rule:
    """A rule over packets; `judge` returns None to let the next rule decide."""

    def judge(self, sender: SiteId, receiver: SiteId) -> Verdict | None:
        """What happens to this packet."""
        raise NotImplementedError


class Fault(
    msgspec.Struct,
    frozen=True,
    tag_field="kind",
    forbid_unknown_fields=True,
    kw_only=True,
    rename={"from_": "from"},
    omit_defaults=True,
):
    """Base of all faults."""

    from_: float
    to: float | None = None
    sites: tuple[SiteId, ...] = ()
    """Which sites it concerns; none means all."""

    kind: ClassVar[str]
    made_of: ClassVar[tuple[str, ...]] = ()
    """The kinds that a contract must stand for this one; none: this one itself."""

    def begin(self, simulation: Simulation) -> None:
        """Put it in force."""
        raise NotImplementedError

    def end(self, simulation: Simulation) -> None:
        """Take it away."""
        raise NotImplementedError

    def check(self, sites: frozenset[SiteId]) -> None:
        """Raise `UsageError` when it makes no sense for these sites."""
        if self.from_ < 0 or (self.to is not None and self.to < self.from_):
            raise UsageError(f"fault {self.kind!r}: needs 0 <= from <= to, not from = {self.from_}, to = {self.to}")
        for site in self.sites:
            if site not in sites:
                raise UsageError(f"fault {self.kind!r}: there is no site {site!r}; known: {', '.join(sorted(sites))}")


def check_share(kind: str, key: str, value: float) -> None:
    """Raise `UsageError` when a value is no share."""
    if not 0 <= value <= 1:
        raise UsageError(f"fault {kind!r}: {key} is a share from 0 to 1, not {value}")


def check_not_negative(kind: str, key: str, value: float) -> None:
    """Raise `UsageError` when a value is negative."""
    if value < 0:
        raise UsageError(f"fault {kind!r}: {key} is 0 or more, not {value}")


class SiteFault(Fault, frozen=True):
    """A fault that happens to each of its sites."""

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        if not self.sites:
            raise UsageError(f"fault {self.kind!r}: name the sites to which it happens")

    def begin(self, simulation: Simulation) -> None:
        """It happens to each site, in order of names."""
        for site in sorted(self.sites):
            simulation.count_fault(self.kind)
            self.begin_at(simulation, site)

    def end(self, simulation: Simulation) -> None:
        """It is over."""
        for site in sorted(self.sites):
            self.end_at(simulation, site)

    def begin_at(self, simulation: Simulation, site: SiteId) -> None:
        """It happens to a site."""
        raise NotImplementedError

    def end_at(self, simulation: Simulation, site: SiteId) -> None:
        """It is over there."""
        raise NotImplementedError
