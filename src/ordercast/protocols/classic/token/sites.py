"""The sites of the system, and what follows from how many there are: a majority, and the resilience."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ordercast.core import Multicast, Part, SiteId, UsageError, WireError
from ordercast.protocols.classic.token.rosters import (
    Roster,
    check_roster,
    configured,
    is_majority,
    lineage,
)
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Summary, Turn, Version
from ordercast.protocols.parts.names import SITES_MAX


class Sites(Part):
    """Who may be in a token list, and how many of them decide. Nothing else in the protocol counts sites."""

    def __init__(
        self,
        site: SiteId,
        sites: tuple[SiteId, ...],
        resilience: int | None,
        roster: Roster | None = None,
        outside: bool = False,
    ) -> None:
        if resilience is not None and resilience >= len(sites) and not outside:
            raise UsageError(f"option resilience of token is below the number of sites, {len(sites)}, not {resilience}")
        self._site = site
        self._resilience = resilience
        self._is_late = outside
        """Whether the configuration says nothing to this site."""
        self.searching = False
        """Whether the driver has not said yet whom it has found, and there may be somebody."""
        self.configured = roster or configured(sites, {})
        """What the configuration says."""
        self.roster = self.configured
        """Of the installed list."""
        self.before: Roster | None = None
        """The roster before that one, while this site does not know whether the list was opened."""
        self._heard_of = self.configured
        """The latest roster that anybody has told of."""
        self._heard_at = FIRST_VERSION
        """The list of which that was told."""
        self.outside = outside
        """Whether this site is in no list, and knows of none to which it belongs."""
        self.coming = False
        """Whether it is being let into one."""
        self.lineage = ""
        """Of the lists to which this site belongs, or comes."""
        self.life = 0
        """This site's own."""
        self.found: tuple[SiteId, ...] = ()
        """Other sites that the driver has found, sorted."""
        self._refresh()

    def _refresh(self) -> None:
        """Work out who there is."""
        names = {*self.roster.names, *self._heard_of.names, *(self.before.names if self.before else ())}
        if self.outside:
            names = {self._site}
        self.all = tuple(sorted(names))
        """Everybody who may have a say, as far as this site knows."""
        self.others = tuple(other for other in self.all if other != self._site)
        self.known_others = tuple(
            sorted({*self.found, *(() if self._is_late else self.configured.names)} - {self._site})
        )
        """Those who were found, or are configured."""
        self.known = {*names, *self.found, *self.configured.names}
        """Everybody who may be heard."""
        is_fixed = self.roster.is_configured and not self.found
        self._groups = frozenset(group for group, _members in self.roster.groups) if is_fixed else None
        """The groups that there are; None where sites were found, which may have come and made others."""
        self._transfers = self._transfers_of(self.roster)

    # ------------------------------------------------------------------ who comes and goes
    def enter(self, roster: Roster, before: Roster | None, version: Version) -> None:
        """A list was installed that has this roster."""
        self.roster, self.before = roster, before
        self.outside = self.coming = False
        self.lineage = lineage(version)
        life = roster.life(self._site)
        self.life = self.life if life is None else life
        if version >= self._heard_at or lineage(version) != lineage(self._heard_at):
            self._heard_of, self._heard_at = roster, version
        self._refresh()

    def come(self, version: Version) -> None:
        """This site is let into a list, and gets ready for it."""
        self.lineage, self.life, self.coming = lineage(version), version[0], True

    def open(self) -> None:
        """The list was opened: a majority of the roster before has installed it, so that one decides nothing more."""
        self.before = None
        self._refresh()

    def hear_of(self, roster: Roster, version: Version) -> None:
        """Somebody tells of a roster that a list has. It may be an older one than another list has brought that was
        never opened."""
        if lineage(version) == self.lineage and version > self._heard_at and not self.outside:
            self._heard_of, self._heard_at = roster, version
            self._refresh()

    def leave(self) -> None:
        """This site belongs to no list any more."""
        self.roster = self._heard_of = self.configured
        self._heard_at = FIRST_VERSION
        self.before, self.life, self.lineage = None, 0, ""
        self.outside, self.coming = True, False
        self._refresh()

    def search(self) -> None:
        """Until the driver says whom it has found, whoever is heard may be one of them."""
        self.searching = True

    def find(self, sites: tuple[SiteId, ...]) -> None:
        """The driver has found these."""
        self.found = sites
        self.searching = False
        self._refresh()

    @property
    def is_leaving(self) -> bool:
        """Whether this site is in no roster any more that it knows to be the latest, and has only to learn where."""
        return not self.outside and self._heard_of.life(self._site) != self.life

    @property
    def deciding(self) -> Roster:
        """Who decides about a site that comes, or leaves: the roster before it came, or without it."""
        return self._heard_of if self.is_leaving or self.before is None else self.before

    @property
    def strangers(self) -> tuple[SiteId, ...]:
        """Those who were found, and are not in the roster."""
        return tuple(site for site in self.found if site not in self.all)

    # ------------------------------------------------------------------ what is heard
    def check_messages(self, source: SiteId, multicasts: Iterable[Multicast]) -> None:
        """They are of a site of the system, to groups that there are. Where other sites were found, they may have come
        and made groups, and this site does not know yet."""
        groups = self._groups
        if groups is None:
            return
        if source not in self.all:
            raise WireError(f"a message of {source!r}, which is no site of the system")
        for multicast in multicasts:
            if not groups.issuperset(multicast.groups):
                raise WireError(f"a message of {source!r} to a group that does not exist")

    def check_turns(self, turns: Iterable[Turn]) -> None:
        """They acknowledge messages of the sites of the system only, or bring a new roster. Who has come with that is
        known when the roster itself is here."""
        known = self.all
        for turn in turns:
            for run in turn.runs:
                if run.first.source not in known:
                    if turn.is_change or self._groups is None:
                        return
                    raise WireError(f"a turn with a message of {run.first.source!r}, which is no site of the system")

    def check_members(self, members: tuple[SiteId, ...], roster: Roster | None = None) -> None:
        """They are sites of the system."""
        if roster is not None:
            check_roster(roster)
        elif self._is_late and len(members) <= SITES_MAX:
            return
        if not set(members) <= set((*self.all, *self.configured.names) if roster is None else roster.names):
            raise WireError(f"a list of {', '.join(members[:9])}, of whom not all are sites of the system")

    def check_summary(self, summary: Summary, roster: Roster | None = None) -> None:
        """It names the sites of the system."""
        if roster is not None:
            check_roster(roster)
        names = self.configured.names if roster is None else roster.names
        if sorted(source for source, _number in summary.ordered) != sorted(names):
            raise WireError("a summary of other sites than those of the system")

    # ------------------------------------------------------------------ majorities
    @property
    def majority(self) -> int:
        """How many sites are one."""
        return len(self.roster.sites) // 2 + 1

    def are_majority(self, present: Collection[SiteId], installed: Version = FIRST_VERSION) -> bool:
        """Whether these sites are one: any two majorities have a site in common. While the roster before may still
        decide, of that one, too. For a site that was away it is the roster of which it has heard."""
        if self._heard_at > installed:
            return is_majority(self._heard_of.sites, present)
        return is_majority(self.roster.sites, present) and (
            self.before is None or is_majority(self.before.sites, present)
        )

    def are_all(self, present: Collection[SiteId]) -> bool:
        """Whether nobody is missing."""
        return all(site in present for site in self.all)

    def transfers_needed(self, members: int, roster: Roster | None = None) -> int:
        """L; a list that is too small for it has to know the message at every site."""
        return min(self._transfers if roster is None else self._transfers_of(roster), members - 1)

    def _transfers_of(self, roster: Roster) -> int:
        return len(roster.sites) // 2 if self._resilience is None else self._resilience
