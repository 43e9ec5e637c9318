"""The propagation graph that goes on without failed sites (Spauster 7.1.1, 7.3): `delivery = "non-atomic"`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from ordercast.core import Context, GroupId, MessageId, Multicast, Packet, SiteId, UsageError, WireError
from ordercast.core.effects import Credit, Deliver, ExitGroup, Redeliver, Replay, Send
from ordercast.core.events import Arrival, Event, MulticastRequested, Recovered, RemovalRequested, Started
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.propagation_graph.edges import IncomingEdge
from ordercast.protocols.propagation_graph.packets import Submit
from ordercast.protocols.propagation_graph.protocol import PropagationGraph
from ordercast.protocols.propagation_graph.relaxed.acceptor import Acceptor
from ordercast.protocols.propagation_graph.relaxed.catching_up import CatchingUp
from ordercast.protocols.propagation_graph.relaxed.coordinator import Coordinator
from ordercast.protocols.propagation_graph.relaxed.graphs import Graph, Listed
from ordercast.protocols.propagation_graph.relaxed.history import Held, HistoryKeeping
from ordercast.protocols.propagation_graph.relaxed.joining import Finding, Joining
from ordercast.protocols.propagation_graph.relaxed.packets import Agreed, History, Pass, Refused
from ordercast.protocols.propagation_graph.relaxed.pending import Pending
from ordercast.protocols.propagation_graph.relaxed.preparing import Preparing
from ordercast.protocols.propagation_graph.relaxed.records import Entered, Placed, Running, Summary
from ordercast.protocols.propagation_graph.relaxed.rejoining import Rejoining
from ordercast.protocols.propagation_graph.relaxed.shares import Shares
from ordercast.protocols.propagation_graph.relaxed.stable import Recalling, summary_of
from ordercast.protocols.propagation_graph.relaxed.standing import Standing
from ordercast.protocols.propagation_graph.relaxed.upkeep import Upkeep
from ordercast.protocols.propagation_graph.relaxed.watching import PING_SHARE, Watching
from ordercast.protocols.propagation_graph.roles import RELAXED_ROLES
from ordercast.protocols.propagation_graph.routes import routes_of


class RelaxedGraph(PropagationGraph):
    """Messages go as in `PropagationGraph`, within one graph at a time. When a site fails, the others stop, make one
    order of what they have had, and go on in the next graph; whoever failed comes back in a later one."""

    guards_deliveries = True
    parts = RELAXED_ROLES
    packets = (Submit,)
    records = (Running, Summary)

    def __init__(self, context: Context) -> None:
        self.has_forgotten = False
        """Whether the numbers of its edges are gone, with a crash: it goes on in the next graph only."""
        self.is_running = True
        """Whether everybody has all with which the graph began."""
        self.owes_deliveries = False
        """Whether something may have come too late for the application, and is to be delivered with the next share."""
        self._alive_since = 0
        """What was ordered since this graph may be delivered."""
        self._places: dict[MessageId, int] = {}
        self._own_places = count(1)
        super().__init__(context)

    def attach_roles(self) -> None:
        """The parts of this form."""
        if not self.context.stable:
            raise UsageError('delivery = "non-atomic" needs a log; log, or write delivery = "atomic"')
        options, context = self.options, self.context
        self.graph = Graph(0, self.roster.manager, context.sites, (), tuple(sorted(context.groups.items())))
        if self.is_outside:
            self.graph = Graph(-1, "", (), (), ())
        self.counts = dict.fromkeys(self.own_groups(), 0)
        self.takes_back = options.rejoin == "rollback"
        self.history = self.attach(HistoryKeeping(self))
        self.repair = self.upkeep = self.attach(Upkeep(self))
        self.detector = self.attach(
            FailureDetector(
                self,
                ping_seconds=options.suspicion_seconds / PING_SHARE,
                suspicion_seconds=options.suspicion_seconds,
                suspicion_seconds_max=options.patience_max,
                on_suspected=lambda site: self.watching.on_suspected(site),
            )
        )
        self.shares = self.attach(Shares(self))
        self.watching = self.attach(Watching(self))
        self.acceptor = self.attach(Acceptor(self))
        self.coordinator = self.attach(Coordinator(self))
        self.preparing = self.attach(Preparing(self))
        self.catching_up = self.attach(CatchingUp(self))
        self.pending = self.attach(Pending(self))
        self.rejoining = self.attach(Rejoining(self))
        self.changes = self.joining = self.attach(Joining(self))
        self.lookup = self.finding = self.attach(Finding(self))
        self._recalling = self.attach(Recalling(self))
        self._standing = Standing(self)

    def own_groups(self) -> tuple[GroupId, ...]:
        """The groups that this site is in, or is to be in when the graph runs."""
        return self.graph.groups_of(self.site)

    @property
    def groups(self) -> Mapping[GroupId, tuple[SiteId, ...]]:
        """The groups, with those of their members that are away."""
        return dict(self.graph.groups)

    @property
    def sites(self) -> tuple[SiteId, ...]:
        """Those that are away, too."""
        return self.graph.sites

    @property
    def is_closed(self) -> bool:
        """Whether this site takes nothing more in its graph: it has promised to stop, or has forgotten its edges."""
        acceptor = self.acceptor
        return self.has_forgotten or self.is_outside or (acceptor.pledged > 0 and acceptor.instance >= self.number)

    def may_deliver(self, effect: Deliver | Replay, now: float) -> bool:
        """Whether the share of this site lasts, and nobody has gone on without it since."""
        return int(effect.view or 0) >= self._alive_since and self.shares.is_held(now)

    def look_at_clock(self, now: float) -> None:
        """Whether the share has ended."""
        self.now = now
        self.shares.check()

    def step(self, now: float, event: Event) -> None:
        """Whatever happens: first, whether the share has ended. (A process that was stopped finds packets before its
        timer.)"""
        self.now = now
        until = self.shares.until
        if until is None or until <= now:
            self.shares.check()
        super().step(now, event)

    # ------------------------------------------------------------------ what cannot be done
    def on_removal_requested(self, event: RemovalRequested) -> None:
        """The others go on without a site that has failed."""
        raise UsageError(f"the others go on without {event.site!r} when it fails: nothing is to be removed")

    # ------------------------------------------------------------------ the source
    def on_started(self, event: Started) -> None:
        """The manager sees to its lease."""
        self.give_credit()
        if not self.is_outside:
            self.watching.watch()
            self.shares.go_on()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """To the primary destination, which may be here."""
        self._check_memory("multicast")
        self.joining.check_source()
        multicast = event.multicast
        edge = self.incoming_edge(self.site)
        if self.find_entry(multicast) == self.site and not edge.early and self.has_room(multicast):
            self.branch("taken-here")
            self.take(edge, multicast)
            self.give_credit()
            return
        self.branch("submitted")
        self.pending.add(multicast)
        self.give_credit()

    def find_entry(self, multicast: Multicast) -> SiteId | None:
        """The primary destination; None when all members are away."""
        try:
            return self.routes.ways[multicast.groups, multicast.destinations].entry
        except UsageError:
            return None

    def give_credit(self) -> None:
        """As many as may be pending, until everybody has them."""
        room = min(
            self.options.window_messages - self.own_pending,
            self.options.history_messages_max + self.options.window_messages - len(self.pending.messages),
        )
        full = self.own_pending_bytes >= self.options.history_bytes_max
        self.outbox.append(Credit(0 if full else max(0, room)))

    # ------------------------------------------------------------------ taking messages in order
    def hear_other_graph(self, sender: SiteId, graph: int) -> None:
        """A message of an earlier graph is nobody's any more; one of a later graph comes again."""
        self.branch("another-graph")
        if graph < self.number:
            self.coordinator.tell(sender)

    def on_submit(self, sender: SiteId, packet: Submit, arrival: Arrival) -> None:
        """At the primary destination."""
        if packet.graph != self.number:
            self.hear_other_graph(sender, packet.graph)
        elif not self.is_closed:
            super().on_submit(sender, packet, arrival)

    def receive_pass(self, sender: SiteId, packet: Pass) -> None:
        """At a site on the way."""
        multicast = packet.multicast
        if packet.graph != self.number:
            self.hear_other_graph(sender, packet.graph)
            return
        if self.is_closed:
            return
        try:
            way = self.routes.ways[multicast.groups, multicast.destinations]
        except UsageError as error:
            raise WireError(f"from {sender}: {error}") from error
        at = way.places.get((sender, self.site))
        if at is None or at >= len(packet.numbers) or not multicast.groups or packet.place < 1:
            raise WireError(f"{sender} may not pass {multicast.id} on to here")
        number = packet.numbers[at]
        if number > self.incoming_edge(sender).released:
            self._places[multicast.id] = packet.place
        self.receive(sender, number, packet)
        self.history.note_stable(way.entry, packet.stable)

    def take(self, edge: IncomingEdge, multicast: Multicast, queued: bool = False) -> None:
        """The message's place in this site's order is here: it is logged, sent on, and delivered."""
        step = self.steps[multicast.groups, multicast.destinations]
        entry = self.routes.ways[multicast.groups, multicast.destinations].entry
        place = next(self._own_places) if entry == self.site else self._places.pop(multicast.id)
        self.append(Placed(multicast, entry, place))
        edge.released += 1
        self.count(multicast)
        numbers = tuple(map(next, step.numbers))
        if step.to:
            self.branch("forwarded")
            message = Pass(numbers, multicast, self.number, place, self.history.marks.get(entry, 0))
            for onward in step.edges:
                onward.keep(message)
            self.outbox.append(Send(step.to, message))
            self.repair.look_soon()
        if multicast.id.source == self.site:
            self.pending.note_taken_here(multicast)
        self._deliver(multicast, edge.sender)
        held = Held(multicast, entry, place, tuple(zip(step.edges, numbers, strict=True)))
        self.history.add(edge.sender, edge.released, held)

    def is_own(self, multicast: Multicast | Listed) -> bool:
        """Whether a message is for this site."""
        return not self.counts.keys().isdisjoint(multicast.groups)

    def _deliver(self, multicast: Multicast, sender: SiteId) -> None:
        if self.is_own(multicast):
            size = len(multicast.payload)
            self.untaken.append(size)
            self.untaken_bytes += size
            parent = None if sender == self.site else sender
            self.outbox.append(Deliver(multicast, None, parent, view=str(self.number)))

    def take_listed(self, multicast: Multicast, item: Listed) -> None:
        """A message of the order with which the graph begins, which this site lacked, or has taken back."""
        self.append(Placed(multicast, "", item.place))
        self.hold(Placed(multicast, "", item.place))
        self.count(multicast)
        self._deliver(multicast, self.site)

    def hold(self, placed: Placed) -> None:
        """It has its place behind all that this site has had."""
        message = placed.multicast.id
        self.history.held.pop(message, None)
        self.history.held[message] = Held(placed.multicast, placed.entry, placed.place)

    def count(self, multicast: Multicast, times: int = 1) -> None:
        """One more delivery, or, with -1, one less."""
        for group in multicast.groups:
            if group in self.counts:
                self.counts[group] += times * multicast.count

    def has_room(self, multicast: Multicast) -> bool:
        """Whether this site may deliver, and everyone further on can take one more."""
        if not self.is_running or not self.shares.is_held(self.now):
            return False
        if self.history.lacked >= 4 * self.options.history_messages_max:
            return False
        return super().has_room(multicast)

    def steps_below(self) -> tuple[SiteId, ...]:
        """Those to whom edges lead from here."""
        return tuple(site for site, above in self.routes.parent.items() if above == self.site)

    # ------------------------------------------------------------------ from one graph to the next
    def reply(self, to: SiteId, packet: Packet) -> None:
        """Answer whoever makes the next graph, which may be this site."""
        if to != self.site:
            self.send((to,), packet)
        elif isinstance(packet, History):
            self.coordinator.on_history(to, packet, Arrival())
        elif isinstance(packet, Agreed):
            self.coordinator.on_agreed(to, packet, Arrival())
        elif isinstance(packet, Refused):
            self.coordinator.on_refused(to, packet, Arrival())

    def stop(self) -> None:
        """This site has promised to stop: what it has had is what it tells."""
        self.shares.stop()
        self._standing.note_stop()
        self.watching.look_soon()

    def standing(self, now: float) -> dict[str, Any]:
        """Which graph it is, who is out, and whose lease lasts."""
        return self._standing.describe(now)

    def unsettled(self) -> list[Held]:
        """What of this site's history others may lack."""
        history = self.history
        return [held for message, held in history.held.items() if message not in history.everywhere]

    def log_entered(self, graph: Graph) -> bool:
        """A graph begins; whether this site goes on in it as it was. That is in the log first."""
        survived = self.site not in graph.returned
        self.append(Entered(graph, survived))
        return survived

    def begin_out(self, graph: Graph) -> None:
        """A graph begins in which this site is not: it knows it, and tells those who do not."""
        self.begin_outside()
        self.graph, self.number = graph, graph.number
        self.history.held.clear()
        self.history.begin()
        self.pending.messages.clear()
        self.rejoining.tail.clear()
        self.has_forgotten = self.shares.has_failed = False
        self.is_running = True
        self.acceptor.begin(graph)
        self.coordinator.begin()
        self.shares.begin()
        self.catching_up.begin([])
        self.watching.end()

    def enter(self, graph: Graph) -> None:
        """The next graph begins here."""
        survived = self.log_entered(graph)
        if any(edge.early for sender, edge in self.incoming.items() if sender in graph.away):
            self.branch("gap-given-up")  # what waits behind it comes again from its source, should that come back
        before, was_in = self.graph, tuple(self.counts)
        goes_on, back = self.change(graph, survived)
        seconds = self._standing.begin(graph)
        if not survived and self.site in before.sites:
            self.rejoining.rejoin(goes_on, back)
        # Also what it was to be in, and gave up before it was.
        for group in {**dict.fromkeys(was_in), **dict.fromkeys(before.groups_of(self.site))}:
            if group not in self.counts and group not in self.own_groups():
                self.outbox.append(ExitGroup(group))
        for group in self.own_groups():
            if group not in self.counts:
                continue
            if not goes_on:
                self.rejoining.enter_again(group, group in was_in)
            line = self._standing.line(group, before, seconds, self.rejoining.words(group, back))
            self.joining.install_view(group, before, survived, seconds, line)
        self.branch("entered")
        self.upkeep.begin()
        self.watching.begin()
        self.joining.begin()
        self.pending.begin()
        self.give_credit()
        self.shares.go_on()
        self.catching_up.go_on()
        self.joining.go_on()

    def change(self, graph: Graph, survived: bool) -> tuple[bool, list[Held]]:
        """What `enter` changes, also when it is read from the log: whether this site goes on where it was, and not
        behind a gap, and what it takes back."""
        history, rejoining = self.history, self.rejoining
        order, back = [item for item in graph.order if self.is_own(item)], []
        goes_on = survived or rejoining.can_undo(graph, order)
        if self.takes_back:
            order = [item for item in order if rejoining.may_lack(item)]
            back = [] if survived else rejoining.take_back(order, goes_on)
        for each in graph.settled:
            key, last = (each.source, each.groups), (each.incarnation, each.number)
            history.settled[key] = max(last, history.settled.get(key, last))
        ordered = {item.id for item in graph.order}
        again = [each for each in history.held.values() if each.undone and each.multicast.id not in ordered]
        held = {each.multicast.id: Held(each.multicast, "", 0, undone=True) for each in again}
        for item in graph.order:
            if item.id in history.held:
                had = history.held[item.id]
                held[item.id] = Held(had.multicast, "", item.place, (), had.undone, had.passed)
        history.held = held
        history.begin()
        self.pending.drop_settled()
        self.graph, self.is_outside, self.holding = graph, False, False
        roster = graph.roster()
        self._install(roster, routes_of(roster, self.options))
        self.past.clear()
        missing = [each.listed() for each in again]
        if goes_on:
            missing += [item for item in order if item.id not in held or held[item.id].undone]
        else:
            self._alive_since = graph.number
            offsets = dict(graph.offsets)
            self.counts = {group: offsets.get(group, 0) for group in self.own_groups()}
        self._places.clear()
        self._own_places = count(1)
        self.has_forgotten = False
        self.is_running = False
        self.owes_deliveries = True
        self.acceptor.begin(graph)
        self.coordinator.begin()
        self.shares.begin()
        self.preparing.begin()
        self.catching_up.begin(missing)
        self.joining.note_entered()
        return goes_on, back

    def on_share_held(self) -> None:
        """This site may deliver, from now on or still."""
        if self.owes_deliveries:
            self.owes_deliveries = False
            self.outbox.append(Redeliver())
            self.rejoining.on_share_held()
        if not self.is_running:
            self.catching_up.go_on(ask=False)
        self._recover_if_running()
        self.pending.on_share_held()
        self.use_room()

    def on_caught_up(self) -> None:
        """This site has all with which the graph began."""
        if not self.is_running and self.shares.is_held(self.now):
            if self.graph.manager == self.site:
                self.shares.note_caught_up(self.site)
            else:
                self.shares.tell_caught_up()

    def run(self) -> None:
        """Everybody has all with which the graph began. Here it runs as soon as the application has it, too. (Else: p
        has left k with this graph, and is back from a crash; what it had taken before comes with its share, after it
        has left.)"""
        if self.is_running or self.owes_deliveries:
            return
        self.append(Running(self.number))
        self.recall_running(Running(self.number))
        self.branch("ran")
        self.give_credit()  # for what stood in the order is pending no more
        self._recover_if_running()
        self.use_room()

    def recall_running(self, record: Running) -> None:
        """See `run`."""
        self.is_running = True
        history = self.history
        for item in self.graph.order:
            history.note_settled(item.id, item.groups)
            self.pending.messages.pop(item.id, None)
        for message in history.held:
            history.note_everywhere(message)
        history.forget()
        self.rejoining.skipped.clear()
        self.preparing.end()
        if self.has_forgotten:
            self.rejoining.replay_but(set())
        self.joining.note_running()

    def _recover_if_running(self) -> None:
        if self.is_running and self.shares.has_failed and self.shares.is_held(self.now):
            self.branch("share-back")
            self.shares.has_failed = False
            self.declare_recovered()

    # ------------------------------------------------------------------ stable storage
    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold."""
        return len(self.history.held) + len(self.pending.messages)

    def checkpoint_state(self) -> Summary | None:  # type: ignore[override]
        """Everything that the log amounts to. Not while its tail waits, some of which may be stable everywhere, or what
        was taken back."""
        if self.rejoining.tail or (self.takes_back and not self.is_running):
            return None
        return summary_of(self)

    def restore(self, state: Summary) -> None:  # type: ignore[override]
        """The checkpoint."""
        self._recalling.restore(state)

    def on_recovered(self, event: Recovered) -> None:
        """Wait for the next graph: the numbers of the edges are gone, and others may have gone on."""
        if event.checkpoint is not None:
            self.restore(event.checkpoint)  # type: ignore[arg-type]
        self.has_forgotten = True
        for record in event.records:
            self._on_record[type(record)](record)
        if self.is_outside:
            self.has_forgotten = self.shares.has_failed = False
            self.give_credit()
            self.declare_recovered()
            self.joining.resume()
            return
        # Also where the log says that this site was out of every graph before.
        self.has_forgotten = self.shares.has_failed = True
        self.shares.granted_until = self.now + self.options.lease_seconds
        self.give_credit()
        self.watching.watch()
        self.watching.drive()
        self.joining.resume()
