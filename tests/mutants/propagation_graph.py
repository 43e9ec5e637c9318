"""Mutants of the propagation graph's message passing protocol."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ordercast.core import Multicast, SiteId
from ordercast.core.effects import Deliver, Replay, Send
from ordercast.core.events import Arrival, MulticastRequested
from ordercast.protocols.propagation_graph import PropagationGraph
from ordercast.protocols.propagation_graph.edges import IncomingEdge, Numbered
from ordercast.protocols.propagation_graph.manager import Manager
from ordercast.protocols.propagation_graph.packets import Acknowledge, Closed, Null, Request, Submit
from ordercast.protocols.propagation_graph.passage import Passage
from ordercast.protocols.propagation_graph.records import Planned, Submitted, Taken
from ordercast.protocols.propagation_graph.recovery import Recovery
from ordercast.protocols.propagation_graph.repair import Repair
from ordercast.protocols.propagation_graph.source import Source
from tests.mutants.registry import call_without_log, mutant


class Atomic(PropagationGraph):
    """All runs of its campaigns are atomic."""

    arrangement = replace(
        PropagationGraph.arrangement, campaign=replace(PropagationGraph.arrangement.campaign, modes=({},))
    )


@mutant(Atomic, "take")
def forgets_its_order(self: PropagationGraph, edge: IncomingEdge, multicast: Multicast, queued: bool = False) -> None:
    """What is sent on and delivered is not logged: after a crash its numbers are given to other messages."""
    call_without_log(self, Taken, PropagationGraph.take, self, edge, multicast, queued)


@mutant(Atomic, "on_multicast_requested", caught_by="termination")
def forgets_its_submissions(self: PropagationGraph, event: MulticastRequested) -> None:
    """A submission is not logged: a source that crashes before it is taken has never heard of it."""
    call_without_log(self, Submitted, PropagationGraph.on_multicast_requested, self, event)


@mutant(Atomic, "receive", caught_by="multiple-group-order")
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


@mutant(Atomic, "receive", caught_by="no-duplication")
def takes_copies(self: PropagationGraph, sender: SiteId, number: int, message: Numbered) -> None:
    """No duplicate check: a copy of what was taken is taken again."""
    edge = self.incoming_edge(sender)
    if number <= edge.released:
        released = edge.released
        self.take(edge, message.multicast)
        edge.released = released
    else:
        PropagationGraph.receive(self, sender, number, message)


@mutant(Atomic, "receive")
def has_no_wait_queue_for_children(self: PropagationGraph, sender: SiteId, number: int, message: Numbered) -> None:
    """What comes early is sent on at once, and delivered here in its turn: below, the order is another one."""
    edge = self.incoming_edge(sender)
    step = self.steps[message.multicast.groups, message.multicast.destinations]
    ahead: set[int] = self.__dict__.setdefault(f"ahead-{sender}", set())
    if number > edge.released + 1 and number not in ahead and step.to:
        ahead.add(number)
        self.outbox.append(Send(step.to, self.forward(step, message.multicast)))
    PropagationGraph.receive(self, sender, number, message)


@mutant(Atomic, "recovery.recall_taken", caught_by="termination")
def forgets_whom_it_owes(self: Recovery, record: Taken) -> None:
    """After a crash nothing is kept for the children: what they have not got they never get."""
    Recovery.recall_taken(self, record)
    for edge in self._core.steps[record.multicast.groups, record.multicast.destinations].edges:
        forgotten = edge.acknowledge(edge.highest)
        self._core.own_pending -= sum(isinstance(packet, Submit) for packet in forgotten)


@mutant(Atomic, "recovery.recall_taken", caught_by="termination")
def forgets_the_undelivered(self: Recovery, record: Taken) -> None:
    """What was logged and not yet delivered when the site crashed is never delivered."""
    Recovery.recall_taken(self, record)
    outbox = self._core.outbox
    outbox[:] = [effect for effect in outbox if not isinstance(effect, Replay)]


@mutant(Atomic, "repair.on_request", caught_by="termination")
def does_not_send_again(self: Repair, sender: SiteId, packet: Request, arrival: Arrival) -> None:
    """No retransmission."""


@mutant(Atomic, "repair.on_look_timeout", caught_by="termination")
def sends_no_nulls(self: Repair) -> None:
    """A last message that is lost shows in no gap, and nobody announces it."""


@mutant(Atomic, "repair.look_soon", caught_by="P4")
def looks_late(self: Repair) -> None:
    """What is not acknowledged is announced three times as late as it is promised."""
    if not self._looking:
        self._looking = True
        self._core.set_timer("look", 3 * self._core.options.retransmit_seconds)


@mutant(Atomic, "repair.on_look_timeout", caught_by="Q3")
def announces_to_children_now_and_then(self: Repair) -> None:
    """A site announces at every fourth look what it has sent on: its children deliver too late what it has."""
    looks = self.__dict__["looks"] = self.__dict__.get("looks", 0) + 1
    if looks % 4 or any(edge.has_submissions for edge in self._core.outgoing_edges()):
        self._looking = False
        self.look_soon()
    if not looks % 4:
        Repair.on_look_timeout(self)


@mutant(Atomic, "repair.on_null", caught_by="termination")
def does_not_listen_to_nulls(self: Repair, sender: SiteId, packet: Null, arrival: Arrival) -> None:
    """Whoever has missed the last message does not ask for it."""
    taken = self._core.incoming_edge(sender).released
    Repair.on_null(self, sender, Null(min(packet.highest, taken), packet.graph, packet.ended), arrival)


@mutant(Atomic, "repair.ask", caught_by="termination")
def asks_once(self: Repair, edge: IncomingEdge) -> None:
    """A request that is lost is not repeated."""
    if edge.asked < edge.announced:
        Repair.ask(self, edge)


@mutant(Atomic, "repair.acknowledge", caught_by="termination")
def acknowledges_what_waits(self: Repair, edge: IncomingEdge) -> None:
    """What has come early is acknowledged with what is missing before it, and its sender forgets both."""
    edge.told = edge.released
    if edge.sender != self._core.site:
        self._core.outbox.append(
            Send((edge.sender,), Acknowledge(max(edge.early, default=edge.released), self._core.number))
        )


@mutant(Atomic, "repair.look_at_once", caught_by="termination")
def comes_back_silently(self: Repair) -> None:
    """After a crash a site does not say what there is; whoever missed the last message never hears of it."""


@mutant(Atomic, "take")
def delivers_before_the_log(
    self: PropagationGraph, edge: IncomingEdge, multicast: Multicast, queued: bool = False
) -> None:
    """A message is delivered before it is logged: after a crash the site does not know what its application has."""
    before = len(self.outbox)
    PropagationGraph.take(self, edge, multicast, queued)
    written = self.outbox[before:]
    written.sort(key=lambda effect: not isinstance(effect, Deliver))
    self.outbox[before:] = written


# ---------------------------------------------------------------------- from one graph to the next
@mutant(Atomic, "passage.receive_other")
def has_no_graph_numbers(self: Passage, sender: SiteId, packet: Numbered) -> None:
    """A message of another graph is taken for one of the present graph."""
    core = self._core
    if packet.multicast.groups and not core.is_outside and isinstance(packet, Submit):
        core.on_submit(sender, replace(packet, graph=core.number), Arrival())
    else:
        Passage.receive_other(self, sender, packet)


@mutant(Atomic, "receive", caught_by="uniform-agreement")
def closes_each_root_by_itself(self: PropagationGraph, sender: SiteId, number: int, message: Numbered) -> None:
    """Close goes to each root, as the thesis says, and not by the edges between them: a message to groups of two trees
    may be before it in one, and after it in the other."""
    is_root = self.routes.graph.parent.get(self.site, sender) is None
    if is_root and not message.multicast.groups and self.closed is None:
        self.passage.enter(message.multicast)
    else:
        PropagationGraph.receive(self, sender, number, message)


@mutant(Atomic, "passage.leave_if_done", printed=True)
def does_not_know_that_it_has_left(self: Passage) -> None:
    """A site that is only in the old graph gets no Open, and nobody tells it that there will be none."""


@mutant(Atomic, "has_room")
def takes_messages_after_close(self: PropagationGraph, multicast: Multicast) -> bool:
    """What comes from sources after Close is taken in the old graph, which is closed below."""
    closed, self.closed = self.closed, None
    try:
        return PropagationGraph.has_room(self, multicast)
    finally:
        self.closed = closed


@mutant(Atomic, "source._choose", caught_by="group-source-order")
def changes_too_early(self: Source) -> list[Multicast]:
    """A source sends to the new primary destination before the old one has said what it has taken."""
    return list(self.waiting)


@mutant(Atomic, "source.take_in", caught_by="group-source-order")
def submits_again_in_another_order(self: Source, multicasts: Iterable[Multicast]) -> None:
    """What the old primary destination has not taken is submitted again from the last to the first."""
    Source.take_in(self, reversed(list(multicasts)))


@mutant(Atomic, "source.on_closed", caught_by="no-duplication")
def guesses_what_was_taken(self: Source, sender: SiteId, packet: Closed, arrival: Arrival) -> None:
    """A source submits again what was not acknowledged, whatever the old primary destination has taken."""
    edge = self._core.find_outgoing(packet.graph, sender)
    Source.on_closed(self, sender, packet if edge is None else replace(packet, taken=edge.acknowledged), arrival)


@mutant(Atomic, "passage.open")
def forgets_that_it_has_opened(self: Passage, sender: SiteId, multicast: Multicast) -> None:
    """Open is not logged: after a crash the site is in the graph before, and takes up edges that are no more."""
    call_without_log(self._core, Taken, Passage.open, self, sender, multicast)


@mutant(Atomic, "manager._begin")
def forgets_what_was_to_follow(self: Manager) -> None:
    """The manager does not log the change: it crashes between Close and Open, and all stay closed."""
    call_without_log(self._core, Planned, Manager._begin, self)


@mutant(Atomic, "passage.counts", caught_by="crash")
def lets_newcomers_begin_at_0(self: Passage) -> tuple[tuple[str, int], ...]:
    """Who joins a group counts from 0, whatever the group has had."""
    return tuple((group, 0) for group, _count in Passage.counts(self))
