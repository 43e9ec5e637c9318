"""What a site's log holds, and how the site takes up its edges from it after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part
from ordercast.core.effects import Replay
from ordercast.protocols.propagation_graph.edges import Numbered, OutgoingEdge
from ordercast.protocols.propagation_graph.packets import Forward, State, Submit, Submitted, Taken

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.protocol import PropagationGraph


class Recovery(Part):
    """The log holds the site's order. Going through it gives the same numbers to the same messages again."""

    records = (Submitted, Taken)

    def __init__(self, core: PropagationGraph) -> None:
        self._core = core

    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold, at the most."""
        core = self._core
        return sum(len(edge.kept) for edge in core.outgoing.values()) + len(core.incoming_edge(core.site).early)

    def checkpoint_state(self) -> State:
        """Where every edge stands, and what is kept, each message once."""
        core = self._core
        kept = {id(packet): packet for edge in core.outgoing.values() for packet in edge.kept}
        return State(
            tuple((edge.sender, edge.released) for edge in core.incoming.values()),
            tuple((edge.to, edge.highest, edge.acknowledged) for edge in core.outgoing.values()),
            (*kept.values(), *core.incoming_edge(core.site).early.values()),
        )

    def restore(self, state: State) -> None:
        """The checkpoint."""
        core = self._core
        for site, taken in state.incoming:
            core.incoming_edge(site).restore(taken)
        acknowledged = {site: known for site, _, known in state.outgoing}
        kept: dict[OutgoingEdge, dict[int, Numbered]] = {}
        for packet in state.kept:
            way = core.routes.ways[packet.multicast.groups, packet.multicast.destinations]
            if isinstance(packet, Forward):
                for site, number in zip(way.onward[core.site], packet.numbers, strict=True):
                    if number > acknowledged[site]:
                        kept.setdefault(core.outgoing_edge(site), {})[number] = packet
            elif way.entry == core.site:
                core.queue_here(core.incoming_edge(core.site), packet.multicast)
            else:
                kept.setdefault(core.outgoing_edge(way.entry), {})[packet.number] = packet
        for site, highest, known in state.outgoing:
            edge = core.outgoing_edge(site)
            edge.restore(highest, known)
            for _, packet in sorted(kept.get(edge, {}).items()):
                edge.keep(packet)
                if isinstance(packet, Submit):
                    core.count_own(packet.multicast, 1)

    def recall_submitted(self, record: Submitted) -> None:
        """An own message."""
        core = self._core
        if record.to == core.site:
            core.queue_here(core.incoming_edge(core.site), record.multicast)
        else:
            core.keep_submission(record.to, record.multicast)

    def recall_taken(self, record: Taken) -> None:
        """What `take` did before the crash; the application has the message, or gets it now."""
        core = self._core
        edge, multicast = core.incoming_edge(record.sender), record.multicast
        edge.restore(edge.released + 1)
        if edge.early.pop(edge.released, None) is not None:
            core.count_own(multicast, -1)
        step = core.steps[multicast.groups, multicast.destinations]
        if step.to:
            core.forward(step, multicast)
        if step.member:
            core.outbox.append(Replay(multicast, None, None if edge.sender == core.site else edge.sender))
