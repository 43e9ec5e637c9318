"""Reliable multicast (chapter 3): whoever misses a message asks everyone for it, and one of those who have it sends
it again. Random timers, scaled by distance, let one request and one repair suffice for many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import GroupId, IntervalSet, Part, SiteId, WireError
from ordercast.core.effects import Broadcast
from ordercast.core.events import Arrival
from ordercast.protocols.intergroup.adaptation import RepairParameters, RequestParameters
from ordercast.protocols.intergroup.packets import (
    REQUEST_TICKETS_MAX,
    Gone,
    Retransmission,
    RetransmissionRequest,
    check_intervals,
)

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.group import ProcessGroup
    from ordercast.protocols.intergroup.protocol import InterGroup
    from ordercast.protocols.intergroup.stream import Stream

HOLD_DOWN = 3.0
"""Distances for which a message is not repaired again after a repair was sent or seen: requests that crossed it on the
way are answered by it."""

TICKETS_MAX = 1024
"""Gaps of one sender that a process asks for at a time. More are asked for when some of these are filled."""

HELD_DOWN_MAX = 4096
"""Repairs that are remembered at the most. Whoever forgets them sends something twice."""

MessageName = tuple[GroupId, SiteId, int]


class Ticket:
    """A request for what was found missing of one sender at one moment."""

    __slots__ = ("acknowledged", "attempt", "backed_off", "began", "distance", "missing", "seconds", "set_at")

    def __init__(self, missing: IntervalSet, now: float, distance: float, acknowledged: bool) -> None:
        self.missing = missing
        self.acknowledged = acknowledged
        self.began = now
        self.distance = distance
        self.attempt = 0
        """i of 3.3: how often a time has been drawn before."""
        self.backed_off = False
        """Whether the timer that runs was set because somebody else has asked."""
        self.set_at = now
        self.seconds = 0.0


class Scheduled:
    """A retransmission that is about to leave."""

    __slots__ = ("asked_at", "distance")

    def __init__(self, asked_at: float, distance: float) -> None:
        self.asked_at = asked_at
        self.distance = distance


class Repair(Part):
    """Requests and retransmissions of all groups."""

    packets = (RetransmissionRequest, Retransmission)
    timers = ("request", "repair")
    branches = (
        "requested",
        "requested-again",
        "backed-off",
        "backed-off-already",
        "repair-scheduled",
        "repaired",
        "repair-cancelled",
        "held-down",
        "gone",
    )

    def __init__(self, core: InterGroup) -> None:
        self._core = core
        self.requests = RequestParameters()
        self.repairs = RepairParameters()
        self.tickets: dict[tuple[GroupId, SiteId], dict[int, Ticket]] = {}
        """Group and sender -> the first number of what was found missing together -> the ticket."""
        self._scheduled: dict[MessageName, Scheduled] = {}
        self._held_down: dict[MessageName, tuple[float, float]] = {}
        """When a repair was sent or seen, and how long that counts."""

    # ------------------------------------------------------------------ requests
    def notify(self, group: ProcessGroup, stream: Stream, first: int, last: int) -> None:
        """Messages of a sender are missing: ask for them, after a while."""
        here = [seq for seq in stream.early if first <= seq <= last] if stream.early else []
        missing = IntervalSet([(first, last)]) - IntervalSet.of(sorted(here))
        if missing:
            self.ask(group, stream.sender, missing, stream.coordinator)

    def ask(
        self,
        group: ProcessGroup,
        sender: SiteId,
        missing: IntervalSet,
        coordinator: SiteId,
        *,
        acknowledged: bool = False,
    ) -> None:
        """Schedule a request, for what this process has not acknowledged, or may have."""
        tickets = self.tickets.setdefault((group.name, sender), {})
        first = next(iter(missing))
        if len(tickets) >= TICKETS_MAX:
            # The last one takes what is missing besides.
            latest = tickets[max(tickets)]
            latest.missing = latest.missing | missing
            return
        core = self._core
        self.requests.before_timer()
        ticket = Ticket(missing, core.now, core.control.distance(sender, coordinator), acknowledged)
        tickets[first] = ticket
        self._set_request_timer(group.name, sender, first, ticket)

    def _set_request_timer(self, group: GroupId, sender: SiteId, first: int, ticket: Ticket) -> None:
        core = self._core
        limit = core.options.request_seconds_max
        ticket.seconds = self.requests.draw(core.context.random, ticket.distance, ticket.attempt, limit)
        ticket.set_at = core.now
        core.set_timer(("request", group, sender, first), ticket.seconds)

    def on_request_timeout(self, group_name: GroupId, sender: SiteId, first: int) -> None:
        """Nobody else has asked: we do, and again until it comes."""
        core = self._core
        ticket = self.tickets.get((group_name, sender), {}).get(first)
        if ticket is None or group_name not in core.process_groups:
            return
        core.branch("requested" if ticket.attempt == 0 else "requested-again")
        group = core.process_groups[group_name]
        missing = _first_of(ticket.missing)
        request = RetransmissionRequest(core.control.coordinator, sender, missing, ticket.acknowledged)
        core.outbox.append(Broadcast(group.channel, request))
        self.requests.after_request(max(0.0, core.now - ticket.began) / ticket.distance)
        # Figure 4.1 never looks below highSeq again: when the request or the repair is lost, nobody else notices.
        ticket.attempt = min(ticket.attempt + 1, 20)
        ticket.backed_off = False
        self._set_request_timer(group_name, sender, first, ticket)

    def note_arrived(self, group: ProcessGroup, stream: Stream, seq: int) -> None:
        """A message has come: nobody needs to be asked for it."""
        tickets = self.tickets.get((group.name, stream.sender))
        if not tickets:
            return
        for first, ticket in tickets.items():
            if seq in ticket.missing:
                ticket.missing = ticket.missing - IntervalSet([(seq, seq)])
                if not ticket.missing:
                    del tickets[first]
                    self._core.cancel_timer(("request", group.name, stream.sender, first))
                return

    def forget(self, group: ProcessGroup, sender: SiteId) -> None:
        """Nothing of the sender is missed any more."""
        for first in self.tickets.pop((group.name, sender), {}):
            self._core.cancel_timer(("request", group.name, sender, first))

    def forget_group(self, group: ProcessGroup) -> None:
        """Nothing of a group is missed any more, and nothing is repaired."""
        for name, sender in [key for key in self.tickets if key[0] == group.name]:
            for first in self.tickets.pop((name, sender)):
                self._core.cancel_timer(("request", name, sender, first))
        for name_of in [key for key in self._scheduled if key[0] == group.name]:
            del self._scheduled[name_of]
            self._core.cancel_timer(("repair", *name_of))

    def _hear_request(self, group: GroupId, sender: SiteId, asked: IntervalSet) -> None:
        """Somebody else has asked: whoever waits with the same request waits for longer.

        At most once until half of the new time is over. (At each request: ten receivers that share a loss make it
        59,049 times as long.)
        """
        for first, ticket in self.tickets.get((group, sender), {}).items():
            if ticket.missing - asked:
                continue
            core = self._core
            self.requests.heard += 1
            if ticket.backed_off and 0 <= core.now - ticket.set_at < ticket.seconds / 2:
                core.branch("backed-off-already")
                continue
            core.branch("backed-off")
            ticket.attempt = min(ticket.attempt + 1, 20)
            ticket.backed_off = True
            self._set_request_timer(group, sender, first, ticket)

    # ------------------------------------------------------------------ retransmissions
    def on_retransmission_request(self, sender: SiteId, packet: RetransmissionRequest, arrival: Arrival) -> None:
        """Somebody misses messages: send what is here, after a while."""
        core = self._core
        if sender == core.site:
            return
        group = core.group_on(arrival)
        if group.member is None and (packet.sender not in group.streams or sender not in group.members):
            raise WireError(f"{sender} asks in {group.name} for messages of {packet.sender}")
        check_intervals(packet.missing)
        own = packet.sender == core.site
        if own and group.sending is not None and packet.missing and packet.missing[-1][1] > group.sending.seq:
            raise WireError(f"{sender} asks for a message that was never sent")
        core.transmission.note_loss(group)
        asked = IntervalSet(packet.missing)
        self._hear_request(group.name, packet.sender, asked)
        distance = core.control.distance(sender, packet.coordinator)
        gone = False
        for seq in asked:
            if group.buffer.find(packet.sender, seq) is not None:
                self._schedule((group.name, packet.sender, seq), distance)
            else:
                gone = gone or own
        in_earnest = packet.acknowledged or core.stability.somebody_was_left_out(group)
        if gone and group.sending is not None and in_earnest:
            core.branch("gone")
            kept = group.buffer.own
            core.send((sender,), Gone(group.name, kept[0].seq if kept else group.sending.seq + 1))

    def _schedule(self, name: MessageName, distance: float) -> None:
        core = self._core
        if name in self._scheduled:
            return
        held_since, seconds = self._held_down.get(name, (0.0, -1.0))
        if 0 <= core.now - held_since < seconds:
            core.branch("held-down")
            return
        core.branch("repair-scheduled")
        self.repairs.before_timer()
        self._scheduled[name] = Scheduled(core.now, distance)
        # A distance that was measured while a clock was set may be seconds. Whoever asks repeats itself by then.
        seconds = self.repairs.draw(core.context.random, distance, core.options.request_seconds_max)
        core.set_timer(("repair", *name), seconds)

    def on_repair_timeout(self, group_name: GroupId, sender: SiteId, seq: int) -> None:
        """Nobody else has sent it: we do."""
        core = self._core
        name = (group_name, sender, seq)
        scheduled = self._scheduled.pop(name, None)
        group = core.process_groups.get(group_name)
        data = None if group is None else group.buffer.find(sender, seq)
        if scheduled is None or group is None or data is None:
            return
        core.branch("repaired")
        core.outbox.append(Broadcast(group.channel, Retransmission(data)))
        self.repairs.after_repair(max(0.0, core.now - scheduled.asked_at) / scheduled.distance)
        self._hold_down(name, scheduled.distance)

    def on_retransmission(self, sender: SiteId, packet: Retransmission, arrival: Arrival) -> None:
        """Somebody has sent a message again. Whoever follows its source takes it; to the others it is not new."""
        core = self._core
        if sender == core.site:
            return
        group = core.group_on(arrival)
        data = packet.original
        source = data.sender
        stream = core.reception.find_again(group, source, data)
        self._note_repaired((group.name, source, data.seq), core.control.distance(sender))
        if source == core.site or stream is None:
            return
        core.clock.observe(data.timestamp, core.now)
        group.buffer.keep(source, data)
        if data.change is None and data.proxied is None:
            group.service.arrive_again(stream, data)
        core.reception.follow(group, stream, data)
        group.advance()
        core.transmission.answer(group, data.timestamp)

    def _note_repaired(self, name: MessageName, distance: float) -> None:
        core = self._core
        scheduled = self._scheduled.pop(name, None)
        if scheduled is not None:
            core.branch("repair-cancelled")
            core.cancel_timer(("repair", *name))
            self.repairs.after_cancellation(max(0.0, core.now - scheduled.asked_at) / scheduled.distance)
        group = core.process_groups.get(name[0])
        if group is not None and group.buffer.find(name[1], name[2]) is not None:
            self._hold_down(name, distance)

    def _hold_down(self, name: MessageName, distance: float) -> None:
        if len(self._held_down) >= HELD_DOWN_MAX:
            self._held_down.clear()
        core = self._core
        self._held_down[name] = (core.now, min(HOLD_DOWN * distance, core.options.request_seconds_max / 2))

    def note_cleared(self, group: ProcessGroup) -> None:
        """Messages were forgotten: they will not be repaired."""
        if self._held_down:
            self._held_down = {
                name: held
                for name, held in self._held_down.items()
                if name[0] != group.name or group.buffer.find(name[1], name[2]) is not None
            }


def _first_of(missing: IntervalSet) -> tuple[tuple[int, int], ...]:
    """As many as one request may name."""
    named, left = [], REQUEST_TICKETS_MAX
    for first, last in missing.intervals():
        if not left:
            break
        named.append((first, min(last, first + left - 1)))
        left -= named[-1][1] - first + 1
    return tuple(named)
