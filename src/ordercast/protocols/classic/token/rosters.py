"""Rosters: who belongs to a system whose sites come and go, and who is in which group.

The *list* is who takes part at the moment, and the token goes around in it; the *roster* is who belongs to the system,
present or not, and a majority is counted in it. A list brings at most one new roster. Its first message is the roster
itself, so that the change has one place in the order: what comes before it is delivered in the groups as they were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from ordercast.core import GroupId, MessageId, Multicast, SiteId, WireError, encode
from ordercast.protocols.classic.token.turns import CHANGE_MARK, FIRST_VERSION, Run, Version, life_start
from ordercast.protocols.parts.names import SITES_MAX, check_names

VERSION_NUMBER_MAX = 1 << 31
"""A life is the number of a version, and must fit into the upper half of a source number."""

Lives = tuple[tuple[SiteId, int], ...]
"""Sites, sorted, each with its life: the number of the version with which it came; 0 for the sites of the
configuration."""


class Roster(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sites of the system and the members of its groups."""

    version: Version
    """Of the list that brought it."""
    sites: Lives
    groups: tuple[tuple[GroupId, tuple[SiteId, ...]], ...]
    """Sorted, as the members are; none is without a member."""
    merged: tuple[SiteId, ...] = ()
    """Sorted: those who have come with it from another lineage, which they gave up for this one."""

    @property
    def names(self) -> tuple[SiteId, ...]:
        """The sites, sorted."""
        return tuple(site for site, _life in self.sites)

    def life(self, site: SiteId) -> int | None:
        """In which life the site is; None when it is not in the roster."""
        return dict(self.sites).get(site)

    def groups_of(self, site: SiteId) -> tuple[GroupId, ...]:
        """The groups that the site is in."""
        return tuple(group for group, members in self.groups if site in members)

    def members(self, group: GroupId) -> tuple[SiteId, ...]:
        """Who is in the group; nobody when there is none."""
        return next((members for name, members in self.groups if name == group), ())

    @property
    def is_configured(self) -> bool:
        """Whether it is the one of the configuration, which nobody has changed."""
        return self.version == FIRST_VERSION


def configured(sites: Iterable[SiteId], groups: Mapping[GroupId, tuple[SiteId, ...]]) -> Roster:
    """What the configuration says."""
    return Roster(FIRST_VERSION, tuple((site, 0) for site in sites), tuple(sorted(groups.items())))


def is_majority(lives: Lives, present: Collection[SiteId]) -> bool:
    """Whether these are more than half of those: any two majorities of a roster have a site in common."""
    return sum(site in present for site, _life in lives) > len(lives) // 2


class Wishes(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a site of the roster wants changed."""

    groups: tuple[tuple[GroupId, bool], ...] = ()
    """Groups that it wants to be in (True) or out of."""
    removals: tuple[SiteId, ...] = ()
    """Sites that an operator has said are to go."""


def changed(
    roster: Roster,
    version: Version,
    keeper: SiteId,
    applicants: Mapping[SiteId, tuple[GroupId, ...]],
    wishes: Mapping[SiteId, Wishes],
) -> Roster:
    """The roster with everything that is wanted; the same one when that is nothing.

    Whoever leaves its last group leaves the roster. Not so the keeper, who forms the list and has to be in it. An
    applicant whose name is in the roster has lost what it knew: it begins a new life, in the groups that it names now.
    """
    lives = dict(roster.sites)
    groups = {group: set(members) for group, members in roster.groups}
    removed = {site for wish in wishes.values() for site in wish.removals if site != keeper}
    for site in (*removed, *applicants):
        lives.pop(site, None)
        for members in groups.values():
            members.discard(site)
    for site, wanted in applicants.items():
        if len(lives) < SITES_MAX:
            lives[site] = version[0]
            for group in wanted:
                groups.setdefault(group, set()).add(site)
    for site, wish in wishes.items():
        if site in lives and site not in applicants:
            _grant(site, wish.groups, lives, groups, site == keeper)
    made = tuple((group, tuple(sorted(members))) for group, members in sorted(groups.items()) if members)
    sites = tuple(sorted(lives.items()))
    return roster if (sites, made) == (roster.sites, roster.groups) else Roster(version, sites, made)


def _grant(
    site: SiteId,
    wanted: tuple[tuple[GroupId, bool], ...],
    lives: dict[SiteId, int],
    groups: dict[GroupId, set[SiteId]],
    is_keeper: bool,
) -> None:
    left = [group for group, wants_in in wanted if not wants_in and site in groups.get(group, ())]
    for group, wants_in in wanted:
        if wants_in:
            groups.setdefault(group, set()).add(site)
    stays = any(site in members and group not in left for group, members in groups.items())
    if not left or (is_keeper and not stays):
        return
    for group in left:
        groups[group].discard(site)
    if not stays:
        del lives[site]


# ---------------------------------------------------------------------- what comes from the network
def check_roster(roster: Roster) -> None:
    """It is one."""
    names = roster.names
    if not 0 < len(names) <= SITES_MAX or list(names) != sorted(set(names)):
        raise WireError(f"a roster of {len(names)} sites, which are at most {SITES_MAX}, sorted, each once")
    check_names(names)
    check_names([group for group, _members in roster.groups])
    if any(not members or not set(members) <= set(names) for _group, members in roster.groups):
        raise WireError("a roster with a group without members, or with others than its sites")
    if not set(roster.merged) <= set(names) or list(roster.merged) != sorted(set(roster.merged)):
        raise WireError("a roster with which others than its sites have come")
    if not 0 <= roster.version[0] < VERSION_NUMBER_MAX or any(
        not 0 <= life <= roster.version[0] for _s, life in roster.sites
    ):
        raise WireError(f"a roster of version {roster.version[0]}, or with a life that is later")


# ---------------------------------------------------------------------- a roster as a message
def announce(roster: Roster) -> Multicast:
    """The message that puts the roster into the order. Its source is no site."""
    number, originator = roster.version
    return Multicast(MessageId(CHANGE_MARK + originator, 0, number), (), encode(roster), None, 0)


def announcing_run(roster: Roster) -> Run:
    """How a turn names that message."""
    return Run(life_start(roster.version[0]) + 1, announce(roster).id, 1)


_decoder = msgspec.msgpack.Decoder(Roster)


def read_roster(multicast: Multicast) -> Roster:
    """The roster that the message brings."""
    try:
        roster = _decoder.decode(multicast.payload)
    except msgspec.MsgspecError as error:
        raise WireError(f"a change of the roster that is none: {error}") from error
    check_roster(roster)
    if announce(roster).id != multicast.id:
        raise WireError(f"a change of the roster by the name of {multicast.id}")
    return roster


# ---------------------------------------------------------------------- lineages
def lineage(version: Version) -> str:
    """Which system a list is of: empty for the one of the configuration, else its founder and a number by chance."""
    return version[1].partition(CHANGE_MARK)[2]


def originator(version: Version) -> SiteId:
    """Who formed the list."""
    return version[1].partition(CHANGE_MARK)[0]


def next_version(number: int, site: SiteId, of: str) -> Version:
    """A version of a lineage."""
    return (number, f"{site}{CHANGE_MARK}{of}" if of else site)


def founder(of: str) -> SiteId:
    """Who founded the lineage."""
    return of.rpartition(".")[0]
