"""Rosters: who takes part in a graph, and who is in which group. Each graph has one, and a number (Spauster 5.2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from ordercast.core import GroupId, MessageId, Multicast, SiteId, WireError, encode
from ordercast.protocols.parts.names import GROUPS_MAX, SITES_MAX, check_names

LINEAGE_BITS = 24
"""Graphs of one lineage are numbered by so many bits. Above them stands who founded it: 0 for the configuration, else a
number by chance, so that graphs of two systems that do not know of each other are never taken for one another."""
GRAPHS_MAX = 8
"""So many graphs a wish, or a message of a later graph, may be away from the present one."""

CLOSES, OPENS = 0, 1
"""How such messages are named, in the place of an incarnation."""

Groups = tuple[tuple[GroupId, tuple[SiteId, ...]], ...]


class Roster(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sites of one graph and the members of its groups. With the options, that is the graph."""

    graph: int
    """Its number."""
    manager: SiteId
    """Who changes it."""
    sites: tuple[SiteId, ...]
    """Sorted; those in no group, too."""
    groups: Groups
    """Sorted, as the members are; none is without a member."""
    moved: tuple[tuple[SiteId, int], ...] = ()
    """Sites that have come, gone, or changed groups lately, and the graph that brought it: what they wanted before is
    no longer theirs. (Else: c joins g and leaves it again; a copy of its first wish comes late, and c is in g.)"""

    def members(self, group: GroupId) -> tuple[SiteId, ...]:
        """Who is in the group; nobody when there is none."""
        return next((members for name, members in self.groups if name == group), ())

    def groups_of(self, site: SiteId) -> tuple[GroupId, ...]:
        """The groups that the site is in."""
        return tuple(group for group, members in self.groups if site in members)


class Close(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """The end of a graph, ordered among its messages: it is the last one of every edge. It names what comes next, so
    that whoever is not in it knows that it has left."""

    roster: Roster
    """Of the graph that follows."""
    counted: tuple[GroupId, ...]
    """Groups of which their primary destination tells the manager how many messages they have had."""


class Open(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """The beginning of a graph: the first message of every edge."""

    roster: Roster
    before: tuple[SiteId, ...]
    """The sites of the graph before: they wait until that one is closed. Whoever is new has nothing to wait for."""
    offsets: tuple[tuple[GroupId, int], ...]
    """Where those begin who come into a group."""


Control = Close | Open
_decoder: msgspec.msgpack.Decoder[Control] = msgspec.msgpack.Decoder(Control)


def lineage(graph: int) -> int:
    """Which system a graph is of."""
    return graph >> LINEAGE_BITS


# ---------------------------------------------------------------------- changes
class Wish(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a site wants changed."""

    joins: tuple[GroupId, ...] = ()
    leaves: tuple[GroupId, ...] = ()


def apply_wishes(roster: Roster, wishes: Mapping[SiteId, Wish], staying: Collection[SiteId]) -> Roster:
    """The roster with everything that is wanted, under the next number and the same manager.

    Whoever leaves its last group leaves the roster, except those who stay in any case. The last site of all stays: it
    is the one that newcomers find.
    """
    sites = set(roster.sites)
    groups = {group: set(members) for group, members in roster.groups}
    moved = {site for site, wish in wishes.items() if _grant(site, wish, sites, groups)}
    outside = {
        site for site in moved if site not in staying and not any(site in members for members in groups.values())
    }
    sites = sites - outside or {roster.manager}
    number = roster.graph + 1
    lately = {site: graph for site, graph in roster.moved if graph > number - GRAPHS_MAX} | dict.fromkeys(moved, number)
    return Roster(
        number,
        roster.manager,
        tuple(sorted(sites)),
        tuple((group, tuple(sorted(members))) for group, members in sorted(groups.items()) if members),
        tuple(sorted(lately.items())),
    )


def _grant(site: SiteId, wish: Wish, sites: set[SiteId], groups: dict[GroupId, set[SiteId]]) -> bool:
    """Whether anything changes by it."""
    changes = False
    for group in wish.joins:
        room = (site in sites or len(sites) < SITES_MAX) and (group in groups or len(groups) < GROUPS_MAX)
        if room and site not in groups.get(group, ()):
            sites.add(site)
            groups.setdefault(group, set()).add(site)
            changes = True
    for group in wish.leaves:
        if site in groups.get(group, ()):
            groups[group].discard(site)
            changes = True
    return changes


# ---------------------------------------------------------------------- on the way
def announce(control: Control) -> Multicast:
    """The message that takes its place among the others: it has no group, and its number is that of its graph."""
    closes = isinstance(control, Close)
    name = MessageId(control.roster.manager, CLOSES if closes else OPENS, control.roster.graph - closes)
    return Multicast(name, (), encode(control), None, 0)


def read_control(multicast: Multicast) -> Control:
    """What such a message says; `WireError` when it is none."""
    try:
        control = _decoder.decode(multicast.payload)
    except msgspec.MsgspecError as error:
        raise WireError(f"neither a Close nor an Open: {error}") from error
    check_roster(control.roster)
    if isinstance(control, Close):
        check_names(control.counted)
    else:
        check_names(control.before)
        check_names([group for group, _offset in control.offsets])
    return control


def check_roster(roster: Roster) -> None:
    """It is one."""
    sites = roster.sites
    if not 0 < len(sites) <= SITES_MAX or list(sites) != sorted(set(sites)):
        raise WireError(f"a graph of {len(sites)} sites, which are at most {SITES_MAX}, sorted, each once")
    check_names(sites)
    check_names([group for group, _members in roster.groups])
    if roster.manager not in sites or roster.graph < 0:
        raise WireError(f"graph {roster.graph} has a manager {roster.manager!r} that is not in it")
    known = set(sites)
    if any(not members or not known.issuperset(members) for _group, members in roster.groups):
        raise WireError("a graph with a group without members, or with others than its sites")
