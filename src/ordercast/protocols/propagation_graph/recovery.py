"""What a site's log holds, and how the site takes up its edges from it after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part
from ordercast.core.effects import EnterGroup, Recall, Replay
from ordercast.protocols.propagation_graph.edges import IncomingEdge, Numbered, OutgoingEdge
from ordercast.protocols.propagation_graph.packets import Forward, Submit
from ordercast.protocols.propagation_graph.records import Edge, Passing, State, Submitted, Taken
from ordercast.protocols.propagation_graph.rosters import OPENS

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.protocol import PropagationGraph


class Recovery(Part):
    """The log holds the site's order. Going through it gives the same numbers to the same messages again."""

    records = (Submitted, Taken)

    def __init__(self, core: PropagationGraph) -> None:
        self._core = core

    # ------------------------------------------------------------------ checkpoints
    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold, at the most."""
        core = self._core
        own = len(core.incoming_edge(core.site).early) + len(core.source.waiting)
        return sum(len(edge.kept) for edge in core.outgoing_edges()) + own

    def checkpoint_state(self) -> State:
        """Where every edge stands, and what is kept, each message once."""
        core = self._core
        kept = {id(packet): packet for edge in core.outgoing.values() for packet in edge.kept}
        return State(
            tuple((edge.sender, edge.released) for edge in core.incoming.values()),
            tuple((edge.to, edge.highest, edge.acknowledged) for edge in core.outgoing.values()),
            (*kept.values(), *core.incoming_edge(core.site).early.values()),
            self._passing(),
        )

    def _passing(self) -> Passing:
        core = self._core
        return Passing(
            None if core.is_outside else core.roster,
            core.passage.left,
            core.closed,
            core.manager.plan,
            tuple(core.changes.wishes.items()),
            tuple(core.counts.items()),
            tuple(core.source.waiting),
            tuple(edge.to for edge in core.outgoing.values() if edge.closed),
            tuple((graph, site, taken) for (graph, site), taken in core.passage.untold.items()),
            tuple(
                Edge(edge.graph, edge.to, edge.acknowledged, tuple(edge.kept), edge.ended)
                for edge in core.past.values()
            ),
        )

    def restore(self, state: State) -> None:
        """The checkpoint."""
        core = self._core
        if state.passing is not None:
            self._restore_passing(state.passing)
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
                self._keep(edge, packet)
        if core.closed is not None:
            for edge in core.steps[(), None].edges:
                edge.ended = True

    def _keep(self, edge: OutgoingEdge, packet: Numbered) -> None:
        edge.keep(packet)
        if isinstance(packet, Submit):
            self._core.count_own(packet.multicast, 1)

    def _restore_passing(self, passing: Passing) -> None:
        core = self._core
        if passing.roster is None:
            core.begin_outside()
        elif passing.roster.graph != core.number:
            core.install(passing.roster)
        core.counts = dict(passing.counts)
        core.closed = passing.close
        core.manager.plan = passing.plan
        core.changes.wishes = dict(passing.wishes)
        core.passage.left = passing.left
        core.passage.untold = {(graph, site): taken for graph, site, taken in passing.untold}
        for site in passing.resolved:
            core.outgoing_edge(site).closed = True
        for past in passing.past:
            edge = core.past[past.graph, past.to] = OutgoingEdge(past.to, past.graph)
            edge.restore(past.acknowledged + len(past.kept), past.acknowledged)
            edge.ended = past.ended
            for packet in past.kept:
                self._keep(edge, packet)
        for multicast in passing.waiting:
            core.source.keep(multicast)
        core.holding = True
        if passing.roster is not None and passing.roster.graph:
            for group in passing.roster.groups_of(core.site):
                core.outbox.append(EnterGroup(group, core.counts[group]))
                core.passage.install_view(group, passing.roster)

    # ------------------------------------------------------------------ records
    def recall_submitted(self, record: Submitted) -> None:
        """An own message."""
        core = self._core
        core.outbox.append(Recall(record.multicast))
        if not record.to:
            core.source.keep(record.multicast)
        elif record.to == core.site:
            core.queue_here(core.incoming_edge(core.site), record.multicast)
        else:
            core.keep_submission(record.to, record.multicast)

    def recall_taken(self, record: Taken) -> None:
        """What `take` did before the crash; the application has the message, or gets it now."""
        core, multicast = self._core, record.multicast
        if not multicast.groups and multicast.id.incarnation == OPENS:
            core.passage.begin(record.sender, multicast)
            return
        if record.queued:
            core.passage.recall_queued(record.sender)
        else:
            edge = core.incoming_edge(record.sender) if record.sender else IncomingEdge("")
            edge.restore(edge.released + 1)
            if edge.early.pop(edge.released, None) is not None:
                core.count_own(multicast, -1)
        step = core.steps[multicast.groups, multicast.destinations]
        for group in step.counted:
            core.counts[group] += multicast.count
        if step.to:
            core.forward(step, multicast)
        if step.member:
            core.outbox.append(Replay(multicast, None, None if record.sender == core.site else record.sender))
        elif not multicast.groups:
            core.passage.note_closed(multicast, record.sender)
