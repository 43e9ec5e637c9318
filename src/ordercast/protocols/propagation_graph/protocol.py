"""The message passing protocol (Spauster 3.4): every site orders what comes together at it, and sends it on."""

from __future__ import annotations

from collections import deque
from typing import cast

import msgspec

from ordercast.core import (
    EVERY_FAULT,
    TOTAL_ORDER,
    Context,
    Contract,
    InvariantViolation,
    Multicast,
    Protocol,
    SiteId,
    UsageError,
    WireError,
)
from ordercast.core.effects import Credit, Deliver, Send
from ordercast.core.events import Arrival, Consumed, MulticastRequested, Recovered, Started, TimerFired
from ordercast.protocols.propagation_graph.arrangement import ARRANGEMENT
from ordercast.protocols.propagation_graph.edges import WAITING_MAX, Incoming, Numbered, Outgoing
from ordercast.protocols.propagation_graph.options import PropagationGraphOptions
from ordercast.protocols.propagation_graph.packets import (
    Acknowledge,
    Forward,
    Null,
    Request,
    State,
    Submit,
    Submitted,
    Taken,
)
from ordercast.protocols.propagation_graph.recovery import Recovery
from ordercast.protocols.propagation_graph.repair import Repair
from ordercast.protocols.propagation_graph.routes import ADDRESSES_MAX, Address, make_routes


class Step(msgspec.Struct, frozen=True):
    """What this site does with messages of one address."""

    to: tuple[SiteId, ...]
    edges: tuple[Outgoing, ...]
    member: bool


class PropagationGraph(Protocol):
    """Messages enter at their primary destination and go down the tree along numbered edges, to subtrees with members.

    Two messages that both come to a site came together at one site above it, or at it, and are in that site's order
    everywhere below.
    """

    contract = Contract(
        name="propagation-graph",
        title="a forest of sites orders: each where its groups meet; load spread, few messages, order across groups",
        paper="Spauster 1991, 3.2 to 3.4",
        # Not source-order: two messages of one source to different groups may enter at different sites.
        guarantees=tuple(name for name in TOTAL_ORDER if name != "source-order"),
        faults=EVERY_FAULT,
        crash="whoever is below a crashed site waits until it is back, and whoever multicasts to what it orders",
        branches=(
            "taken-here",
            "submitted",
            "forwarded",
            "old",
            "early",
            "waited",
            "requested",
            "resent",
            "null-sent",
            "null-found-gap",
            "stalled",
            "blocked",
        ),
        options=PropagationGraphOptions,
    )
    arrangement = ARRANGEMENT
    packets = (Submit, Forward, Request, Null, Acknowledge)
    records = (Submitted, Taken, State)
    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(PropagationGraphOptions, context.options)
        self.routes = make_routes(context.groups, self.options)
        for site in sorted({*self.options.parents, *self.options.parents.values()}.difference(context.sites)):
            raise UsageError(f"option parents: there is no site {site!r}")
        self.incoming: dict[SiteId, Incoming] = {}
        self.outgoing: dict[SiteId, Outgoing] = {}
        self.lost_memory = False
        self.repair = Repair(self)
        self.recovery = Recovery(self)
        self.untaken: deque[int] = deque()
        """The bytes of each delivery that the application has not taken."""
        self.untaken_bytes = 0
        self.own_pending = 0
        """Own messages that their primary destination has not taken."""
        self._stalled: dict[SiteId, None] = {}
        """The incoming edges that wait for room; whoever has had a turn goes to the end."""
        self._steps: dict[Address, Step] = {}
        self._places: dict[tuple[SiteId, Address], int] = {}

    # ------------------------------------------------------------------ the source
    def on_started(self, event: Started) -> None:
        """Tell the application how much it may send."""
        self.give_credit()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """To the primary destination, which may be here."""
        if self.lost_memory:
            raise UsageError(
                f"{self.site} has lost its memory and cannot multicast; start the cluster anew, with a log"
            )
        multicast = event.multicast
        entry = self.routes.way(multicast.groups).entry
        if entry != self.site:
            self.append(Submitted(entry, multicast))
            self.branch("submitted")
            submit = self.keep_submission(entry, multicast)
            self.outbox.append(Send((entry,), submit))
            self.repair.look_soon()
            return
        edge = self.incoming_edge(self.site)
        if not edge.waiting and self.has_room(multicast):
            self.branch("taken-here")
            self.take(edge, multicast)
            # The message has used up a credit, and nobody will acknowledge it.
            self.give_credit()
        else:
            self.append(Submitted(self.site, multicast))
            self.queue_here(edge, multicast)
            self.stall(edge)

    def keep_submission(self, entry: SiteId, multicast: Multicast) -> Submit:
        """The next message of the edge to a primary destination elsewhere."""
        edge = self.outgoing_edge(entry)
        submit = Submit(edge.highest + 1, multicast)
        edge.keep(submit)
        self.own_pending += 1
        return submit

    def queue_here(self, edge: Incoming, multicast: Multicast) -> None:
        """An own message of which this site is the primary destination, and for which there is no room."""
        number = edge.taken + len(edge.waiting) + 1
        edge.waiting[number] = Submit(number, multicast)
        self.own_pending += 1

    def give_credit(self) -> None:
        """Tell the application how much it may send."""
        self.outbox.append(Credit(max(0, self.options.window_messages - self.own_pending)))

    # ------------------------------------------------------------------ taking messages in order
    def on_submit(self, sender: SiteId, packet: Submit, arrival: Arrival) -> None:
        """At the primary destination."""
        if packet.multicast.id.source != sender or not self.is_entry(packet.multicast.groups):
            raise WireError(f"{sender} may not submit {packet.multicast.id} here")
        self.receive(sender, packet.number, packet)

    def on_forward(self, sender: SiteId, packet: Forward, arrival: Arrival) -> None:
        """At a site on the way: its own edge number tells where the message belongs."""
        address = packet.multicast.groups
        place = self._places.get((sender, address))
        if place is None:
            place = self.find_place(sender, address)
        if not 0 <= place < len(packet.numbers):
            raise WireError(f"{sender} may not forward {packet.multicast.id} here")
        self.receive(sender, packet.numbers[place], packet)

    def receive(self, sender: SiteId, number: int, message: Numbered) -> None:
        """Take it if it is the next of its edge and there is room further on; else it waits."""
        if self.lost_memory:
            return  # what it would send on has numbers that the children have seen: they would take it for old
        edge = self.incoming.get(sender) or self.incoming_edge(sender)
        if number == edge.taken + 1:
            if edge.waiting or not self.has_room(message.multicast):
                edge.waiting[number] = message
                edge.announced = max(edge.announced, number)
                self.drain(edge)
            else:
                self.take(edge, message.multicast)
                self.repair.acknowledge_if_due(edge)
            if edge.requesting:
                self.repair.on_answer(edge)
        elif number <= edge.taken:
            self.branch("old")
        else:
            self.branch("early")
            if len(edge.waiting) < WAITING_MAX:
                edge.waiting[number] = message
            edge.announced = max(edge.announced, number)
            self.repair.ask(edge)

    def take(self, edge: Incoming, multicast: Multicast) -> None:
        """The message's place in this site's order is here: it is logged, sent on, and delivered.

        One record, before anything leaves. (Else: the message has number 7 to b and 4 to c; b has it; crash; the site
        comes back and gives 7 to another message.)
        """
        step = self._steps.get(multicast.groups) or self.find_step(multicast.groups)
        sender = edge.sender
        self.append(Taken(sender, multicast))
        edge.taken += 1
        if step.to:
            self.branch("forwarded")
            self.outbox.append(Send(step.to, self.forward(step, multicast)))
            self.repair.look_soon()
        if step.member:
            size = len(multicast.payload)
            self.untaken.append(size)
            self.untaken_bytes += size
            self.outbox.append(Deliver(multicast, None, None if sender == self.site else sender))

    def forward(self, step: Step, multicast: Multicast) -> Forward:
        """The next message of each of the edges on its way."""
        message = Forward(tuple([edge.highest + 1 for edge in step.edges]), multicast)
        for edge in step.edges:
            edge.keep(message)
        return message

    def has_room(self, multicast: Multicast) -> bool:
        """Whether the application and everyone further on can take one more."""
        step = self._steps.get(multicast.groups) or self.find_step(multicast.groups)
        options = self.options
        history_max, bytes_max = options.history_messages_max, options.history_bytes_max
        if step.member and (len(self.untaken) >= options.reader_messages_max or self.untaken_bytes >= bytes_max):
            return False
        return all(len(edge.kept) < history_max and edge.kept_bytes < bytes_max for edge in step.edges)

    def drain(self, edge: Incoming) -> None:
        """Take what waits and is next, as far as there is room."""
        while (message := edge.waiting.get(edge.taken + 1)) is not None:
            if not self.has_room(message.multicast):
                self.stall(edge)
                break
            self.branch("waited")
            del edge.waiting[edge.taken + 1]
            self.take(edge, message.multicast)
            if edge.sender == self.site:
                self.own_pending -= 1
                self.give_credit()
        else:
            edge.stalled = False
            self._stalled.pop(edge.sender, None)
        self.repair.acknowledge_if_due(edge)

    def stall(self, edge: Incoming) -> None:
        """The edge waits for room; and so do, in the end, the sources."""
        self.branch("stalled")
        edge.stalled = True
        self._stalled[edge.sender] = None

    def resume(self) -> None:
        """There may be room again; each edge that waits has a turn."""
        for sender in tuple(self._stalled):
            del self._stalled[sender]
            self.drain(self.incoming[sender])

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries."""
        # After a crash it takes what the log replays as well, which is not counted.
        for _ in range(min(event.count, len(self.untaken))):
            self.untaken_bytes -= self.untaken.popleft()
        if self._stalled:
            self.resume()

    def on_timer_fired(self, event: TimerFired) -> None:
        """One of the repair's."""
        if event.timer == "look":
            self.repair.on_look_timeout()
        else:
            self.repair.on_ask_timeout()

    def on_null(self, sender: SiteId, packet: Null, arrival: Arrival) -> None:
        """At the receiver of an edge."""
        self.repair.on_null(self.incoming_edge(sender), packet.highest)

    def on_request(self, sender: SiteId, packet: Request, arrival: Arrival) -> None:
        """At the sender of an edge."""
        edge = self.outgoing.get(sender)
        if edge is not None:
            self.repair.on_request(edge, packet.missing)

    def on_acknowledge(self, sender: SiteId, packet: Acknowledge, arrival: Arrival) -> None:
        """At the sender of an edge: what is acknowledged is not kept, and that may be room for which others wait."""
        edge = self.outgoing.get(sender)
        if edge is None:
            return
        submissions = edge.submissions
        if not self.repair.on_acknowledge(edge, packet.taken):
            return
        if submissions > edge.submissions:
            self.own_pending -= submissions - edge.submissions
            self.give_credit()
        if self._stalled:
            self.resume()

    # ------------------------------------------------------------------ where things are
    def incoming_edge(self, sender: SiteId) -> Incoming:
        """The edge from a site to here."""
        edge = self.incoming.get(sender)
        if edge is None:
            edge = self.incoming[sender] = Incoming(sender)
        return edge

    def outgoing_edge(self, to: SiteId) -> Outgoing:
        """The edge from here to a site."""
        edge = self.outgoing.get(to)
        if edge is None:
            edge = self.outgoing[to] = Outgoing(to)
        return edge

    def find_step(self, address: Address) -> Step:
        """What to do with messages of this address."""
        way = self.routes.way(address)
        to = way.onward.get(self.site, ())
        step = Step(to, tuple(self.outgoing_edge(site) for site in to), self.site in way.members)
        if len(self._steps) >= ADDRESSES_MAX:
            self._steps.clear()
        self._steps[address] = step
        return step

    def is_entry(self, address: Address) -> bool:
        """Whether this site is the primary destination of messages that come from elsewhere with this address."""
        try:
            return self.routes.way(address).entry == self.site
        except UsageError:
            return False

    def find_place(self, sender: SiteId, address: Address) -> int:
        """Which of the numbers of a message that this site forwards is ours; -1 when it has none to forward to us."""
        try:
            to = self.routes.way(address).onward.get(sender, ())
        except UsageError as error:
            raise WireError(f"from {sender}: {error}") from error
        place = to.index(self.site) if self.site in to else -1
        if len(self._places) >= ADDRESSES_MAX:
            self._places.clear()
        self._places[sender, address] = place
        return place

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
        self.recovery.recover(event)
        self.give_credit()
        own = self.incoming_edge(self.site)
        if own.waiting:
            own.stalled = True
            self.drain(own)
        self.repair.look_at_once()
        self.declare_recovered()

    def check_invariants(self) -> None:
        """Of all edges."""
        for outgoing in self.outgoing.values():
            outgoing.check_invariants()
        for incoming in self.incoming.values():
            incoming.check_invariants()
        if {edge.sender for edge in self.incoming.values() if edge.stalled} != set(self._stalled):
            raise InvariantViolation(f"{self.site}: the edges that wait for room are not those that are stalled")
        if self.own_pending != sum(edge.submissions for edge in self.outgoing.values()) + len(
            self.incoming_edge(self.site).waiting
        ):
            raise InvariantViolation(f"{self.site}: {self.own_pending} own messages are not what is pending")
