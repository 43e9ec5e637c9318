"""Faults after which a site must not go on: its disk has gone back in time, its log is gone, or it runs with another
configuration than the others.

Runs that have one of these model the roll call (`ordercast.sim.site.roll_call`), by which the others notice it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ordercast.core import Contract, SiteId, UsageError
from ordercast.sim.fault import SiteFault

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation


class MemoryFault(SiteFault, frozen=True):
    """A site crashes at `from`, and something is wrong with it when it comes back at `to`."""

    def begin(self, simulation: Simulation) -> None:
        """The sites crash; that something is wrong shows only when they come back."""
        for site in sorted(self.sites):
            self.begin_at(simulation, site)

    def begin_at(self, simulation: Simulation, site: SiteId) -> None:
        """A crash."""
        simulation.at(site).crash()

    def end_at(self, simulation: Simulation, site: SiteId) -> None:
        """The site comes back, unless another fault's end has brought it back before."""
        if not simulation.at(site).up:
            if self.strike(simulation, site):
                simulation.count_fault(self.kind)
            simulation.at(site).recover()

    def strike(self, simulation: Simulation, site: SiteId) -> bool:
        """Do what is to be done to a site that is down; whether there was anything to do."""
        raise NotImplementedError

    def is_survived(self, contract: Contract) -> bool:
        """Whether the protocol keeps all its guarantees; else the site is refused, and stays down."""
        return self.kind in contract.faults


class Rollback(MemoryFault, tag="rollback", frozen=True):
    """The disk is as it was after an earlier sync: a backup was restored, or a snapshot of the machine. At least one
    record is gone of which another site, one that is up, has heard; where there is none, it is just a crash."""

    kind: ClassVar[str] = "rollback"

    def strike(self, simulation: Simulation, site: SiteId) -> bool:
        struck = simulation.at(site)
        return struck.disk.rewind(simulation.heard_of(site), simulation.random("rollback", site, struck.incarnation))


class LostLog(MemoryFault, tag="lost-log", frozen=True):
    """The disk is empty: to the protocol this is a first start. With `repair` an operator repairs the site when it has
    been refused, and it gets everything back from the others."""

    kind: ClassVar[str] = "lost-log"
    repair: bool = False

    def strike(self, simulation: Simulation, site: SiteId) -> bool:
        if not simulation.heard_of(site):
            return False
        simulation.at(site).lose_log(repair=self.repair)
        return True

    def is_survived(self, contract: Contract) -> bool:
        return self.kind in contract.faults or (self.repair and contract.repairs)

    def check_contract(self, contract: Contract) -> None:
        """Raise `UsageError` when the protocol cannot be repaired."""
        if self.repair and not contract.repairs:
            raise UsageError(f"fault 'lost-log': {contract.name} cannot repair a site; leave out repair")


class Drift(MemoryFault, tag="drift", frozen=True):
    """The site comes back with other options than the rest. Those on which all must agree (`Options.shared`) are
    noticed; others only tune it."""

    kind: ClassVar[str] = "drift"
    options: dict[str, Any]

    def check(self, sites: frozenset[SiteId]) -> None:
        super().check(sites)
        if not self.options:
            raise UsageError("fault 'drift': options is empty; name those that differ")

    def strike(self, simulation: Simulation, site: SiteId) -> bool:
        simulation.at(site).options = simulation.drifted_options(self.options)
        return True
