"""Mutants of the propagation graph that goes on without failed sites (`delivery = "non-atomic"`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec.structs import replace

from ordercast.core import Arrangement, OptionValues, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.propagation_graph import PropagationGraph
from ordercast.protocols.propagation_graph.relaxed.catching_up import CatchingUp
from ordercast.protocols.propagation_graph.relaxed.coordinator import Coordinator
from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph
from ordercast.protocols.propagation_graph.relaxed.graphs import Graph, Listed
from ordercast.protocols.propagation_graph.relaxed.history import Held, HistoryKeeping
from ordercast.protocols.propagation_graph.relaxed.packets import Agreed, Grant, Pass, Renew, Share, Took
from ordercast.protocols.propagation_graph.relaxed.pending import Pending
from ordercast.protocols.propagation_graph.relaxed.records import Entered
from ordercast.protocols.propagation_graph.relaxed.rejoining import Rejoining
from ordercast.protocols.propagation_graph.relaxed.shares import Shares
from ordercast.protocols.propagation_graph.relaxed.watching import Watching
from tests.mutants.registry import Method, Mutant, call_without_log, make_mutant, mutant


def _only(mode: OptionValues) -> Arrangement:
    arrangement = PropagationGraph.arrangement
    return replace(arrangement, campaign=replace(arrangement.campaign, modes=(mode,)))


class NonAtomic(RelaxedGraph):
    """No run of its campaigns is atomic, and sites come back by skip."""

    arrangement = _only({"delivery": "non-atomic", "rejoin": "skip"})


class TakingBack(RelaxedGraph):
    """The same, and sites come back by rollback."""

    arrangement = _only({"delivery": "non-atomic", "rejoin": "rollback"})


ONLY_WRITTEN: list[Mutant] = []
"""Random faults have not shown these in some hundred seeds; the runs in `written` do."""


def only_written(method: str) -> Callable[[Method], Method]:
    """Register a function as the replacement of a method, as `mutant` does."""

    def register(function: Method) -> Method:
        ONLY_WRITTEN.append(make_mutant(NonAtomic, method, function))
        return function

    return register


@mutant(NonAtomic, "shares.is_held", caught_by="R2")
def delivers_without_a_share(self: Shares, now: float) -> bool:
    """No leases: whoever is cut off goes on in the old graph."""
    return not self._core.is_closed


@only_written("coordinator._wait")
def opens_before_old_shares_end(self: Coordinator) -> None:
    """The next graph begins as soon as it is chosen, while a site that is cut off still delivers in the old one."""
    self.on_begin_timeout()


@only_written("coordinator._wait")
def catches_up_before_old_shares_end(self: Coordinator) -> None:
    """What stands in the order is delivered as soon as the graph is chosen; nothing new before the old shares end."""
    core, waits = self._core, [0.0]
    run, set_timer = core.run, core.set_timer

    def note_wait(timer: Hashable, after_seconds: float) -> None:
        if timer == "begin":
            waits.append(after_seconds)
        else:
            set_timer(timer, after_seconds)

    core.set_timer = note_wait  # type: ignore[method-assign]
    Coordinator._wait(self)
    core.set_timer = set_timer  # type: ignore[method-assign]
    until = core.now + waits[-1]

    def run_later() -> None:
        if core.now >= until:
            run()

    core.run = run_later  # type: ignore[method-assign]
    self.on_begin_timeout()


@only_written("shares.on_share")
def counts_a_share_from_its_arrival(self: Shares, sender: SiteId, packet: Share, arrival: Arrival) -> None:
    """A share that was long on its way lasts longer than the lease of which it is a part."""
    if packet.attempt in self._asked:
        self._asked[packet.attempt] = self._core.now
    Shares.on_share(self, sender, packet, arrival)


@only_written("shares.on_renew")
def grants_the_lease_to_two_managers(self: Shares, sender: SiteId, packet: Renew, arrival: Arrival) -> None:
    """A site that has promised somebody else to stop goes on granting the old manager its lease."""
    core = self._core
    if core.is_closed and (packet.graph, sender) == (core.number, core.graph.manager):
        core.send((sender,), Grant(packet.graph, packet.attempt, core.catching_up.is_done))
        return
    Shares.on_renew(self, sender, packet, arrival)


@mutant(NonAtomic, "receive_pass")
def takes_a_message_of_an_old_graph(self: RelaxedGraph, sender: SiteId, packet: Pass) -> None:
    """A message that is late counts as one of the present graph."""
    RelaxedGraph.receive_pass(self, sender, replace(packet, graph=self.number))


@mutant(NonAtomic, "change", caught_by="no-duplication")
def keeps_what_waits_for_its_number_in_another_graph(
    self: RelaxedGraph, graph: Graph, survived: bool
) -> tuple[bool, list[Held]]:
    """What came before its number in the old graph, and waits, takes that number in the new one."""
    waiting = {sender: dict(edge.early) for sender, edge in self.incoming.items() if sender in graph.present}
    places = dict(self._places)
    changed = RelaxedGraph.change(self, graph, survived)
    self._places.update(places)
    for sender, early in waiting.items():
        self.incoming_edge(sender).early.update(early)
    return changed


@only_written("watching.find_maker")
def takes_the_next_in_rank_for_the_maker(self: Watching) -> SiteId:
    """When the manager has failed, the next in rank is to make the next graph, also where it has failed, too."""
    first, *rest = self.ranks()
    return rest[0] if rest and first in self._core.detector.suspected else first


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


@mutant(TakingBack, "log_entered", caught_by="R2-logical")
def does_not_log_what_it_takes_back(self: RelaxedGraph, graph: Graph) -> bool:
    """A site that has taken its tail back finds it in its log after a crash, and delivers it as it was."""
    if self.site in graph.undoing:
        return bool(call_without_log(self, Entered, RelaxedGraph.log_entered, self, graph))
    return RelaxedGraph.log_entered(self, graph)
