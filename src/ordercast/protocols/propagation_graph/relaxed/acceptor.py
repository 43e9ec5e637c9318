"""A site's part in the choice of the next graph: it stops, tells what it has had, and accepts one (7.1.1, 7.3).

The choice is a consensus among the sites of the graph that is replaced, in ballots (Lamport 1998): who wants to make
the next graph collects the promises of a majority, which are also the histories; proposes what a majority may have
accepted already, else what the histories amount to; and what a majority has accepted follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.propagation_graph.relaxed.graphs import LINEUP_MAX, Graph, Lineup, sites_at
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
        self.before: tuple[int, int, int, Graph | None] = (-1, 0, 0, None)
        """The same of the graph before: what follows it is decided, and those who know it may be dead.

        (Else: a, c and f have accepted graph 4, which is open at d alone; d asks b to replace it, and dies with two
        more. Of seven, four are left; nobody can say what follows graph 3 without b, which answers for graph 4 only,
        and nobody else has heard of that.)"""
        self.lineup: Lineup = core.graph.known_lineup
        """The sites of the instance, and of the graphs before it."""

    def begin(self, graph: Graph) -> None:
        """A graph is open here."""
        if graph.number > self.instance:
            self._turn_to(graph.number, graph.known_lineup)

    def _turn_to(self, instance: int, lineup: Lineup) -> None:
        before = (self.instance, self.pledged, self.accepted_ballot, self.accepted)
        self.before = before if self.instance == instance - 1 else (-1, 0, 0, None)
        self.instance, self.pledged, self.accepted_ballot, self.accepted = instance, 0, 0, None
        self.lineup = lineup

    def state_of(self, instance: int) -> tuple[int, int, Graph | None]:
        """What was promised and accepted for a graph."""
        if instance == self.before[0]:
            return self.before[1:]
        return (self.pledged, self.accepted_ballot, self.accepted) if instance == self.instance else (0, 0, None)

    def _set(self, instance: int, pledged: int, accepted_ballot: int, accepted: Graph | None, lineup: Lineup) -> None:
        if instance == self.before[0]:
            self.before = (instance, pledged, accepted_ballot, accepted)
            return
        if instance > self.instance:
            self._turn_to(instance, lineup)
        self.pledged, self.accepted_ballot, self.accepted = pledged, accepted_ballot, accepted

    def _may(self, sender: SiteId, graph: int, ballot: int, lineup: Lineup) -> bool:
        """Whether a ballot is not below what was promised. Who speaks of a later graph than the one that is open here
        is in it, and so is this site: both may be new in it. Who speaks of an earlier one may have left since."""
        core = self._core
        # Of a graph that this site knows, it knows the sites.
        sites = core.graph.sites if graph <= core.number else sites_at(lineup, graph) or core.graph.sites
        if ballot < 1 or len(lineup) > LINEUP_MAX or (sender not in sites and graph >= core.number):
            raise WireError(f"a ballot {ballot} of {sender}")
        if sender not in sites or core.site not in sites:
            core.coordinator.tell(sender)
            return False
        known = graph >= self.instance or (graph == self.before[0] and graph >= core.number)
        if not known or ballot < self.state_of(graph)[0]:
            core.branch("lower-ballot")
            if graph < core.number:
                core.coordinator.tell(sender)
            core.reply(sender, Refused(graph, self.instance, self.state_of(graph)[0], self.lineup))
            return False
        return True

    def on_collect(self, sender: SiteId, packet: Collect, arrival: Arrival) -> None:
        """Stop for good, in the log, before anything is told. (Else: this site tells its history, crashes, takes more
        in the old graph, and the new one begins without that.)"""
        core = self._core
        if not self._may(sender, packet.graph, packet.ballot, packet.lineup):
            return
        pledged, accepted_ballot, accepted = self.state_of(packet.graph)
        if packet.ballot != pledged or packet.graph > self.instance:
            record = Pledged(packet.graph, packet.ballot, packet.lineup or core.graph.known_lineup)
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
                accepted_ballot,
                accepted,
                history.listed(),
                tuple(sorted(history.marks.items())),
                history.settled_list(),
                core.pending.addresses(),
                tuple(sorted(core.counts.items())),
                core.shares.left(),
                core.shares.given_left(),
                not history.overflowed,
            ),
        )

    def recall_pledged(self, record: Pledged) -> None:
        """See `on_collect`."""
        self._set(record.graph, record.ballot, *self.state_of(record.graph)[1:], record.lineup)

    def on_propose(self, sender: SiteId, packet: Propose, arrival: Arrival) -> None:
        """Accept it, unless a higher ballot was promised."""
        core = self._core
        following = packet.following
        core.graph.check_successor(following, sender)
        if following.number != packet.graph + 1:
            raise WireError(f"{sender} proposes graph {following.number} after {packet.graph}")
        if not self._may(sender, packet.graph, packet.ballot, following.known_lineup):
            return
        record = Accepted(packet.graph, packet.ballot, packet.following)
        if self.state_of(packet.graph)[1] != packet.ballot:
            core.append(record)
            self.recall_accepted(record)
            core.stop()
        core.reply(sender, Agreed(packet.graph, packet.ballot))

    def recall_accepted(self, record: Accepted) -> None:
        """See `on_propose`."""
        self._set(record.graph, record.ballot, record.ballot, record.following, record.following.known_lineup)
