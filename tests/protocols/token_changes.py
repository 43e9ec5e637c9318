"""Runs of the token protocol in which sites come and go: what each application saw of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ordercast.core import GroupId, SiteId
from ordercast.core.effects import Effect, EnterGroup, ExitGroup, InstallView, JoinRefused
from ordercast.core.events import Event
from ordercast.protocols.classic.token import Token
from ordercast.protocols.classic.token.changes import Changes
from ordercast.protocols.classic.token.hearing import Hearing
from ordercast.protocols.classic.token.lookup import Lookup
from ordercast.protocols.classic.token.options import TokenOptions
from ordercast.sim import Simulation
from ordercast.sim.change import Change, ChangeKind
from ordercast.sim.faults import Fault
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import broken_claims

BRANCHES_OF_CHANGES = {
    *Changes.branches,
    *Hearing.branches,
    *Lookup.branches,
    "entered",
    "exited",
    "old-list",
    "left-behind",
    "roster-changed",
    "several-changes",
    "change-repeated",
    "change-void",
    "change-put-off",
    "applicant-lost",
    "several-come",
    "changed-without-some",
    "no-majority-for-change",
    "crashed-admitting",
}
"""Those that no run takes in which nobody joins or leaves."""


def change(kind: ChangeKind, at: float, sites: str, group: GroupId) -> Change:
    """Each of the sites asks at that time."""
    return Change(kind=kind, at=at, sites=tuple(sites), group=group)


class Play:
    """One run, in which every claim holds and every wish is answered; and what the applications were told in it."""

    def __init__(
        self,
        groups: Mapping[GroupId, str],
        changes: Iterable[Change],
        faults: Iterable[Fault] = (),
        *,
        protocol: type[Token] = Token,
        options: TokenOptions | None = None,
        seed: int = 0,
        duration: float = 8.0,
        silent: bool = False,
    ) -> None:
        self.told: dict[SiteId, list[tuple[float, Effect]]] = {}
        changes = tuple(changes)
        sites = sorted({site for members in groups.values() for site in members}.union(*(c.sites for c in changes)))
        names = sorted({*groups, *(each.group for each in changes)})
        told = self.told

        class Heard(protocol):  # type: ignore[misc, valid-type]
            def step(self, now: float, event: Event) -> None:
                super().step(now, event)
                kinds = (EnterGroup, ExitGroup, InstallView, JoinRefused)
                told.setdefault(self.site, []).extend((now, each) for each in self.outbox if isinstance(each, kinds))

        self.simulation = Simulation(
            Heard,
            {group: tuple(members) for group, members in groups.items()},
            PointToPoint(),
            seed=seed,
            options=options or TokenOptions(),
            faults=faults,
            changes=changes,
            workloads=[]
            if silent
            else [Workload(sources=tuple(sites), groups=tuple(names), choose=1, rate=10.0, size=20)],
            duration=duration,
            settle=15.0,
        )
        assert broken_claims(self.simulation) == {}
        assert [wish for site in self.simulation.sites.values() for wish in site.membership.unanswered] == []

    def core(self, site: SiteId) -> Token:
        """The core of a site that is up."""
        core = self.simulation.sites[site].instances["main"].core
        assert isinstance(core, Token)
        return core

    def effects(self, site: SiteId) -> list[Effect]:
        """What the site's application was told of groups, in order."""
        return [effect for _now, effect in self.told.get(site, ())]

    def entries(self, site: SiteId, group: GroupId) -> list[EnterGroup]:
        """Each time that the site entered the group."""
        return [each for each in self.effects(site) if isinstance(each, EnterGroup) and each.group == group]

    def views(self, site: SiteId, group: GroupId) -> list[InstallView]:
        """The views of the group that the site has installed."""
        return [each for each in self.effects(site) if isinstance(each, InstallView) and group in each.groups]

    def seconds(self, site: SiteId, effect: type[Effect]) -> float:
        """When the site was told such a thing for the first time."""
        return next(now for now, each in self.told[site] if isinstance(each, effect))
