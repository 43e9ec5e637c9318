"""Choosing a service (4.7.1): a handshake with each source that has to be followed, its activation point, or the news
that it is not available."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import GroupId, Part, SiteId, UsageError, WireError
from ordercast.core.effects import Activate, ServiceUnavailable
from ordercast.core.events import Arrival
from ordercast.core.tables import nearest
from ordercast.protocols.intergroup.membership.services import IN_VIEWS, SourceInViews
from ordercast.protocols.intergroup.options import check_service
from ordercast.protocols.intergroup.packets import ActivationPoint, ActivationRequest, Data, Gone, check_time
from ordercast.protocols.intergroup.services import NO_SERVICE, SERVICES, GroupTimestamp, OnRequest, Service

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.group import ProcessGroup
    from ordercast.protocols.intergroup.protocol import InterGroup
    from ordercast.protocols.intergroup.stream import Stream

ATTEMPTS = 8
"""So often a source is asked within `activation_seconds`."""


class Handshake:
    """What is asked of the sources of one group."""

    def __init__(self) -> None:
        self.asked: dict[SiteId, int] = {}
        """Those who have not answered, and the attempt that counts."""
        self.points: dict[SiteId, tuple[int, int]] = {}
        """Activation point and time of those who have, for a service that waits for others."""
        self.tries = 0
        self.next: Service | None = None
        """The service that begins when everyone has answered; until then the one before goes on."""


class Activation(Part):
    """Services that begin, change, and begin anew."""

    packets = (ActivationRequest, ActivationPoint, Gone)
    timers = ("activation",)
    branches = (
        "activated-at-once",
        "handshake",
        "asked-again",
        "activated",
        "unavailable",
        "overtaken",
        "began-anew",
        "asked-for",
        "asked-for-in-vain",
    )

    def __init__(self, core: InterGroup) -> None:
        self._core = core
        self._handshakes: dict[GroupId, Handshake] = {}
        self._attempts = 0

    def start(self) -> None:
        """Every group begins with the configured service, from the first message of the view on."""
        core = self._core
        for group in core.process_groups.values():
            if group.member is not None:
                continue
            group.service = SERVICES[core.options.service](core, group, None)
            for stream in group.others if group.service.reliable else ():
                stream.begin(group.senders.activation_points[stream.sender], group.senders.start_time)
            if isinstance(group.service, GroupTimestamp):
                group.service.join()
            core.outbox.append(Activate(group.name, group.service.name))

    # ------------------------------------------------------------------ the application
    def choose(self, group: ProcessGroup, name: str, sources: tuple[SiteId, ...]) -> None:
        """The application wants another service; `UsageError` when it makes no sense."""
        check_service(name)
        for source in sources:
            if source not in group.streams:
                raise UsageError(f"{source!r} is no sender of {group.name}; {nearest(source, group.senders.members)}")
        if sources and name == GroupTimestamp.name:
            raise UsageError(f"{name} orders all senders of a group: leave out the sources")
        if group.member is not None and not (name == group.service.name == OnRequest.name and sources):
            self._choose_in_views(group, name, sources)
            return
        if name == OnRequest.name and isinstance(group.service, OnRequest) and sources:
            self._ask_for(group, group.service, sources)
            return
        self._abandon(group)
        core = self._core
        across = core.options.order_across_groups and name == GroupTimestamp.name != group.service.name
        service = SERVICES[name](core, group, frozenset(sources) or None)
        followed = [stream for stream in group.others if service.reliable and service.means(stream.sender)]
        # In one order with other groups, whose messages have been delivered up to now, only what is sent from now on
        # can have its place.
        unknown = [stream.sender for stream in followed if stream.state != "active" or across]
        if not unknown:
            core.branch("activated-at-once")
            self._switch(group, service, {})
            return
        core.branch("handshake")
        handshake = self._handshakes[group.name] = Handshake()
        handshake.next = service
        now = core.clock.read(core.now)
        for sender in unknown:
            if group.streams[sender].state == "idle":
                # First of all it counts in our acknowledgements, so that nothing becomes stable that we may need.
                group.streams[sender].begin_handshake(now)
        if isinstance(service, GroupTimestamp):
            service.freeze(now)
        self._ask(group, handshake, unknown)

    def _choose_in_views(self, group: ProcessGroup, name: str, sources: tuple[SiteId, ...]) -> None:
        """Where views change, every source is followed in any case: the service begins at once."""
        core = self._core
        core.branch("activated-at-once")
        before = group.service
        service = IN_VIEWS[name](core, group, frozenset(sources) or None)
        left = list(before.close())
        group.service = service
        if group.member is None or not group.member.entered:
            return
        self.tell(group, service)
        if not service.reliable:
            for stream, data in left:
                service.arrive(stream, data)
        elif isinstance(service, SourceInViews):
            # What waits for those of other sources no longer has to. (Left to its turn: the next message of its source
            # is delivered when it comes, before it.)
            for stream, data in group.member.order.waiting():
                service.take(stream, data)
        group.advance()

    def _abandon(self, group: ProcessGroup) -> None:
        """What was under way no longer matters."""
        handshake = self._handshakes.pop(group.name, None)
        if handshake is None:
            return
        self._core.cancel_timer(("activation", group.name))
        if handshake.next is not None:
            self._core.branch("overtaken")
            self._keep_old(group, handshake.next)

    def _keep_old(self, group: ProcessGroup, chosen: Service) -> None:
        """The chosen service does not come about: streams that only it would have followed are left alone."""
        if isinstance(chosen, GroupTimestamp):
            if isinstance(group.service, GroupTimestamp):
                group.service.join()
            else:
                chosen.close()
        for stream in group.others:
            if stream.state == "joining" and not (group.service.reliable and group.service.means(stream.sender)):
                stream.end()

    # ------------------------------------------------------------------ the handshake
    def _ask(self, group: ProcessGroup, handshake: Handshake, sources: list[SiteId]) -> None:
        core = self._core
        self._attempts += 1
        for source in sources:
            handshake.asked[source] = self._attempts
        self._say_again(group, handshake)
        core.set_timer(("activation", group.name), core.options.activation_seconds / ATTEMPTS)

    def _say_again(self, group: ProcessGroup, handshake: Handshake) -> None:
        core = self._core
        time = core.clock.read(core.now)
        for source, attempt in handshake.asked.items():
            core.send((source,), ActivationRequest(group.name, attempt, time))

    def on_activation_request(self, sender: SiteId, packet: ActivationRequest, arrival: Arrival) -> None:
        """A receiver wants to follow this process: from its next message on."""
        core = self._core
        group = core.process_groups.get(packet.group)
        if group is None or group.sending is None or sender not in group.members:
            raise WireError(f"{sender} wants to follow {core.site} in {packet.group!r}")
        check_time(packet.timestamp)
        core.clock.observe(packet.timestamp, core.now)
        time = core.clock.tick(core.now)
        point = ActivationPoint(group.name, packet.attempt, group.senders.view, group.sending.seq + 1, time)
        core.send((sender,), point)

    def on_activation_point(self, sender: SiteId, packet: ActivationPoint, arrival: Arrival) -> None:
        """A source has answered."""
        core = self._core
        group = core.process_groups.get(packet.group)
        if group is None or sender not in group.streams or packet.view != group.senders.view or packet.seq < 1:
            raise WireError(f"{sender} has no activation point in {packet.group!r}")
        check_time(packet.timestamp)
        core.clock.observe(packet.timestamp, core.now)
        handshake = self._handshakes.get(group.name)
        if handshake is None or handshake.asked.get(sender) != packet.attempt:
            return
        del handshake.asked[sender]
        if handshake.next is None:
            self._begin_anew(group, group.streams[sender], packet.seq, packet.timestamp)
        else:
            handshake.points[sender] = (packet.seq, packet.timestamp)
        if not handshake.asked:
            self._finish(group, handshake)

    def on_activation_timeout(self, name: GroupId) -> None:
        """Some have not answered: ask again, or say that the service cannot be had."""
        core = self._core
        group, handshake = core.process_groups[name], self._handshakes.get(name)
        if handshake is None:
            return
        handshake.tries += 1
        if handshake.tries >= ATTEMPTS:
            self._give_up(group, handshake)
            return
        core.branch("asked-again")
        self._say_again(group, handshake)
        core.set_timer(("activation", name), core.options.activation_seconds / ATTEMPTS)

    def _give_up(self, group: ProcessGroup, handshake: Handshake) -> None:
        """Those who have not answered are not available."""
        core = self._core
        core.branch("unavailable")
        silent = sorted(handshake.asked)
        chosen = handshake.next
        if isinstance(chosen, GroupTimestamp):
            reason = f"{', '.join(silent)} did not answer within {core.options.activation_seconds} s"
            core.outbox.append(ServiceUnavailable(group.name, chosen.name, None, reason))
            handshake.points.clear()
        else:
            name = group.service.name if chosen is None else chosen.name
            for source in silent:
                reason = f"{source} did not answer within {core.options.activation_seconds} s"
                core.outbox.append(ServiceUnavailable(group.name, name, source, reason))
        if chosen is None:
            # The service is active, and goes on as soon as the source is back.
            handshake.tries = 0
            self._ask(group, handshake, silent)
        else:
            handshake.asked.clear()
            self._finish(group, handshake)

    def _finish(self, group: ProcessGroup, handshake: Handshake) -> None:
        """Everyone has answered, or has had the time for it."""
        core = self._core
        del self._handshakes[group.name]
        core.cancel_timer(("activation", group.name))
        chosen = handshake.next
        if chosen is None:
            return
        followed = {stream.sender for stream in group.others if chosen.means(stream.sender)}
        there = {sender for sender in followed if sender in handshake.points or group.streams[sender].state == "active"}
        if not there or (isinstance(chosen, GroupTimestamp) and there != followed):
            self._keep_old(group, chosen)
            self._resume(group)
            return
        if there != followed:
            chosen.sources = frozenset(there | ({core.site} if group.own and chosen.means(core.site) else set()))
        core.branch("activated")
        self._switch(group, chosen, handshake.points)

    def _resume(self, group: ProcessGroup) -> None:
        """The service before goes on; where it had to begin anew with somebody, that still has to happen."""
        service = group.service
        waits = [stream.sender for stream in group.others if stream.state == "joining" and service.means(stream.sender)]
        if waits and service.reliable:
            handshake = self._handshakes[group.name] = Handshake()
            self._ask(group, handshake, waits)

    # ------------------------------------------------------------------ activation
    def _switch(self, group: ProcessGroup, service: Service, points: dict[SiteId, tuple[int, int]]) -> None:
        """The chosen service begins. What the one before has taken and not delivered is the new one's."""
        core = self._core
        before = group.service
        left = list(before.close())
        group.service = service
        if isinstance(service, GroupTimestamp):
            service.join()
        self.tell(group, service)
        for stream in group.others:
            stream.gaps.clear()
            if not service.reliable or not service.means(stream.sender):
                core.repair.forget(group, stream.sender)
                left += [(stream, data) for data in stream.end()]
        self._hand_on(before, service, left, points)
        for sender, (seq, time) in points.items():
            stream = group.streams[sender]
            core.repair.forget(group, sender)
            stream.begin(seq, time)
            core.reception.begin(group, stream)
        service.advance()

    def tell(self, group: ProcessGroup, service: Service) -> None:
        """The application hears what it has from now on."""
        # What the service before has not delivered may never have its turn with this one: nobody waits for that.
        if group.sending is not None:
            self._core.transmission.note_settled(group, group.sending.seq)
        outbox = self._core.outbox
        if service.sources is None:
            outbox.append(Activate(group.name, service.name))
        else:
            outbox.append(Activate(group.name, NO_SERVICE))
            for source in sorted(service.sources):
                outbox.append(Activate(group.name, service.name, source))

    def _hand_on(
        self,
        before: Service,
        service: Service,
        left: list[tuple[Stream, Data]],
        points: dict[SiteId, tuple[int, int]],
    ) -> None:
        """What was taken and not delivered: in its turn where sources are followed on, as though it had just come where
        they are not. What was never followed is not made up for."""
        for stream, data in left:
            if not service.means(stream.sender):
                continue
            if not service.reliable:
                service.arrive(stream, data)
            elif before.reliable and stream.sender not in points:
                service.take(stream, data)

    # ------------------------------------------------------------------ gaps
    def on_gone(self, sender: SiteId, packet: Gone, arrival: Arrival) -> None:
        """A source no longer has what this process asks for: it was away for so long that nobody waited for it."""
        core = self._core
        group = core.process_groups.get(packet.group)
        has_gone = core.was_in(packet.group) if group is None else group.member is not None
        if has_gone and (group is None or sender not in group.streams):
            # It was delayed: the source is no sender any more, or this process is not in the group.
            return
        if group is None or sender not in group.streams:
            raise WireError(f"{sender} is no sender of {packet.group!r}")
        stream, service = group.streams[sender], group.service
        if group.member is not None and not isinstance(service, OnRequest):
            group.member.on_gone(sender, packet.seq)
            return
        if isinstance(service, OnRequest):
            if any(seq < packet.seq for seq in service.missing(sender)):
                core.branch("asked-for-in-vain")
                service.give_up(sender, packet.seq)
                core.repair.forget(group, sender)
                reason = f"{sender} no longer has what comes before its message {packet.seq}"
                core.outbox.append(ServiceUnavailable(group.name, service.name, sender, reason))
            return
        if stream.state != "active" or packet.seq <= stream.last + 1:
            return
        stream.state = "joining"
        core.repair.forget(group, sender)
        handshake = self._handshakes.get(group.name)
        if handshake is None:
            handshake = self._handshakes[group.name] = Handshake()
        if handshake.next is None or handshake.next.means(sender):
            self._ask(group, handshake, [sender])

    def _begin_anew(self, group: ProcessGroup, stream: Stream, seq: int, time: int) -> None:
        """A source is followed from another number on; the application hears that there is a gap."""
        core = self._core
        core.branch("began-anew")
        if stream.last >= stream.first and stream.last > stream.delivered and group.service.means(stream.sender):
            # What was there before the gap still waits for its turn; said now, the gap would seem to lie before it.
            # (Where nothing has come since the activation, nothing waits, and nobody would ever say it.)
            stream.gaps.add(stream.last)
        elif not stream.gaps:
            core.outbox.append(Activate(group.name, group.service.name, stream.sender))
        stream.begin(seq, time)
        core.reception.begin(group, stream)
        group.service.advance()

    def _ask_for(self, group: ProcessGroup, service: OnRequest, sources: tuple[SiteId, ...]) -> None:
        """The application wants what it misses of some sources."""
        core = self._core
        for source in sources:
            core.outbox.append(Activate(group.name, service.name, source))
            missing = service.missing(source)
            if missing:
                core.branch("asked-for")
                core.repair.forget(group, source)
                coordinator = group.streams[source].coordinator
                core.repair.ask(group, source, missing, coordinator, acknowledged=True)
