"""What a site writes to its log besides."""

from __future__ import annotations

from ordercast.core import GroupId, MessageId, Multicast, Record, SiteId
from ordercast.protocols.propagation_graph.relaxed.graphs import Graph, Lineup, Settled


class Placed(Record, frozen=True):
    """A message is taken: this is its place in the site's order."""

    multicast: Multicast
    entry: SiteId
    place: int


class Dropped(Record, frozen=True):
    """An own message was for nobody: all members were away."""

    message: MessageId


class Pledged(Record, frozen=True):
    """Nothing of a lower ballot is accepted as what follows the graph, and nothing more is taken in it."""

    graph: int
    ballot: int
    lineup: Lineup = ()
    """The sites of the graph, and of those before it."""


class Accepted(Record, frozen=True):
    """This may be what follows the graph."""

    graph: int
    ballot: int
    following: Graph


class Entered(Record, frozen=True):
    """The graph is open here; `survived`: this site took part in the one before."""

    graph: Graph
    survived: bool


class Running(Record, frozen=True):
    """Everybody has all with which the graph began."""

    graph: int


class Summary(Record, frozen=True):
    """A checkpoint."""

    graph: Graph
    running: bool
    instance: int
    pledged: int
    accepted_ballot: int
    accepted: Graph | None
    before: tuple[int, int, int, Graph | None]
    taken: tuple[Placed, ...]
    marks: tuple[tuple[SiteId, int], ...]
    settled: tuple[Settled, ...]
    pending: tuple[Multicast, ...]
    counts: tuple[tuple[GroupId, int], ...]
    overflowed: bool = False
    """Whether not all was kept that those miss who are awaited."""
    passed: tuple[MessageId, ...] = ()
    """What of it this site has taken back and goes on behind."""
    lineup: Lineup = ()
    """The sites of `instance`, and of the graphs before it."""
    wishes: tuple[tuple[GroupId, bool], ...] = ()
    """Groups that this site wants to be in, or out of."""
