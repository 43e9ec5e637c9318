"""What a site writes to its log."""

from __future__ import annotations

from ordercast.core import GroupId, MessageId, Multicast, Record, SiteId
from ordercast.protocols.propagation_graph.packets import Forward, Submit
from ordercast.protocols.propagation_graph.rosters import Close, Roster


class Submitted(Record, frozen=True):
    """At a source: the next number of the edge to the primary destination is this message's; or it waits (`to` is
    empty) until a graph is open, and the old primary destination has said what it has taken."""

    to: SiteId
    multicast: Multicast


class Taken(Record, frozen=True):
    """The next message of an incoming edge is taken: forwarded with the next numbers of the edges on its way, and
    delivered if the site is a member. The order of these records is the site's order. A `Close` ends the graph here,
    and an `Open` begins the next; at the first root, where they enter, they come by no edge (`sender` is empty)."""

    sender: SiteId
    multicast: Multicast
    queued: bool = False
    """Whether it came by an edge of the graph before, and waited here for this one."""


class Resolved(Record, frozen=True):
    """At a source: an old primary destination has closed, and has taken so much of the edge. The rest waits again."""

    graph: int
    to: SiteId
    taken: int


class Released(Record, frozen=True):
    """At a source: of what waited, these have the next numbers of the edges to their primary destinations."""

    messages: tuple[MessageId, ...]


class Told(Record, frozen=True):
    """A source knows what was taken of it in a graph that is closed."""

    graph: int
    site: SiteId


class Planned(Record, frozen=True):
    """At the manager: this is the next change."""

    close: Close


class Wished(Record, frozen=True):
    """The application wants to be in a group, or out of it, or (None) neither any more."""

    group: GroupId
    wanted: bool | None


class Gone(Record, frozen=True):
    """This site has left the last graph in which it was, and has nothing left to do in it."""


class Edge(Record, frozen=True):
    """The sender's end of an edge of an earlier graph."""

    graph: int
    to: SiteId
    acknowledged: int
    kept: tuple[Submit | Forward, ...]
    ended: bool


class Passing(Record, frozen=True):
    """What a checkpoint says of changes, as soon as there has been one, or one is wanted."""

    roster: Roster | None
    """Of the graph; None: this site is in none."""
    left: int
    """The graph after which the site has left; -1: never."""
    close: Close | None
    """The graph is closed here, and this follows."""
    plan: Close | None
    """What this site, the manager, is about to do."""
    wishes: tuple[tuple[GroupId, bool], ...]
    counts: tuple[tuple[GroupId, int], ...]
    waiting: tuple[Multicast, ...]
    resolved: tuple[SiteId, ...]
    """Primary destinations of the present graph that have closed."""
    untold: tuple[tuple[int, SiteId, int], ...]
    """Graph, source, taken."""
    past: tuple[Edge, ...]


class State(Record, frozen=True):
    """A checkpoint: all of the above, summed up."""

    incoming: tuple[tuple[SiteId, int], ...]
    """Sender, and the number up to which its messages are taken."""
    outgoing: tuple[tuple[SiteId, int, int], ...]
    """Receiver, highest number, highest acknowledged."""
    kept: tuple[Submit | Forward, ...]
    """What some receiver has not acknowledged."""
    passing: Passing | None = None
