"""Changes: what applications ask of protocols while a run goes on. Where groups and sites come and go, a site that no
group names begins with its first one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from ordercast.core import Contract, GroupId, SiteId, UsageError
from ordercast.core.tables import nearest

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation

ChangeKind = Literal["join", "leave", "role", "service"]
CHANGE_KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A `[[change]]` table of a scenario."""

    kind: ChangeKind
    at: float
    sites: tuple[SiteId, ...]
    """Each asks on its own, at the same time."""
    group: GroupId
    role: str = ""
    service: str = ""
    sources: tuple[SiteId, ...] = ()
    """Whose messages a service is chosen for; none: everyone's."""

    def check(self, sites: Collection[SiteId], groups: Collection[GroupId], contract: Contract) -> None:
        """Raise `UsageError` when it makes no sense for these sites, groups and protocol."""
        offered = _offered(contract)
        if not offered:
            raise UsageError(f"{contract.name} has the same groups and sites all the time; leave out [[change]]")
        if self.kind not in offered:
            raise UsageError(f"{contract.name} knows no change of kind {self.kind!r}; {nearest(self.kind, offered)}")
        if self.at < 0:
            raise UsageError(f"at is 0 or later, not {self.at}")
        if not self.sites:
            raise UsageError("sites is empty; name the sites that ask")
        for site in (*self.sites, *self.sources):
            if site not in sites:
                raise UsageError(f"there is no site {site!r}; {nearest(site, sorted(sites))}")
        if self.group not in groups:
            raise UsageError(
                f"nobody is in a group {self.group!r}, nor joins it; {nearest(self.group, sorted(groups))}"
            )
        if self.role and self.kind not in ("join", "role"):
            raise UsageError(f"role belongs to a join or a role, not to a {self.kind}")
        if self.service and self.kind not in ("join", "service"):
            raise UsageError(f"service belongs to a join or a service, not to a {self.kind}")
        if self.sources and self.kind != "service":
            raise UsageError(f"sources belongs to a service, not to a {self.kind}")
        for kind, given, known in (
            ("role", self.role, contract.roles),
            ("service", self.service, tuple(contract.services)),
        ):
            if self.kind == kind and not given:
                raise UsageError(f"a {kind} needs {kind} = the one that is chosen")
            if given and known and given not in known:
                raise UsageError(f"{contract.name} has no {kind} {given!r}; {nearest(given, known)}")

    def begin(self, simulation: Simulation) -> None:
        """Each site's application asks; a site that has not begun does so first."""
        for site in sorted(self.sites):
            simulation.at(site).ask(self)


def _offered(contract: Contract) -> tuple[ChangeKind, ...]:
    """The kinds of change that a protocol knows of."""
    if contract.dynamic:
        return CHANGE_KINDS
    roles: tuple[ChangeKind, ...] = ("role",) if contract.roles else ()
    return (*roles, "service") if contract.services else roles


def late_sites(changes: Iterable[Change], groups: Iterable[Iterable[SiteId]]) -> frozenset[SiteId]:
    """The sites that no group names, and that begin with their first change."""
    return frozenset(site for change in changes for site in change.sites) - {site for each in groups for site in each}


def joined_groups(changes: Iterable[Change]) -> frozenset[GroupId]:
    """The groups that somebody wants to be in."""
    return frozenset(change.group for change in changes if change.kind == "join")
