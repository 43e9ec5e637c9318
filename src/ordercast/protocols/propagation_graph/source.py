"""The source across graphs: what it may not submit yet waits, and what an old primary destination has not taken is
submitted again, in order (Spauster 5.2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ordercast.core import GroupId, InvariantViolation, Multicast, Part, SiteId, UsageError, WireError
from ordercast.core.effects import Send
from ordercast.core.events import Arrival
from ordercast.protocols.propagation_graph.packets import Closed, Noted, Submit
from ordercast.protocols.propagation_graph.records import Released, Resolved, Submitted

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.protocol import PropagationGraph


class Source(Part):
    """Own messages that are on no edge.

    A source does not send to the new primary destination of an address before the old one has said what it has taken.
    (Else: m1 is on its way to the old one, m2 goes to the new one; the old one has closed when m1 comes, and the new
    one orders m2 before m1.)
    """

    packets = (Closed,)
    records = (Resolved, Released)
    branches = ("held", "taken-back", "resubmitted", "group-ended")

    def __init__(self, core: PropagationGraph) -> None:
        self._core = core
        self.waiting: deque[Multicast] = deque()
        """In the order in which they were multicast, for each address."""
        self._latest = -1
        """The last graph of which the manager has said that there is no later one."""

    def may_enter(self, entry: SiteId) -> bool:
        """Whether a message may enter at a root now, where there are several: what this site has multicast before is
        all taken, or on its way to the same one.

        (Else: s multicasts m1 to α by r1, then m2 to β by r2; q, in β, delivers m2 and multicasts m3 to α, which comes
        to r1 before m1.)
        """
        return self._entries() <= {entry}

    def _entries(self) -> set[SiteId]:
        """The primary destinations that have not taken all that this site has sent them."""
        core = self._core
        entries = {edge.to for edge in core.outgoing_edges() if edge.has_submissions}
        return entries | {core.site} if core.incoming_edge(core.site).early else entries

    def hold(self, multicast: Multicast) -> None:
        """A new message, of which it is not clear whether it may go."""
        core = self._core
        core.changes.check_source()
        core.check_groups(multicast.groups)
        core.branch("held")
        core.append(Submitted("", multicast))
        self.keep(multicast)
        core.give_credit()
        self.release()

    def keep(self, multicast: Multicast) -> None:
        """It waits behind the others."""
        self.waiting.append(multicast)
        self._core.count_own(multicast, 1)

    def take_in(self, multicasts: Iterable[Multicast]) -> None:
        """These wait again, before all that was multicast after them."""
        self.waiting.extendleft(reversed(list(multicasts)))

    # ------------------------------------------------------------------ the word of the old primary destination
    def on_closed(self, sender: SiteId, packet: Closed, arrival: Arrival) -> None:
        """It has closed: take back what it has not taken."""
        core = self._core
        graph = packet.graph
        if core.passage.is_leaving or not (graph == core.number or core.passage.is_earlier(graph)):
            return  # this site leaves, all being taken; or the graph is not open here: it is said again
        if any(to == sender and before < graph and e.has_submissions for (before, to), e in core.past.items()):
            return  # who leaves tells of its last graph only, and would be gone when it is asked about that one
        if graph == core.number:
            core.outgoing_edge(sender)  # even where there is none yet, nothing more is to be sent there
        edge = core.find_outgoing(graph, sender)
        if edge is not None and edge.ended:
            return  # an answer to what was asked before Close: from above, all is taken in the end
        if edge is not None and not edge.acknowledged <= packet.taken <= edge.highest and not edge.closed:
            raise WireError(f"{sender} has taken {packet.taken} of {edge.highest}, and {edge.acknowledged} before")
        if edge is None or not edge.closed:
            # Even when all of it is acknowledged: the log does not say that, and nobody will say it after a crash.
            record = Resolved(graph, sender, packet.taken)
            core.append(record)
            self.recall_resolved(record)
            core.block(sender, "")
            core.give_credit()
        core.outbox.append(Send((sender,), Noted(graph)))
        self.release()

    def recall_resolved(self, record: Resolved) -> None:
        """See `on_closed`."""
        core = self._core
        if record.graph == core.number:
            core.outgoing_edge(record.to)
        edge = core.find_outgoing(record.graph, record.to)
        if edge is None or edge.ended:
            return  # all of it was acknowledged and forgotten; or, from above, all is taken, whatever an answer said
        for packet in edge.acknowledge(record.taken):
            if type(packet) is Submit:
                core.count_own(packet.multicast, -1)
        rest = [packet.multicast for packet in edge.take_back()]
        if rest:
            core.branch("taken-back")
            self.take_in(rest)
        core.holding = True
        core.forget_if_done(edge)

    def settle(self) -> None:
        """This site leaves. It has asked for that when all that it had multicast was taken, which its log does not
        say, and nobody owes it an answer any more."""
        core = self._core
        for edge in [edge for edge in core.outgoing_edges() if not edge.ended]:
            for packet in edge.acknowledge(edge.highest):
                if type(packet) is Submit:
                    core.count_own(packet.multicast, -1)
            core.forget_if_done(edge)

    # ------------------------------------------------------------------ going on
    def release(self) -> None:
        """Submit what waits and need not, in the graph that is open."""
        core = self._core
        if core.closed is not None or core.is_outside:
            return
        if chosen := self._choose():
            core.branch("resubmitted")
            record = Released(tuple(multicast.id for multicast in chosen))
            core.append(record)
            self.recall_released(record)
            own = core.incoming_edge(core.site)
            if own.early:
                own.stalled = True
                core.drain(own)
            core.give_credit()
        if self.waiting:
            core.lookup.ask_for_latest()
            core.passage.go_on()
            if core.routes.has_several_entries:
                core.repair.ask_whether_taken()
        core.holding = bool(self.waiting) or core.changes.has_asked_to_go or self._has_open_ends()

    def _has_open_ends(self) -> bool:
        """Whether some primary destination has closed the graph that is open here, or some of an earlier one has not
        yet said what it has taken."""
        core = self._core
        return any(edge.closed for edge in core.outgoing.values()) or any(
            edge.has_submissions for edge in core.past.values()
        )

    @property
    def is_uncertain(self) -> bool:
        """Whether something waits until it is clear that its group has ended."""
        core = self._core
        return core.closed is None and any(
            not self._is_certain(multicast) for multicast in self.waiting if not core.is_outside
        )

    def _is_certain(self, multicast: Multicast) -> bool:
        """Whether its groups are there, or have ended for good. (Else: this site is late; in its graph nobody is in k,
        and in a later one q is, since before this message was multicast.)"""
        core = self._core
        return self._latest == core.number or all(group in core.groups for group in multicast.groups)

    def note_latest(self, graph: int) -> None:
        """The manager says that this is the latest graph, and that it is about to make no other."""
        if graph == self._core.number and self._latest != graph:
            self._latest = graph
            self.release()

    def _choose(self) -> list[Multicast]:
        """What need not wait: of each address, nothing is left on an edge of an earlier graph, and its primary
        destination has not closed again."""
        core = self._core
        if core.options.entry == "root":
            return self._choose_first()
        held: set[tuple[GroupId, ...]] = {
            packet.multicast.groups for edge in core.past.values() for packet in edge.kept if type(packet) is Submit
        }
        chosen = []
        for multicast in self.waiting:
            if multicast.groups not in held and self._is_certain(multicast):
                entry = self._entry(multicast)
                edge = core.outgoing.get(entry)
                if edge is None or not edge.closed:
                    chosen.append(multicast)
                    continue
            held.add(multicast.groups)
        return chosen

    def _choose_first(self) -> list[Multicast]:
        """The same where messages enter at roots: in their order, whatever their addresses are, and by one root at a
        time."""
        core, entries = self._core, self._entries()
        if any(edge.has_submissions for edge in core.past.values()):
            return []
        chosen = []
        for multicast in self.waiting:
            entry = self._entry(multicast)
            edge = core.outgoing.get(entry)
            if not self._is_certain(multicast) or (edge is not None and edge.closed):
                break
            if entry:
                entries.add(entry)
            if len(entries) > 1:
                break
            chosen.append(multicast)
        return chosen

    def _entry(self, multicast: Multicast) -> SiteId:
        """The primary destination; empty when all groups of the message have ended."""
        try:
            return self._core.routes.ways[multicast.groups, multicast.destinations].entry
        except UsageError:
            return ""

    def recall_released(self, record: Released) -> None:
        """These have their places on the edges to their primary destinations, and wait no more."""
        core = self._core
        names = set(record.messages)
        chosen = [multicast for multicast in self.waiting if multicast.id in names]
        self.waiting = deque(multicast for multicast in self.waiting if multicast.id not in names)
        for multicast in chosen:
            core.count_own(multicast, -1)
            entry = self._entry(multicast)
            if not entry:
                core.branch("group-ended")
            elif entry == core.site:
                core.queue_here(core.incoming_edge(core.site), multicast)
            else:
                core.send((entry,), core.keep_submission(entry, multicast))
                core.repair.look_soon()

    def check_invariants(self) -> None:
        """Own messages are counted as long as their primary destination has not taken them."""
        core = self._core
        submitted = sum(type(packet) is Submit for edge in core.outgoing_edges() for packet in edge.kept)
        if core.own_pending != submitted + len(core.incoming_edge(core.site).early) + len(self.waiting):
            raise InvariantViolation(f"{core.site}: {core.own_pending} own messages are not what is pending")
        if (core.own_pending_bytes > 0) > (core.own_pending > 0) or core.own_pending_bytes < 0:
            raise InvariantViolation(f"{core.site}: {core.own_pending} own messages of {core.own_pending_bytes} bytes")
