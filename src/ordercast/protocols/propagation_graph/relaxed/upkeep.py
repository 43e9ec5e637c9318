"""Repair of edges where acknowledgements tell what everyone below has (Spauster 7.1.1; see `history`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from ordercast.core import Packet, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.propagation_graph.edges import IncomingEdge, OutgoingEdge
from ordercast.protocols.propagation_graph.packets import Acknowledge, Held, Null
from ordercast.protocols.propagation_graph.relaxed.packets import Pass, Took
from ordercast.protocols.propagation_graph.repair import Repair

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph


class Upkeep(Repair):
    """As `Repair`, within one graph: what is left of an earlier one is nobody's any more."""

    packets: ClassVar[tuple[type[Packet], ...]] = (*Repair.packets, Pass)

    @property
    def _relaxed(self) -> RelaxedGraph:
        return cast("RelaxedGraph", self._core)

    def on_look_timeout(self) -> None:
        """Announce what nobody acknowledges."""
        if self._relaxed.is_closed:
            self._looking = False
        else:
            super().on_look_timeout()

    def on_pass(self, sender: SiteId, packet: Pass, arrival: Arrival) -> None:
        """The next message of an edge."""
        self._relaxed.receive_pass(sender, packet)

    def begin(self) -> None:
        """A graph begins."""
        self._looking = self._asking = False

    def _count_vain(self, edge: OutgoingEdge) -> None:
        super()._count_vain(edge)
        self._relaxed.watching.watch()

    def take_acknowledgement(self, edge: OutgoingEdge, taken: int) -> None:
        """The receiver has taken so much."""
        self.on_acknowledge(edge.to, Acknowledge(taken, edge.graph), Arrival())

    def on_null(self, sender: SiteId, packet: Null, arrival: Arrival) -> None:
        """Ask for what is missing, or say what is taken, and who is in the way of more."""
        core = self._relaxed
        if packet.graph != core.number:
            core.hear_other_graph(sender, packet.graph)
            return
        if core.is_closed:
            return
        edge = core.incoming_edge(sender)
        edge.announce(packet.highest)
        if edge.has_gap:
            core.branch("null-found-gap")
            edge.requesting = False
            self.ask(edge)
        else:
            self.acknowledge(edge)
        if edge.stalled:
            core.send((sender,), Held(self._find_holders(edge), packet.graph))

    def acknowledge(self, edge: IncomingEdge) -> None:
        """What is taken here, and what everyone below has."""
        core = self._relaxed
        edge.told = edge.released
        if edge.sender != core.site:
            settled = core.history.settled_of(edge.sender)
            core.history.note_told(edge.sender, settled)
            core.send((edge.sender,), Took(edge.graph, edge.released, settled))
