"""What a site's log holds, and how the site takes up its edges from it after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Multicast
from ordercast.core.effects import Replay
from ordercast.core.events import Recovered
from ordercast.protocols.propagation_graph.edges import Incoming
from ordercast.protocols.propagation_graph.packets import Forward, State, Submitted, Taken

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.protocol import PropagationGraph


class Recovery:
    """The log holds the site's order. Going through it gives the same numbers to the same messages again."""

    def __init__(self, core: PropagationGraph) -> None:
        self._core = core

    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold, at the most."""
        core = self._core
        return sum(len(edge.kept) for edge in core.outgoing.values()) + len(core.incoming_edge(core.site).waiting)

    def checkpoint_state(self) -> State:
        """Where every edge stands, and what is kept, each message once."""
        core = self._core
        kept = {id(message): message for edge in core.outgoing.values() for message in edge.kept.values()}
        return State(
            tuple((edge.sender, edge.taken) for edge in core.incoming.values()),
            tuple((edge.to, edge.highest, edge.acknowledged) for edge in core.outgoing.values()),
            (*kept.values(), *core.incoming_edge(core.site).waiting.values()),
        )

    def recover(self, event: Recovered) -> None:
        """The checkpoint, then the records since, in their order."""
        core = self._core
        if isinstance(event.checkpoint, State):
            self.restore(event.checkpoint)
        for record in event.records:
            if isinstance(record, Submitted):
                if record.to == core.site:
                    core.queue_here(core.incoming_edge(core.site), record.multicast)
                else:
                    core.keep_submission(record.to, record.multicast)
            elif isinstance(record, Taken):
                self.take_again(core.incoming_edge(record.sender), record.multicast)

    def restore(self, state: State) -> None:
        """The checkpoint."""
        core = self._core
        for site, taken in state.incoming:
            core.incoming_edge(site).restore(taken)
        acknowledged = {site: known for site, _, known in state.outgoing}
        for message in state.kept:
            way = core.routes.way(message.multicast.groups)
            if isinstance(message, Forward):
                for site, number in zip(way.onward[core.site], message.numbers, strict=True):
                    if number > acknowledged[site]:
                        core.outgoing_edge(site).kept[number] = message
            elif way.entry == core.site:
                core.queue_here(core.incoming_edge(core.site), message.multicast)
            else:
                core.outgoing_edge(way.entry).kept[message.number] = message
        for site, highest, known in state.outgoing:
            edge = core.outgoing_edge(site)
            edge.restore(highest, known)
            core.own_pending += edge.submissions

    def take_again(self, edge: Incoming, multicast: Multicast) -> None:
        """What `take` did before the crash; the application has it, or gets it now."""
        core = self._core
        edge.restore(edge.taken + 1)
        if edge.waiting.pop(edge.taken, None) is not None:
            core.own_pending -= 1
        step = core.find_step(multicast.groups)
        if step.to:
            core.forward(step, multicast)
        if step.member:
            core.outbox.append(Replay(multicast, None, None if edge.sender == core.site else edge.sender))
