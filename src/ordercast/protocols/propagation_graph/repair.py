"""What the network loses on an edge: the receiver asks for gaps, and the sender announces what nobody acknowledges.

Section 3.4 numbers messages so that losses can be detected and leaves the rest to chapter 7. This is the retransmission
of Protocols 2 and 3 (6.4), edge by edge.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from ordercast.core import Packet, Part, SiteId
from ordercast.core.effects import Send
from ordercast.core.events import Arrival
from ordercast.protocols.parts.numbered import Intervals
from ordercast.protocols.propagation_graph.edges import IncomingEdge, OutgoingEdge
from ordercast.protocols.propagation_graph.packets import Acknowledge, Held, Null, Request, Submit
from ordercast.protocols.propagation_graph.routes import routes_of

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.protocol import PropagationGraph

MISSING_MAX = 64
"""Intervals in one request, and messages sent in answer to one: the first are what the others wait for."""


HELD_LOOKS_MAX = 3
"""A receiver that waits for another site says so in answer to every look; two of these answers may be lost."""

AWAY_LOOKS = 2
"""A leaf that has answered nothing at so many looks is taken as away. What that costs when it is wrong is memory."""


class Repair(Part):
    """Of all edges of one site. Two timers, whatever the number of edges, and none while nothing is open."""

    packets: ClassVar[tuple[type[Packet], ...]] = (Request, Null, Acknowledge, Held)
    timers = ("look", "ask")
    branches = ("requested", "resent", "null-sent", "null-found-gap", "blocked", "leaf-away")

    def __init__(self, core: PropagationGraph) -> None:
        self._core = core
        # A sender whose window or history is full before an acknowledgement is due would wait for its timer each time.
        room = min(core.options.window_messages, core.options.history_messages_max)
        self._acknowledge_every = min(core.options.acknowledge_every, max(1, room // 2))
        self._looking = False
        self._asking = False

    # ------------------------------------------------------------------ the sender of an edge
    def look_soon(self) -> None:
        """While anything is not acknowledged, look after it from time to time."""
        if not self._looking:
            self._looking = True
            self._core.set_timer("look", self._core.options.retransmit_seconds)

    def look_at_once(self) -> None:
        """After a crash nobody knows what the receivers have."""
        for edge in self._core.outgoing_edges():
            edge.seen = edge.highest
        self.on_look_timeout()

    def ask_whether_taken(self) -> None:
        """A message waits until all before it is taken elsewhere: whoever has got it says so at once."""
        core = self._core
        for edge in core.outgoing.values():
            if edge.has_submissions and edge.urged < edge.highest:
                edge.urged = edge.highest
                core.send((edge.to,), Null(edge.highest, edge.graph, edge.ended))

    def on_look_timeout(self) -> None:
        """Announce what was already there at the last look and is not acknowledged: a last message that is lost shows
        in no gap."""
        core = self._core
        self._looking = False
        for edge in tuple(core.outgoing_edges()):
            if not edge.kept:
                continue
            if edge.acknowledged < edge.seen:
                core.branch("null-sent")
                core.send((edge.to,), Null(edge.highest, edge.graph, edge.ended))
                self._count_vain(edge)
            edge.seen = edge.highest
            self.look_soon()

    def _count_vain(self, edge: OutgoingEdge) -> None:
        edge.vain += 1
        edge.held_looks += 1
        if edge.held_looks > HELD_LOOKS_MAX:
            edge.held_by = ()
        core = self._core
        if edge.vain == core.options.vain_max:
            core.branch("blocked")
        if edge.vain >= AWAY_LOOKS and not edge.held_by and not edge.away and self._is_leaf(edge):
            # A failed leaf stops nobody; one that is slow says that it waits, or acknowledges something.
            core.branch("leaf-away")
            edge.away = True
            core.use_room()
        self._say_if_blocked(edge)

    def _say_if_blocked(self, edge: OutgoingEdge) -> None:
        """Name whoever holds up the receiver; or the receiver, when that says nothing."""
        if edge.vain >= self._core.options.vain_max:
            self._core.block(edge.to, self._why(edge))

    def _why(self, edge: OutgoingEdge) -> str:
        if edge.held_by:
            return f"{edge.to} waits for {', '.join(edge.held_by)}"
        own = edge.has_submissions
        groups = sorted({g for kept in edge.kept if not own or type(kept) is Submit for g in kept.multicast.groups})
        names = ", ".join(groups[:9])
        if own:
            one = len(groups) == 1
            return f"{names} {'waits' if one else 'wait'} for {edge.to}, which orders {'it' if one else 'them'}"
        if self._is_leaf(edge) or not groups:
            return f"{edge.to} does not answer"
        return f"{edge.to} does not answer: below it, {names} {'waits' if len(groups) == 1 else 'wait'} for it"

    def _is_leaf(self, edge: OutgoingEdge) -> bool:
        """Whether nobody gets anything from the receiver, which is below this site."""
        core, routes = self._core, self._core.routes
        below = core.site in routes.above.get(edge.to, ())
        return edge.graph == core.number and below and edge.to not in routes.interior

    def on_held(self, sender: SiteId, packet: Held, arrival: Arrival) -> None:
        """The receiver is there, and says for whom it waits."""
        edge = self._core.find_outgoing(packet.graph, sender)
        if edge is not None and edge.kept:
            edge.held_by, edge.held_looks = packet.by, 0
            self._say_if_blocked(edge)

    def on_request(self, sender: SiteId, packet: Request, arrival: Arrival) -> None:
        """Send again what is asked for; the first of it, if it is much."""
        edge = self._core.find_outgoing(packet.graph, sender)
        if edge is not None:
            for _, kept in islice(edge.asked_for(packet.missing), MISSING_MAX):
                self._core.branch("resent")
                self._core.outbox.append(Send((sender,), kept))

    def on_acknowledge(self, sender: SiteId, packet: Acknowledge, arrival: Arrival) -> None:
        """What is acknowledged is not kept, and that may be room for which others wait."""
        core = self._core
        edge = core.find_outgoing(packet.graph, sender)
        if edge is None:
            return
        forgotten = edge.acknowledge(min(packet.taken, edge.highest))
        if not forgotten:
            return
        edge.vain = 0
        edge.held_by = ()
        edge.note_taken(core.options)
        core.block(sender, "")
        submitted = [kept.multicast for kept in forgotten if type(kept) is Submit]
        if submitted:
            for multicast in submitted:
                core.count_own(multicast, -1)
            core.give_credit()
        core.use_room()
        if core.holding or edge.graph != core.number:
            core.forget_if_done(edge)
            core.source.release()
            core.passage.leave_if_done()

    # ------------------------------------------------------------------ the receiver of an edge
    def on_null(self, sender: SiteId, packet: Null, arrival: Arrival) -> None:
        """Ask for what is missing, or say what is taken, and who is in the way of more."""
        if packet.graph != self._core.number or self._core.passage.is_leaving:
            self._answer_of_other_graph(sender, packet)
            return
        edge = self._core.incoming_edge(sender)
        edge.announce(packet.highest)
        if edge.has_gap:
            self._core.branch("null-found-gap")
            # Whatever was asked before, for it may be what was lost: P4 gives one null, one request and one answer.
            edge.requesting = False
            self.ask(edge)
        else:
            self.acknowledge(edge)
        if edge.stalled:
            self._core.send((sender,), Held(self._find_holders(edge), packet.graph))

    def _find_holders(self, edge: IncomingEdge) -> tuple[SiteId, ...]:
        """The sites for which an edge waits whose next message finds no room: this one, whose application is slow, or
        those further on; where these have named others, the others. While the graph is closed, it is whoever opens the
        next one here."""
        core = self._core
        if core.closed is not None:
            above = routes_of(core.closed.roster, core.options).parent.get(core.site)
            return (above or core.roster.manager,)
        multicast = edge.early[edge.released + 1].multicast
        if not multicast.groups:
            return tuple(sorted(core.passage.find_unended()))
        step = core.steps[multicast.groups, multicast.destinations]
        holders = {core.site} if step.member and core.is_reader_full() else set()
        for onward in step.edges:
            if not onward.has_room(core.options):
                holders.update(onward.held_by or (onward.to,))
        return tuple(sorted(holders))

    def _answer_of_other_graph(self, sender: SiteId, packet: Null) -> None:
        """Who is in a later graph has taken all of the earlier one that came from above; and to the sources it says
        what it has taken. Who is not there yet waits for the site above it."""
        core, graph = self._core, packet.graph
        if core.passage.is_later(graph):
            core.passage.ask_for_open(sender, graph)
        elif not core.passage.is_earlier(graph) and graph != core.number:
            core.branch("another-graph")
        elif packet.ended:
            core.send((sender,), Acknowledge(packet.highest, graph))
        else:
            core.passage.answer(sender, graph, packet.highest)

    def ask(self, edge: IncomingEdge) -> None:
        """Ask for what is missing, and again after a while if it is still missing then."""
        if edge.requesting or not edge.has_gap:
            return
        core = self._core
        core.branch("requested")
        missing = edge.missing(edge.released + 1, edge.announced)[:MISSING_MAX]
        edge.requesting = True
        edge.asked = _last_of_an_answer(missing)
        core.send((edge.sender,), Request(missing, edge.graph))
        if not self._asking:
            self._asking = True
            core.set_timer("ask", core.options.retransmit_seconds)

    def on_answer(self, edge: IncomingEdge) -> None:
        """More has come: when it is all that one answer can bring, ask for the rest at once."""
        if edge.released >= edge.asked:
            edge.requesting = False
            self.ask(edge)

    def on_ask_timeout(self) -> None:
        """What was asked for may have come by now."""
        self._asking = False
        for edge in self._core.incoming.values():
            if edge.requesting:
                edge.requesting = False
                self.ask(edge)

    def acknowledge_if_due(self, edge: IncomingEdge) -> None:
        """For many messages at once; what remains is acknowledged when the sender announces it."""
        if edge.released - edge.told >= self._acknowledge_every:
            self.acknowledge(edge)

    def acknowledge(self, edge: IncomingEdge) -> None:
        """What is taken is in the log: no effect leaves before the records before it are stable."""
        edge.told = edge.released
        if edge.sender != self._core.site:
            self._core.outbox.append(Send((edge.sender,), Acknowledge(edge.released, edge.graph)))


def _last_of_an_answer(missing: Intervals) -> int:
    """The last number that the answer to a request can bring."""
    left = MISSING_MAX
    for first, last in missing:
        if last - first + 1 >= left:
            return first + left - 1
        left -= last - first + 1
    return missing[-1][1]
