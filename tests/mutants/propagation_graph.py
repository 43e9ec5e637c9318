"""Mutants of the propagation graph's message passing protocol."""

from __future__ import annotations

from ordercast.core import Multicast, SiteId
from ordercast.core.effects import Replay, Send
from ordercast.core.events import Arrival, MulticastRequested
from ordercast.protocols.propagation_graph import PropagationGraph
from ordercast.protocols.propagation_graph.edges import IncomingEdge, Numbered
from ordercast.protocols.propagation_graph.packets import Acknowledge, Null, Request, Submit
from ordercast.protocols.propagation_graph.records import Submitted, Taken
from ordercast.protocols.propagation_graph.recovery import Recovery
from ordercast.protocols.propagation_graph.repair import Repair
from tests.mutants.registry import call_without_log, mutant


@mutant(PropagationGraph, "take")
def forgets_its_order(self: PropagationGraph, edge: IncomingEdge, multicast: Multicast, queued: bool = False) -> None:
    """What is sent on and delivered is not logged: after a crash its numbers are given to other messages."""
    call_without_log(self, Taken, PropagationGraph.take, self, edge, multicast, queued)


@mutant(PropagationGraph, "on_multicast_requested", caught_by="termination")
def forgets_its_submissions(self: PropagationGraph, event: MulticastRequested) -> None:
    """A submission is not logged: a source that crashes before it is taken has never heard of it."""
    call_without_log(self, Submitted, PropagationGraph.on_multicast_requested, self, event)


@mutant(PropagationGraph, "receive", caught_by="multiple-group-order")
def takes_what_comes(self: PropagationGraph, sender: SiteId, number: int, message: Numbered) -> None:
    """No sequence numbers: a message is sent on and delivered when it comes, whatever was sent before it."""
    edge = self.incoming_edge(sender)
    known: set[int] = self.__dict__.setdefault(f"known-{sender}", set())
    if number > edge.released and number not in known:
        known.add(number)
        released = edge.released
        self.take(edge, message.multicast)
        edge.released = released
        while edge.released + 1 in known:
            edge.released += 1


@mutant(PropagationGraph, "receive", caught_by="no-duplication")
def takes_copies(self: PropagationGraph, sender: SiteId, number: int, message: Numbered) -> None:
    """No duplicate check: a copy of what was taken is taken again."""
    edge = self.incoming_edge(sender)
    if number <= edge.released:
        released = edge.released
        self.take(edge, message.multicast)
        edge.released = released
    else:
        PropagationGraph.receive(self, sender, number, message)


@mutant(PropagationGraph, "receive")
def has_no_wait_queue_for_children(self: PropagationGraph, sender: SiteId, number: int, message: Numbered) -> None:
    """What comes early is sent on at once, and delivered here in its turn: below, the order is another one."""
    edge = self.incoming_edge(sender)
    step = self.steps[message.multicast.groups, message.multicast.destinations]
    ahead: set[int] = self.__dict__.setdefault(f"ahead-{sender}", set())
    if number > edge.released + 1 and number not in ahead and step.to:
        ahead.add(number)
        self.outbox.append(Send(step.to, self.forward(step, message.multicast)))
    PropagationGraph.receive(self, sender, number, message)


@mutant(PropagationGraph, "recovery.recall_taken", caught_by="termination")
def forgets_whom_it_owes(self: Recovery, record: Taken) -> None:
    """After a crash nothing is kept for the children: what they have not got they never get."""
    Recovery.recall_taken(self, record)
    for edge in self._core.steps[record.multicast.groups, record.multicast.destinations].edges:
        forgotten = edge.acknowledge(edge.highest)
        self._core.own_pending -= sum(isinstance(packet, Submit) for packet in forgotten)


@mutant(PropagationGraph, "recovery.recall_taken", caught_by="termination")
def forgets_the_undelivered(self: Recovery, record: Taken) -> None:
    """What was logged and not yet delivered when the site crashed is never delivered."""
    Recovery.recall_taken(self, record)
    outbox = self._core.outbox
    outbox[:] = [effect for effect in outbox if not isinstance(effect, Replay)]


@mutant(PropagationGraph, "repair.on_request", caught_by="termination")
def does_not_send_again(self: Repair, sender: SiteId, packet: Request, arrival: Arrival) -> None:
    """No retransmission."""


@mutant(PropagationGraph, "repair.on_look_timeout", caught_by="termination")
def sends_no_nulls(self: Repair) -> None:
    """A last message that is lost shows in no gap, and nobody announces it."""


@mutant(PropagationGraph, "repair.on_null", caught_by="termination")
def does_not_listen_to_nulls(self: Repair, sender: SiteId, packet: Null, arrival: Arrival) -> None:
    """Whoever has missed the last message does not ask for it."""
    taken = self._core.incoming_edge(sender).released
    Repair.on_null(self, sender, Null(min(packet.highest, taken), packet.graph, packet.ended), arrival)


@mutant(PropagationGraph, "repair.on_ask_timeout", caught_by="termination")
def asks_once(self: Repair) -> None:
    """A request that is lost is not repeated."""


@mutant(PropagationGraph, "repair.acknowledge", caught_by="termination")
def acknowledges_what_waits(self: Repair, edge: IncomingEdge) -> None:
    """What has come early is acknowledged with what is missing before it, and its sender forgets both."""
    edge.told = edge.released
    if edge.sender != self._core.site:
        self._core.outbox.append(
            Send((edge.sender,), Acknowledge(max(edge.early, default=edge.released), self._core.number))
        )


@mutant(PropagationGraph, "repair.look_at_once", caught_by="termination")
def comes_back_silently(self: Repair) -> None:
    """After a crash a site does not say what there is; whoever missed the last message never hears of it."""
