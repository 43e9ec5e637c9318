"""Mutants of the propagation graph that goes on without failed sites (`delivery = "non-atomic"`)."""

from __future__ import annotations

from msgspec.structs import replace

from ordercast.core import Arrangement, OptionValues, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.propagation_graph import PropagationGraph
from ordercast.protocols.propagation_graph.relaxed.catching_up import CatchingUp
from ordercast.protocols.propagation_graph.relaxed.coordinator import Coordinator
from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph
from ordercast.protocols.propagation_graph.relaxed.graphs import Listed
from ordercast.protocols.propagation_graph.relaxed.history import Held, HistoryKeeping
from ordercast.protocols.propagation_graph.relaxed.packets import Agreed, Took
from ordercast.protocols.propagation_graph.relaxed.pending import Pending
from ordercast.protocols.propagation_graph.relaxed.rejoining import Rejoining
from ordercast.protocols.propagation_graph.relaxed.shares import Shares
from tests.mutants.registry import mutant


def _only(mode: OptionValues) -> Arrangement:
    arrangement = PropagationGraph.arrangement
    return replace(arrangement, campaign=replace(arrangement.campaign, modes=(mode,)))


class NonAtomic(RelaxedGraph):
    """No run of its campaigns is atomic, and sites come back by skip."""

    arrangement = _only({"delivery": "non-atomic", "rejoin": "skip"})


class TakingBack(RelaxedGraph):
    """The same, and sites come back by rollback."""

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


@mutant(TakingBack, "rejoining.take_back", caught_by="R3")
def takes_nothing_back(self: Rejoining, order: list[Listed], undoes: bool) -> list[Held]:
    """The tail of a site that comes back stands."""
    return []


@mutant(TakingBack, "catching_up.begin", caught_by="R3")
def delivers_the_undone_again_as_it_was(self: CatchingUp, missing: list[Listed]) -> None:
    """What was taken back comes before what was missed, wherever the order has it."""
    held = self._core.history.held
    CatchingUp.begin(self, sorted(missing, key=lambda item: item.id not in held))
