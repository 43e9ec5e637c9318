"""The message passing protocol (Spauster 3.4): every site orders what comes together at it, and sends it on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from typing import ClassVar, cast

from ordercast.core import (
    AddressMemo,
    Context,
    GroupId,
    InvariantViolation,
    Multicast,
    Packet,
    Protocol,
    Record,
    SiteId,
    UsageError,
    WireError,
)
from ordercast.core.effects import Credit, Deliver, Send
from ordercast.core.events import (
    Arrival,
    Consumed,
    Discovered,
    JoinRequested,
    LeaveRequested,
    MulticastRequested,
    Recovered,
    RemovalRequested,
    Started,
)
from ordercast.protocols.propagation_graph.arrangement import ARRANGEMENT
from ordercast.protocols.propagation_graph.changes import Changes
from ordercast.protocols.propagation_graph.contract import CONTRACT
from ordercast.protocols.propagation_graph.edges import IncomingEdge, Numbered, OutgoingEdge, Step
from ordercast.protocols.propagation_graph.lookup import Lookup
from ordercast.protocols.propagation_graph.manager import Manager
from ordercast.protocols.propagation_graph.options import PropagationGraphOptions
from ordercast.protocols.propagation_graph.packets import Forward, Submit
from ordercast.protocols.propagation_graph.passage import Passage
from ordercast.protocols.propagation_graph.records import State, Submitted, Taken
from ordercast.protocols.propagation_graph.recovery import Recovery
from ordercast.protocols.propagation_graph.repair import Repair
from ordercast.protocols.propagation_graph.roles import RELAXED_ROLES, ROLES
from ordercast.protocols.propagation_graph.rosters import OPENS, Close, Roster
from ordercast.protocols.propagation_graph.routes import Routes, make_routes, routes_of
from ordercast.protocols.propagation_graph.source import Source


class PropagationGraph(Protocol):
    """Messages enter at their primary destination and go down the tree along numbered edges, to subtrees with members.

    Two messages that both come to a site came together at one site above it, or at it, and are in that site's order
    everywhere below.
    """

    contract = CONTRACT
    arrangement = ARRANGEMENT
    # What the forms do not share is refused where it is not attached.
    parts = (Repair, Recovery, *ROLES, *RELAXED_ROLES)
    packets: ClassVar[tuple[type[Packet], ...]] = (Submit, Forward)
    records: ClassVar[tuple[type[Record], ...]] = (State,)
    wants_consumed = True

    def __new__(cls, context: Context) -> PropagationGraph:
        """The form of delivery that the options choose."""
        options = cast(PropagationGraphOptions, context.options)
        return object.__new__(_relax(cls) if options.delivery == "non-atomic" else cls)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = options = cast(PropagationGraphOptions, context.options)
        self.past: dict[tuple[int, SiteId], OutgoingEdge] = {}
        """Graph and receiver -> an edge of an earlier graph of which something is not acknowledged."""
        self.outgoing: dict[SiteId, OutgoingEdge] = {}
        self.own_pending = 0
        """Own messages that their primary destination has not taken."""
        self.own_pending_bytes = 0
        self.is_outside = not context.groups
        """Whether this site is in no graph."""
        if self.is_outside:
            self.begin_outside()
        else:
            named = {*options.parents, *options.parents.values()}
            for option, sites in (("parents", named), ("manager", {options.manager} - {""})):
                for site in sorted(sites.difference(context.sites)):
                    raise UsageError(f"option {option}: there is no site {site!r}")
            routes = make_routes(context.groups, options, context.sites)
            manager = options.manager or routes.first_root
            self._install(Roster(0, manager, context.sites, tuple(sorted(context.groups.items()))), routes)
        self.lost_memory = False
        self.holding = self.is_outside
        """Whether it is not clear if this site may submit what it multicasts."""
        self.untaken: deque[int] = deque()
        """The bytes of each delivery that the application has not taken."""
        self.untaken_bytes = 0
        self.attach_roles()

    def attach_roles(self) -> None:
        """The parts of which this form consists."""
        self.repair = self.attach(Repair(self))
        self.recovery = self.attach(Recovery(self))
        self.source = self.attach(Source(self))
        self.passage = self.attach(Passage(self))
        self.manager = self.attach(Manager(self))
        self.changes = self.attach(Changes(self))
        self.lookup = self.attach(Lookup(self))

    # ------------------------------------------------------------------ graphs
    def install(self, roster: Roster) -> None:
        """From here on this is the graph; what is not acknowledged of the one before is kept."""
        self.is_outside = False
        self._install(roster, routes_of(roster, self.options))

    def _install(self, roster: Roster, routes: Routes) -> None:
        self.past |= {(edge.graph, edge.to): edge for edge in self.outgoing.values() if edge.kept}
        self.number = roster.graph
        self.roster = roster
        self.routes = routes
        self._groups = dict(roster.groups) if roster.graph else self.context.groups
        self.closed: Close | None = None
        """What follows, when the graph is closed here."""
        self.incoming: dict[SiteId, IncomingEdge] = {}
        self.outgoing = {}
        self._stalled: dict[SiteId, None] = {}
        """The incoming edges that wait for room; whoever has had a turn goes to the end."""
        self.steps: AddressMemo[Step] = AddressMemo(self._find_step)
        if not roster.graph:
            self.counts: dict[GroupId, int] = dict.fromkeys(routes.counted_at(self.site), 0)
            """Group in which this site is, or which it orders -> how many messages it has had."""

    def begin_outside(self) -> None:
        """This site is in no graph: alone, and in no group."""
        self.past.clear()
        self.outgoing.clear()
        self.counts = {}
        self.own_pending = self.own_pending_bytes = 0
        self.is_outside = self.holding = True
        self._install(Roster(-1, self.site, (self.site,), ()), make_routes({}, self.options, (self.site,)))

    @property
    def groups(self) -> Mapping[GroupId, tuple[SiteId, ...]]:
        """The groups of the graph that is open here."""
        return self._groups

    @property
    def sites(self) -> tuple[SiteId, ...]:
        """The sites of the graph that is open here."""
        return self.roster.sites

    def on_discovered(self, event: Discovered) -> None:
        """The driver has found other processes."""
        self.lookup.discover(event)

    def on_join_requested(self, event: JoinRequested) -> None:
        """The application wants to be in a group."""
        self._check_memory("join")
        self.changes.join(event)

    def on_leave_requested(self, event: LeaveRequested) -> None:
        """The application wants to be out of a group."""
        self._check_memory("leave")
        self.changes.leave(event)

    def on_removal_requested(self, event: RemovalRequested) -> None:
        """An operator wants a site out of every group; nobody but that site can know what it has taken."""
        raise UsageError(f"propagation-graph waits for {event.site!r}: let it come back and leave by itself")

    def check_groups(self, groups: tuple[GroupId, ...]) -> None:
        """Whether one message can go to all of these."""
        self.routes.check_groups(groups)

    def _check_memory(self, what: str) -> None:
        if self.lost_memory:
            raise UsageError(f"{self.site} has lost its memory and cannot {what}; start the cluster anew, with a log")

    # ------------------------------------------------------------------ the source
    def on_started(self, event: Started) -> None:
        """Tell the application how much it may send."""
        self.give_credit()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """To the primary destination, which may be here."""
        self._check_memory("multicast")
        multicast = event.multicast
        if self.holding:
            self.source.hold(multicast)
            return
        entry = self.routes.ways[multicast.groups, multicast.destinations].entry
        if self.own_pending and self.routes.has_several_entries and not self.source.may_enter(entry):
            self.source.hold(multicast)
            return
        if entry != self.site:
            self.append(Submitted(entry, multicast))
            self.branch("submitted")
            self.outbox.append(Send((entry,), self.keep_submission(entry, multicast)))
            self.repair.look_soon()
            self._take_credit_back()
            return
        edge = self.incoming_edge(self.site)
        if not edge.early and self.has_room(multicast):
            self.branch("taken-here")
            self.take(edge, multicast)
            # The message has used up a credit, and nobody will acknowledge it.
            self.give_credit()
        else:
            self.append(Submitted(self.site, multicast))
            self.queue_here(edge, multicast)
            self.stall(edge)
            self._take_credit_back()

    def keep_submission(self, entry: SiteId, multicast: Multicast) -> Submit:
        """The next message of the edge to a primary destination elsewhere."""
        edge = self.outgoing_edge(entry)
        submit = Submit(next(edge.numbers), multicast, edge.graph)
        edge.keep(submit)
        self.count_own(multicast, 1)
        return submit

    def queue_here(self, edge: IncomingEdge, multicast: Multicast) -> None:
        """An own message of which this site is the primary destination, and for which there is no room."""
        number = edge.released + len(edge.early) + 1
        edge.early[number] = Submit(number, multicast, self.number)
        self.count_own(multicast, 1)

    def count_own(self, multicast: Multicast, more: int) -> None:
        """One own message more, or less, that its primary destination has not taken."""
        self.own_pending += more
        self.own_pending_bytes += more * len(multicast.payload)

    def give_credit(self) -> None:
        """Tell the application how much it may send."""
        full = self.own_pending_bytes >= self.options.history_bytes_max
        self.outbox.append(Credit(0 if full else max(0, self.options.window_messages - self.own_pending)))

    def _take_credit_back(self) -> None:
        """When own messages have as many bytes as may be kept: the application has counted messages."""
        if self.own_pending_bytes >= self.options.history_bytes_max:
            self.give_credit()

    # ------------------------------------------------------------------ taking messages in order
    def on_submit(self, sender: SiteId, packet: Submit, arrival: Arrival) -> None:
        """At the primary destination."""
        if packet.graph != self.number:
            self.passage.receive_other(sender, packet)
            return
        if packet.multicast.id.source != sender or not self.is_entry(packet.multicast):
            raise WireError(f"{sender} may not submit {packet.multicast.id} here")
        self.receive(sender, packet.number, packet)

    def on_forward(self, sender: SiteId, packet: Forward, arrival: Arrival) -> None:
        """At a site on the way: its own edge number tells where the message belongs."""
        multicast = packet.multicast
        if packet.graph != self.number:
            self.passage.receive_other(sender, packet)
            return
        try:
            way = self.routes.ways[multicast.groups, multicast.destinations]
        except UsageError as error:
            raise WireError(f"from {sender}: {error}") from error
        place = way.places.get((sender, self.site))
        if place is None or place >= len(packet.numbers):
            raise WireError(f"{sender} may not forward {multicast.id} here")
        if not multicast.groups:
            if multicast.id.incarnation == OPENS:
                return  # it is open already
            self.passage.check_close(multicast)
        self.receive(sender, packet.numbers[place], packet)

    def receive(self, sender: SiteId, number: int, message: Numbered) -> None:
        """Take it if it is the next of its edge and there is room further on; else it waits."""
        if self.lost_memory:
            return  # what it would send on has numbers that the children have seen: they would take it for old
        edge = self.incoming.get(sender) or self.incoming_edge(sender)
        if number == edge.released + 1:
            if edge.early or not self.has_room(message.multicast):
                edge.early[number] = message
                edge.announce(number)
                self.drain(edge)
            else:
                self.take(edge, message.multicast)
                self.repair.acknowledge_if_due(edge)
            if edge.requesting:
                self.repair.on_answer(edge)
        elif number <= edge.released:
            self.branch("old")
        else:
            self.branch("early")
            edge.keep(number, message)
            self.repair.ask(edge)

    def take(self, edge: IncomingEdge, multicast: Multicast, queued: bool = False) -> None:
        """The message's place in this site's order is here: it is logged, sent on, and delivered.

        One record, before anything leaves. (Else: the message has number 7 to b and 4 to c; b has it; crash; the site
        comes back and gives 7 to another message.)
        """
        step = self.steps[multicast.groups, multicast.destinations]
        sender = edge.sender
        self.append(Taken(sender, multicast, queued))
        edge.released += 1
        for group in step.counted:
            self.counts[group] += multicast.count
        if step.to:
            self.branch("forwarded")
            self.outbox.append(Send(step.to, self.forward(step, multicast)))
            self.repair.look_soon()
        if step.member:
            size = len(multicast.payload)
            self.untaken.append(size)
            self.untaken_bytes += size
            self.outbox.append(Deliver(multicast, None, None if sender == self.site else sender))
        elif not multicast.groups:
            self.passage.close(multicast, edge)

    def forward(self, step: Step, multicast: Multicast) -> Forward:
        """The next message of each of the edges on its way."""
        message = Forward(tuple(map(next, step.numbers)), multicast, self.number)
        for edge in step.edges:
            edge.keep(message)
        return message

    def has_room(self, multicast: Multicast) -> bool:
        """Whether the application and everyone further on can take one more."""
        if self.closed is not None or not multicast.groups:
            # What ends the graph waits for no room: it is the last that an edge has to keep.
            return self.closed is None and not self.passage.find_unended()
        step = self.steps[multicast.groups, multicast.destinations]
        if step.member and self.is_reader_full():
            return False
        history_max, bytes_max = self.options.history_messages_max, self.options.history_bytes_max
        for edge in step.edges:
            if len(edge.kept) >= history_max or edge.kept_bytes >= bytes_max:
                return all(each.has_room(self.options) for each in step.edges)
        return True

    def is_reader_full(self) -> bool:
        """Whether the application has as much before it as may be."""
        options = self.options
        return len(self.untaken) >= options.reader_messages_max or self.untaken_bytes >= options.history_bytes_max

    def drain(self, edge: IncomingEdge) -> None:
        """Take what waits and is next, as far as there is room."""
        while (message := edge.early.get(edge.released + 1)) is not None:
            if not self.has_room(message.multicast):
                self.stall(edge)
                break
            self.branch("waited")
            del edge.early[edge.released + 1]
            self.take(edge, message.multicast)
            if edge.sender == self.site:
                self.count_own(message.multicast, -1)
                self.give_credit()
        else:
            edge.stalled = False
            if edge.graph == self.number:  # with Close and Open on it, this edge belongs to the past by now
                self._stalled.pop(edge.sender, None)
        self.repair.acknowledge_if_due(edge)

    def stall(self, edge: IncomingEdge) -> None:
        """The edge waits for room; and so do, in the end, the sources."""
        self.branch("stalled")
        if self.is_reader_full():
            self.block("reader", f"the application of {self.site} has not taken what is delivered")
        edge.stalled = True
        self._stalled[edge.sender] = None

    def end_edge(self, edge: IncomingEdge) -> None:
        """Its next message, the last one, ends the graph, which another edge has just ended here."""
        edge.early.pop(edge.released + 1, None)
        edge.released += 1
        edge.stalled = False
        self._stalled.pop(edge.sender, None)

    def use_room(self) -> None:
        """There may be room again; each edge that waits has a turn."""
        for sender in tuple(self._stalled):
            if self._stalled.pop(sender, self) is None:
                self.drain(self.incoming[sender])

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries."""
        # After a crash it takes what the log replays as well, which is not counted.
        for _ in range(min(event.count, len(self.untaken))):
            self.untaken_bytes -= self.untaken.popleft()
        if not self.is_reader_full():
            self.block("reader", "")
        self.use_room()

    # ------------------------------------------------------------------ where things are
    def incoming_edge(self, sender: SiteId) -> IncomingEdge:
        """The edge from a site to here."""
        edge = self.incoming.get(sender)
        if edge is None:
            edge = self.incoming[sender] = IncomingEdge(sender, self.number)
        return edge

    def outgoing_edge(self, to: SiteId) -> OutgoingEdge:
        """The edge from here to a site."""
        edge = self.outgoing.get(to)
        if edge is None:
            edge = self.outgoing[to] = OutgoingEdge(to, self.number)
        return edge

    def find_outgoing(self, graph: int, to: SiteId) -> OutgoingEdge | None:
        """The edge of a graph from here to a site."""
        return self.outgoing.get(to) if graph == self.number else self.past.get((graph, to))

    def outgoing_edges(self) -> Iterator[OutgoingEdge]:
        """Of all graphs."""
        return chain(self.outgoing.values(), self.past.values())

    def forget_if_done(self, edge: OutgoingEdge) -> None:
        """Of an edge of an earlier graph nothing is left to do."""
        if edge.graph != self.number and not edge.kept:
            del self.past[edge.graph, edge.to]

    def _find_step(self, groups: tuple[GroupId, ...], destinations: tuple[SiteId, ...] | None) -> Step:
        way = self.routes.ways[groups, destinations]
        to = way.onward.get(self.site, ())
        edges = tuple(self.outgoing_edge(site) for site in to)
        member = self.site in way.members
        counted = tuple(group for group in groups if group in self.counts)
        return Step(to, edges, tuple(edge.numbers for edge in edges), member, counted)

    def is_entry(self, multicast: Multicast) -> bool:
        """Whether this site is the primary destination of a message that comes from elsewhere."""
        if not multicast.groups:
            return False
        try:
            return self.routes.ways[multicast.groups, multicast.destinations].entry == self.site
        except UsageError:
            return False

    # ------------------------------------------------------------------ stable storage
    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold, at the most."""
        return self.recovery.checkpoint_messages()

    def checkpoint_state(self) -> State:
        """Where every edge stands."""
        return self.recovery.checkpoint_state()

    def on_recovered(self, event: Recovered) -> None:
        """Take up every edge where the log left it.

        Without a log the numbers of all edges are forgotten, and the neighbours would take new messages for old ones:
        such a site stays out.
        """
        if not self.context.stable:
            self.block("memory", f"{self.site} has lost its memory: without a stable log it cannot come back")
            self.lost_memory = True
            return
        super().on_recovered(event)

    def restore(self, state: State) -> None:
        """Every edge."""
        self.recovery.restore(state)

    def resume(self) -> None:
        """Take what waits here, and announce what is kept for others."""
        self.give_credit()
        own = self.incoming_edge(self.site)
        if own.early:
            own.stalled = True
            self.drain(own)
        self.repair.look_at_once()
        self.source.release()
        self.changes.resume()
        self.passage.resume()

    def check_invariants(self) -> None:
        """Of all edges."""
        for outgoing in self.outgoing_edges():
            outgoing.check_invariants()
        for incoming in self.incoming.values():
            incoming.check_invariants()
        if {edge.sender for edge in self.incoming.values() if edge.stalled} != set(self._stalled):
            raise InvariantViolation(f"{self.site}: the edges that wait for room are not those that are stalled")
        super().check_invariants()


@cache
def _relax(form: type[PropagationGraph]) -> type[PropagationGraph]:
    """The class whose delivery is not atomic: this one, or what is made of it."""
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph

    return form if issubclass(form, RelaxedGraph) else type(f"Relaxed{form.__name__}", (RelaxedGraph, form), {})
