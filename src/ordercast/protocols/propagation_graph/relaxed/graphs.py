"""What is decided when a graph is replaced: who takes part in the next one, and what everybody has had before it."""

from __future__ import annotations

import msgspec

from ordercast.core import GroupId, MessageId, SiteId, WireError
from ordercast.protocols.parts.names import SITES_MAX, check_names
from ordercast.protocols.propagation_graph.rosters import Groups, Roster

Address = tuple[GroupId, ...]

LISTED_MAX = 1 << 16
"""Messages in one history, or in one order: sixteen times what may be kept for one child."""


Lineup = tuple[tuple[int, tuple[SiteId, ...]], ...]
"""Number of a graph -> the sites of that one and of those after it, until the next number."""
LINEUP_MAX = 4
"""So many changes of the sites are remembered. What follows a graph is decided by its sites, and whoever has missed
some graphs has to know whom to ask what follows the last of them."""


def sites_at(lineup: Lineup, graph: int) -> tuple[SiteId, ...]:
    """The sites of a graph; none: that was too long ago."""
    return next((sites for since, sites in reversed(lineup) if since <= graph), ())


class Listed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message in a history, or in the order that was made of all histories. Its payload is where its holders are."""

    id: MessageId
    groups: Address
    count: int
    entry: SiteId
    """Where it entered the graph; empty: it stood in the order with which the graph began."""
    place: int
    """Its number among what entered there, the *group sequence number* of 7.1.1; each graph begins with 1."""
    holders: tuple[SiteId, ...] = ()


class Settled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Everybody has had what this source has multicast to this address, up to this message."""

    source: SiteId
    groups: Address
    incarnation: int
    number: int


class Graph(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One graph. Its sites are those who take part and those who are away: both count for majorities, so that nobody
    can be left over in a majority of a minority.

    (With majorities of those who take part: of five, c and d are away for a second; a and b, two of the remaining
    three, die; e alone may decide nothing, and c and d, who are back, have no vote.)
    """

    number: int
    manager: SiteId
    present: tuple[SiteId, ...]
    away: tuple[SiteId, ...]
    groups: Groups
    """All members, those who are away, too."""
    returned: tuple[SiteId, ...] = ()
    """Those of the present that come back: they go on behind all that the others have had."""
    offsets: tuple[tuple[GroupId, int], ...] = ()
    """How many messages each group has had before."""
    settled: tuple[Settled, ...] = ()
    order: tuple[Listed, ...] = ()
    """What some who take part have had in the graph before and others may lack, in the order in which all have it."""

    reasons: tuple[tuple[SiteId, str], ...] = ()
    """Why those are away who are, for people."""
    awaited: tuple[SiteId, ...] = ()
    """Those of them for whom everything is kept that they miss: they may come back by rollback."""
    undoing: tuple[SiteId, ...] = ()
    """Those who have come back by rollback: they take back what is not in the order, and deliver all of it."""
    lineup: Lineup = ()
    """The sites of this graph and of those before it, as far as they have changed; empty: they never have."""
    leaving: tuple[SiteId, ...] = ()
    """Those who have left their last group with this graph. They take part until it runs, for others may lack what
    they alone have had; the next one is without them."""
    moved: tuple[tuple[SiteId, int], ...] = ()
    """See `Roster.moved`."""

    @property
    def sites(self) -> tuple[SiteId, ...]:
        """All of them, sorted."""
        return tuple(sorted((*self.present, *self.away)))

    @property
    def majority(self) -> int:
        """So many sites are more than half."""
        return (len(self.present) + len(self.away)) // 2 + 1

    @property
    def known_lineup(self) -> Lineup:
        """See `lineup`."""
        return self.lineup or ((0, self.sites),)

    def groups_of(self, site: SiteId) -> tuple[GroupId, ...]:
        """The groups that the site is in."""
        return tuple(group for group, members in self.groups if site in members)

    def awaits(self, group: GroupId) -> bool:
        """Whether a member is to get what it misses."""
        return any(site in self.awaited for site in dict(self.groups).get(group, ()))

    def check_successor(self, following: Graph, sender: SiteId) -> None:
        """Raise `WireError` for what cannot be a later graph, or comes from a site that is in neither, nor has been."""
        sites = following.sites
        if sender not in self.sites and not any(sender in each for _since, each in following.known_lineup):
            raise WireError(f"{sender}, which is not in the graph, speaks of graph {following.number}")
        if not 0 < len(sites) <= SITES_MAX or len({*sites}) < len(sites) or len(following.order) > LISTED_MAX:
            raise WireError(
                f"{sender} makes graph {following.number} of {len(sites)} sites with {len(following.order)} messages"
            )
        check_names(sites)
        check_names([group for group, _members in following.groups])
        if any(not {*members} <= {*sites} for _group, members in following.groups):
            raise WireError(f"{sender} makes graph {following.number}, whose groups have others than its sites")
        if sites_at(following.known_lineup, following.number) != sites or len(following.lineup) > LINEUP_MAX:
            raise WireError(f"{sender} makes graph {following.number} of sites that it names otherwise")
        if following.manager not in following.present or not {*following.returned} <= {*following.present}:
            raise WireError(f"{sender} makes graph {following.number}, in which {following.manager} is not")
        if not {*following.undoing} <= {*following.returned} or not {*following.awaited} <= {*following.away}:
            raise WireError(f"{sender} makes graph {following.number}, into which nobody can come back so")

    def roster(self) -> Roster:
        """Those who take part: with the options, that is the graph along which messages go."""
        here = set(self.present)
        groups = tuple((group, tuple(site for site in members if site in here)) for group, members in self.groups)
        return Roster(self.number, self.manager, self.present, tuple((g, members) for g, members in groups if members))
