"""A site's part in the choice of the next graph: it stops, tells what it has had, and accepts one (7.1.1, 7.3).

The choice is a consensus among the sites of the graph that is replaced, in ballots (Lamport 1998): who wants to make
the next graph collects the promises of a majority, which are also the histories; proposes what a majority may have
accepted already, else what the histories amount to; and what a majority has accepted follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.propagation_graph.relaxed.graphs import Graph
from ordercast.protocols.propagation_graph.relaxed.packets import Agreed, Collect, History, Propose, Refused
from ordercast.protocols.propagation_graph.relaxed.records import Accepted, Pledged

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph


class Acceptor(Part):
    """What this site has promised and accepted, for the latest graph of which it knows that it is to be replaced."""

    packets = (Collect, Propose)
    records = (Pledged, Accepted)
    branches = ("stopped", "kept-an-earlier-choice", "lower-ballot")

    def __init__(self, core: RelaxedGraph) -> None:
        self._core = core
        self.instance = 0
        """The graph that is to be replaced."""
        self.pledged = 0
        """The ballot below which nothing is accepted; 0: nobody was promised anything."""
        self.accepted_ballot = 0
        self.accepted: Graph | None = None

    def begin(self, graph: int) -> None:
        """A graph is open here."""
        if graph > self.instance:
            self.instance, self.pledged, self.accepted_ballot, self.accepted = graph, 0, 0, None

    def _may(self, sender: SiteId, graph: int, ballot: int) -> bool:
        """Whether a ballot is not below what was promised."""
        core = self._core
        if graph < self.instance or (graph == self.instance and ballot < self.pledged):
            core.branch("lower-ballot")
            core.watching.note_other_graph(sender, graph)
            core.reply(sender, Refused(self.instance, self.pledged))
            return False
        if ballot < 1:
            raise WireError(f"a ballot {ballot} of {sender}")
        return True

    def on_collect(self, sender: SiteId, packet: Collect, arrival: Arrival) -> None:
        """Stop for good, in the log, before anything is told. (Else: this site tells its history, crashes, takes more
        in the old graph, and the new one begins without that.)"""
        core = self._core
        if not self._may(sender, packet.graph, packet.ballot):
            return
        if (packet.graph, packet.ballot) != (self.instance, self.pledged):
            record = Pledged(packet.graph, packet.ballot)
            core.append(record)
            self.recall_pledged(record)
            core.branch("stopped")
            core.stop()
            core.coordinator.yield_to(sender, packet.graph, packet.ballot)
        history = core.history
        core.reply(
            sender,
            History(
                packet.graph,
                packet.ballot,
                core.number,
                core.is_running,
                self.accepted_ballot,
                self.accepted,
                history.listed(),
                tuple(sorted(history.marks.items())),
                history.settled_list(),
                core.pending.addresses(),
                tuple(sorted(core.counts.items())),
                core.shares.left(),
                core.shares.given_left(),
            ),
        )

    def recall_pledged(self, record: Pledged) -> None:
        """See `on_collect`."""
        if record.graph > self.instance:
            self.accepted_ballot, self.accepted = 0, None
        self.instance, self.pledged = record.graph, record.ballot

    def on_propose(self, sender: SiteId, packet: Propose, arrival: Arrival) -> None:
        """Accept it, unless a higher ballot was promised."""
        core = self._core
        if packet.following.number != packet.graph + 1:
            raise WireError(f"{sender} proposes graph {packet.following.number} after {packet.graph}")
        if not self._may(sender, packet.graph, packet.ballot):
            return
        record = Accepted(packet.graph, packet.ballot, packet.following)
        if (self.accepted_ballot, self.instance) != (packet.ballot, packet.graph):
            core.append(record)
            self.recall_accepted(record)
            core.stop()
        core.reply(sender, Agreed(packet.graph, packet.ballot))

    def recall_accepted(self, record: Accepted) -> None:
        """See `on_propose`."""
        self.instance, self.pledged = record.graph, record.ballot
        self.accepted_ballot, self.accepted = record.ballot, record.following
