"""Mutants of the propagation graph that goes on without failed sites (`delivery = "non-atomic"`)."""

from __future__ import annotations

from msgspec.structs import replace

from ordercast.core import Arrangement, OptionValues, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.propagation_graph import PropagationGraph
from ordercast.protocols.propagation_graph.relaxed.acceptor import Acceptor
from ordercast.protocols.propagation_graph.relaxed.catching_up import CatchingUp
from ordercast.protocols.propagation_graph.relaxed.coordinator import Coordinator
from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph
from ordercast.protocols.propagation_graph.relaxed.graphs import Graph, Listed
from ordercast.protocols.propagation_graph.relaxed.history import Held, HistoryKeeping
from ordercast.protocols.propagation_graph.relaxed.packets import Agreed, Pass, Share, Took
from ordercast.protocols.propagation_graph.relaxed.pending import Pending
from ordercast.protocols.propagation_graph.relaxed.records import Entered
from ordercast.protocols.propagation_graph.relaxed.rejoining import Rejoining
from ordercast.protocols.propagation_graph.relaxed.shares import Shares
from tests.mutants.registry import call_without_log, mutant


def _only(mode: OptionValues) -> Arrangement:
    arrangement = PropagationGraph.arrangement
    return replace(arrangement, campaign=replace(arrangement.campaign, modes=(mode,)))


class NonAtomic(RelaxedGraph):
    """No run of its campaigns is atomic."""

    arrangement = _only({"delivery": "non-atomic"})


class TakingBack(RelaxedGraph):
    """And in all of them sites come back by rollback."""

    arrangement = _only({"delivery": "non-atomic", "rejoin": "rollback"})


@mutant(NonAtomic, "shares.is_held", caught_by="R2")
def delivers_without_a_share(self: Shares, now: float) -> bool:
    """No leases: whoever is cut off goes on in the old graph."""
    return not self._core.is_closed


@mutant(NonAtomic, "coordinator.on_agreed")
def needs_no_majority(self: Coordinator, sender: SiteId, packet: Agreed, arrival: Arrival) -> None:
    """One site is enough to choose the next graph."""
    if packet.ballot == self._ballot and self._proposed is not None and self._chosen is None:
        self._chosen = self._proposed
        self._wait()


@mutant(NonAtomic, "history.on_took", caught_by="agreement")
def acknowledges_hop_by_hop(self: HistoryKeeping, sender: SiteId, packet: Took, arrival: Arrival) -> None:
    """What the next site has taken counts as taken by all below it, and is forgotten."""
    HistoryKeeping.on_took(self, sender, replace(packet, settled=packet.taken), arrival)


@mutant(NonAtomic, "history.listed")
def cuts_its_history_short(self: HistoryKeeping) -> tuple[Listed, ...]:
    """Of what it has taken, a site tells the last message only."""
    return HistoryKeeping.listed(self)[-1:]


@mutant(NonAtomic, "pending.begin", caught_by="termination")
def asks_no_sources(self: Pending) -> None:
    """What only failed sites had does not come again."""
    self._sent.clear()
    self._core.own_pending = self._core.own_pending_bytes = 0


@mutant(NonAtomic, "coordinator._wait")
def opens_before_the_old_shares_end(self: Coordinator) -> None:
    """The next graph begins, and sites catch up in it, while somebody may deliver in the old one (errata A5.11)."""
    self.on_begin_timeout()


@mutant(NonAtomic, "acceptor._may")
def promises_two_managers(self: Acceptor, sender: SiteId, graph: int, ballot: int) -> bool:
    """Whoever has promised one site to accept nothing older accepts what another one proposes."""
    return graph >= self.instance


@mutant(NonAtomic, "pending.begin")
def submits_again_what_is_in_the_order(self: Pending) -> None:
    """What the others have caught up with is taken from its source again (A5.3: L_s is not recomputed)."""
    self.is_too_much = False
    self._sent.clear()
    self._core.own_pending = self._core.own_pending_bytes = 0
    for multicast in list(self.messages.values()):
        self._submit(multicast)


@mutant(NonAtomic, "receive_pass")
def takes_messages_of_an_old_graph(self: RelaxedGraph, sender: SiteId, packet: Pass) -> None:
    """A message that was under way when the graph was replaced is taken for one of the new graph."""
    RelaxedGraph.receive_pass(self, sender, replace(packet, graph=self.number))


@mutant(NonAtomic, "shares.on_share")
def counts_its_share_from_its_arrival(self: Shares, sender: SiteId, packet: Share, arrival: Arrival) -> None:
    """A share that was long under way lasts longer than the lease."""
    core = self._core
    if packet.graph == core.number and sender == core.graph.manager and not core.is_closed:
        if packet.started:
            core.run()
        self._extend(core.now + packet.left)


@mutant(TakingBack, "rejoining.take_back", caught_by="R3")
def takes_nothing_back(self: Rejoining, order: list[Listed], undoes: bool) -> list[Held]:
    """The tail of a site that comes back stands."""
    return []


@mutant(TakingBack, "enter")
def does_not_log_what_it_takes_back(self: RelaxedGraph, graph: Graph) -> None:
    """After a crash what was taken back counts as delivered."""
    if self.site in graph.undoing:
        call_without_log(self, Entered, RelaxedGraph.enter, self, graph)
    else:
        RelaxedGraph.enter(self, graph)


@mutant(TakingBack, "catching_up.begin", caught_by="R3")
def delivers_the_undone_again_as_it_was(self: CatchingUp, missing: list[Listed]) -> None:
    """What was taken back comes before what was missed, wherever the order has it."""
    held = self._core.history.held
    CatchingUp.begin(self, sorted(missing, key=lambda item: item.id not in held))
