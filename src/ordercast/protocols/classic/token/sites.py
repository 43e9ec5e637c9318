"""The sites of the system, and what follows from how many there are: a majority, and the resilience."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ordercast.core import GroupId, Packet, Part, SiteId, UsageError, WireError
from ordercast.protocols.classic.token.packets import Admit, Apply, Decline, Invite, Presence, Probe, Seek, Status
from ordercast.protocols.classic.token.rosters import (
    Roster,
    check_roster,
    configured,
    is_majority,
    lineage,
)
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Summary, Turn, Version
from ordercast.protocols.parts.names import SITES_MAX

_VERSION_OF: dict[type[Packet], str] = {Status: "installed"}
"""Where the version of the sender's list stands, when it is not in `version`."""
_FOR_STRANGERS = frozenset({Seek, Presence, Apply, Decline, Invite, Admit, Probe})
"""What a site that is in no list listens to; and whoever is in one looks at the lineage itself."""


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
        self._searching = False
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
        self._coming = False
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
        self._known = {*names, *self.found, *self.configured.names}

    # ------------------------------------------------------------------ who comes and goes
    def enter(self, roster: Roster, before: Roster | None, version: Version) -> None:
        """A list was installed that has this roster."""
        self.roster, self.before = roster, before
        self.outside = self._coming = False
        self.lineage = lineage(version)
        life = roster.life(self._site)
        self.life = self.life if life is None else life
        if version >= self._heard_at or lineage(version) != lineage(self._heard_at):
            self._heard_of, self._heard_at = roster, version
        self._refresh()

    def come(self, version: Version) -> None:
        """This site is let into a list, and gets ready for it."""
        self.lineage, self.life, self._coming = lineage(version), version[0], True

    def open(self) -> None:
        """The list was opened: a majority of the roster before has installed it, so that one decides nothing more."""
        if self.before:
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
        self.outside, self._coming = True, False
        self._refresh()

    def search(self) -> None:
        """Until the driver says whom it has found, whoever is heard may be one of them."""
        self._searching = True

    def find(self, sites: tuple[SiteId, ...]) -> None:
        """The driver has found these."""
        self.found = sites
        self._searching = False
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
    def on_heard(self, sender: SiteId, packet: Packet) -> None:
        """Only the sites of the system take part; and where the driver finds others, those, too, whom it has not told
        of yet."""
        if sender not in self._known and not self.found and not self._searching:
            raise WireError(f"{sender!r} is no site of the system")

    def is_ours(self, packet: Packet, installed: Version) -> bool:
        """Whether a packet is of a list of the lineage in which this site is. Others are of no use, and no mistake:
        somebody does not know yet that this site has moved, or has left."""
        version = getattr(packet, _VERSION_OF.get(type(packet), "version"), None)
        if (version is None or version == installed) and not self.outside:
            return True
        if type(packet) in _FOR_STRANGERS:
            return True
        if self.outside and not self._coming:
            return False
        return version is None or version == installed or lineage(version) == self.lineage

    def check_message(self, source: SiteId, groups: Iterable[GroupId]) -> None:
        """It is of a site of the system, to groups that there are. Where other sites were found, they may have come and
        made groups, and this site does not know yet."""
        if self.found or not self.roster.is_configured:
            return
        if source not in self.all:
            raise WireError(f"a message of {source!r}, which is no site of the system")
        if any(not self.roster.members(group) for group in groups):
            raise WireError(f"a message of {source!r} to a group that does not exist")

    def check_turns(self, turns: Iterable[Turn]) -> None:
        """They acknowledge messages of the sites of the system only, or bring a new roster. Who has come with that is
        known when the roster itself is here."""
        known: Collection[SiteId] | None = self.all
        for turn in turns:
            if turn.is_change:
                known = None
            elif known is not None and any(run.first.source not in known for run in turn.runs):
                self._check_sources(turn)

    def _check_sources(self, turn: Turn) -> None:
        if self.roster.is_configured and not self.found:
            source = next(run.first.source for run in turn.runs if run.first.source not in self.all)
            raise WireError(f"a turn with a message of {source!r}, which is no site of the system")

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
        sites = len((roster or self.roster).sites)
        return min(sites // 2 if self._resilience is None else self._resilience, members - 1)
