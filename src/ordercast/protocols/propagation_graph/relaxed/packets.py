"""What sites say to each other besides, where delivery goes on without those that fail."""

from __future__ import annotations

from ordercast.core import GroupId, MessageId, Multicast, Packet, SiteId
from ordercast.protocols.propagation_graph.packets import Forward
from ordercast.protocols.propagation_graph.relaxed.graphs import Address, Graph, Lineup, Listed, Settled


class Pass(Forward, frozen=True):
    """Site -> the next ones on the message's way, as `Forward`."""

    place: int = 0
    """The number that the message's primary destination has given it."""
    stable: int = 0
    """Everybody has what entered there, up to this number."""


class Took(Packet, frozen=True):
    """Receiver of an edge -> its sender: I have taken everything up to `taken`, and everyone below me, to whom it goes,
    everything up to `settled`."""

    background = True
    graph: int
    taken: int
    settled: int


class Stable(Packet, frozen=True):
    """Site -> those below: everybody has what entered at these sites, up to these numbers."""

    background = True
    graph: int
    marks: tuple[tuple[SiteId, int], ...]


# ---------------------------------------------------------------------- leases
class Renew(Packet, frozen=True):
    """Manager -> all who take part: promise me to begin no other graph, from now on, for the time of a lease."""

    background = True
    graph: int
    attempt: int
    started: bool


class Grant(Packet, frozen=True):
    """Site -> manager: I do, and ask for a share of the lease."""

    background = True
    graph: int
    attempt: int
    caught_up: bool


class Share(Packet, frozen=True):
    """Manager -> site: so many seconds are left of the lease."""

    background = True
    graph: int
    attempt: int
    left: float
    started: bool


# ---------------------------------------------------------------------- the next graph
class Report(Packet, frozen=True):
    """Site -> the one that would make the next graph: there is reason to."""

    background = True
    graph: int
    suspected: tuple[SiteId, ...]
    back: tuple[SiteId, ...]


class Back(Packet, frozen=True):
    """A site that has failed -> all whom it knows: I am there."""

    background = True
    graph: int
    closed: bool
    """Whether it can only go on in another graph."""
    ready: bool = False
    """Whether it has fetched what it missed, or cannot."""


class Kept(Packet, frozen=True):
    """Site -> one that is back: fetch what you missed before you are let in. You have had what I have up to `at`, and
    so many messages are left."""

    background = True
    graph: int
    at: int
    left: int


class Missed(Packet, frozen=True):
    """A site that is back -> one that has gone on: what have you taken behind this place in your history?"""

    background = True
    graph: int
    at: int


class Collect(Packet, frozen=True):
    """Who makes the next graph -> all sites: stop, and tell me what you have had. The *Close* of 7.1.1, and the first
    phase of the consensus on what follows this graph."""

    background = True
    graph: int
    ballot: int
    lineup: Lineup = ()
    """The sites of that graph, which decide, and of those before it; empty: those that all have begun with."""


class Refused(Packet, frozen=True):
    """Site -> who makes the next graph: I have promised another one, or somebody replaces a later graph already."""

    background = True
    graph: int
    """The one that was asked about."""
    instance: int
    """The latest one whose replacement this site has heard of."""
    ballot: int
    """What was promised for the one that was asked about."""
    lineup: Lineup = ()
    """The sites of `instance`, and of the graphs before it."""


class History(Packet, frozen=True):
    """Site -> who makes the next graph."""

    background = True
    graph: int
    ballot: int
    number: int
    """The last graph that was open at this site."""
    running: bool
    """Whether it knows that everybody has all with which that graph began."""
    accepted_ballot: int
    accepted: Graph | None
    taken: tuple[Listed, ...]
    """What it has taken and does not know to be everywhere, in its order."""
    marks: tuple[tuple[SiteId, int], ...]
    """Primary destinations, and the numbers up to which it knows that everybody has it."""
    settled: tuple[Settled, ...]
    pending: tuple[Address, ...]
    """Of its own messages, the addresses of those of which it does not know that everybody has them."""
    counts: tuple[tuple[GroupId, int], ...]
    grant_left: float
    """Seconds for which it has promised the manager to begin nothing else."""
    shares_left: tuple[tuple[SiteId, float], ...] | None
    """At the manager: how long the shares last that it has given; None elsewhere."""
    kept: bool = True
    """Whether it has kept all that those miss who are awaited."""


class Propose(Packet, frozen=True):
    """Who makes the next graph -> all sites: this one."""

    background = True
    graph: int
    ballot: int
    following: Graph


class Agreed(Packet, frozen=True):
    """Site -> who makes the next graph: it is in my log."""

    background = True
    graph: int
    ballot: int


class Begin(Packet, frozen=True):
    """Who has made it -> all who take part: the old one has ended, and this one begins. The *Open* of 5.2."""

    background = True
    following: Graph


class Begun(Packet, frozen=True):
    """Site -> who has made the graph: it is open here."""

    background = True
    graph: int


class Fetch(Packet, frozen=True):
    """Site -> one that has what it lacks."""

    background = True
    graph: int
    messages: tuple[MessageId, ...]


class Fetched(Packet, frozen=True):
    """Here it is."""

    graph: int
    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)
