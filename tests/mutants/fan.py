"""Mutants of the fan (Spauster 1991, 6.4)."""

from __future__ import annotations

import msgspec

from ordercast.core import GroupId, MessageId, Multicast, Protocol, SiteId
from ordercast.core.effects import Deliver
from ordercast.core.events import Arrival, MulticastRequested, Recovered
from ordercast.protocols.fan import Fan0, Fan1, Fan2, Fan3
from ordercast.protocols.fan.packets import Acknowledge, Data, Null, Request, Skip
from ordercast.protocols.fan.streams import IncomingStream
from tests.mutants.registry import mutant


# ---------------------------------------------------------------------- Protocol 0
@mutant(Fan0, "on_data", caught_by="P1", alone=True)
def holds_back_what_was_overtaken(self: Fan0, sender: SiteId, packet: Data, arrival: Arrival) -> None:
    """A message that a later one of its source has overtaken waits until the next message comes."""
    newest: dict[SiteId, int] = self.__dict__.setdefault("newest", {})
    held: list[Data] = self.__dict__.setdefault("held", [])
    number = packet.multicast.id.source_seq
    while held:
        Fan0.on_data(self, sender, held.pop(), arrival)
    if number < newest.get(sender, 0):
        held.append(packet)
        return
    newest[sender] = number
    Fan0.on_data(self, sender, packet, arrival)


@mutant(Fan0, "on_data", caught_by="integrity")
def takes_a_copy_for_a_new_message(self: Fan0, sender: SiteId, packet: Data, arrival: Arrival) -> None:
    """The second copy of a message is delivered under a name that nobody gave it."""
    seen: set[MessageId] = self.__dict__.setdefault("seen", set())
    multicast = packet.multicast
    if multicast.id in seen:
        name = msgspec.structs.replace(multicast.id, number=multicast.id.number + 1000)
        multicast = msgspec.structs.replace(multicast, id=name)
    seen.add(multicast.id)
    self.outbox.append(Deliver(multicast, None, sender))


@mutant(Fan0, "on_multicast_requested", caught_by="P2")
def forgets_a_member_after_a_crash(self: Fan0, event: MulticastRequested) -> None:
    """A source that has been down no longer knows the last member of a group."""
    group = event.multicast.groups[0]
    members = self.context.groups[group]
    self.send(members[:-1] if self.context.incarnation else members, Data(group, 0, event.multicast))


@mutant(Fan0, "on_data")
def wants_to_hear_twice_after_a_crash(self: Fan0, sender: SiteId, packet: Data, arrival: Arrival) -> None:
    """A site that has been down ignores the first message of each source."""
    heard: set[SiteId] = self.__dict__.setdefault("heard", set())
    if self.context.incarnation == 0 or sender in heard:
        Fan0.on_data(self, sender, packet, arrival)
    heard.add(sender)


@mutant(Fan0, "on_data")
def believes_its_clock(self: Fan0, sender: SiteId, packet: Data, arrival: Arrival) -> None:
    """What comes at an earlier time than the message before it, by a clock that jumps, is thrown away."""
    latest: float = self.__dict__.setdefault("latest", self.now)
    if self.now >= latest:
        self.__dict__["latest"] = self.now
        Fan0.on_data(self, sender, packet, arrival)


# ---------------------------------------------------------------------- Protocol 1
@mutant(Fan1, "on_recovered", caught_by="P2")
def says_too_early_that_it_is_recovered(self: Fan1, event: Recovered) -> None:
    """A site that has just woken up promises what only one with recovered streams can keep."""
    Fan1.on_recovered(self, event)
    Protocol.declare_recovered(self)


@mutant(Fan1, "accept_awake", caught_by="P2", alone=True)
def goes_on_at_once(self: Fan1, source: SiteId, packet: Data, stream: IncomingStream) -> None:
    """Fragment (C) without the wait for phi_n: s sends 7 and 8, 8 finds the site down, 7 finds it awake; the site
    goes on with 7 and waits for 8 for ever."""
    if packet.number > stream.released:
        self.skip_to(source, packet.group, stream, packet.number - 1)
        self.recover_stream(source, packet.group, stream)
        self.accept(source, packet, stream)


@mutant(Fan1, "accept", caught_by="no-duplication")
def delivers_copies(self: Fan1, source: SiteId, packet: Data, stream: IncomingStream) -> None:
    """No check for old numbers."""
    if packet.number <= stream.released:
        self.outbox.append(Deliver(packet.multicast, None, source))
    else:
        Fan1.accept(self, source, packet, stream)


@mutant(Fan1, "accept", caught_by="single-source-order")
def delivers_what_comes(self: Fan1, source: SiteId, packet: Data, stream: IncomingStream) -> None:
    """No gap detection: what is early is delivered early, and each number once."""
    seen: set[MessageId] = self.__dict__.setdefault("seen", set())
    if packet.multicast.id not in seen:
        seen.add(packet.multicast.id)
        stream.skip_to(max(stream.released, packet.number))
        self.deliver_logged(source, packet.group, packet.number, packet.multicast)


@mutant(Fan1, "on_gap", caught_by="P2")
def has_no_room_for_what_is_early(
    self: Fan1, source: SiteId, group: GroupId, stream: IncomingStream, number: int
) -> None:
    """What is early is thrown away although nobody sends it again."""
    for early in tuple(stream.early):
        stream.forget(early)


@mutant(Fan1, "deliver_pending")
def delivers_one_and_stops(self: Fan1, source: SiteId, group: GroupId, stream: IncomingStream) -> None:
    """When a gap closes, only the first message behind it is delivered."""
    multicast = next(stream.release(), None)
    if multicast is not None:
        self.deliver_logged(source, group, stream.released, multicast)


# ---------------------------------------------------------------------- Protocol 2
@mutant(Fan2, "on_gap", caught_by="P2", alone=True)
def asks_once(self: Fan2, source: SiteId, group: GroupId, stream: IncomingStream, number: int) -> None:
    """What has been asked for is not asked for again, although the answer may be what was lost."""
    asked: set[tuple[SiteId, GroupId, int]] = self.__dict__.setdefault("asked", set())
    missing = tuple(
        (first, last)
        for first, last in stream.missing(stream.released + 1, number - 1)
        if (source, group, last) not in asked
    )
    asked.update((source, group, last) for _, last in missing)
    if missing:
        self.send((source,), Request(group, missing))


@mutant(Fan2, "on_request", caught_by="P2")
def does_not_send_again(self: Fan2, sender: SiteId, packet: Request, arrival: Arrival) -> None:
    """No retransmission."""


@mutant(Fan2, "on_request", caught_by="P2")
def sends_one_too_few_again(self: Fan2, sender: SiteId, packet: Request, arrival: Arrival) -> None:
    """The last number of each interval is left out."""
    shorter = tuple((first, last - 1) for first, last in packet.missing)
    Fan2.on_request(self, sender, Request(packet.group, shorter), arrival)


@mutant(Fan2, "on_skip", caught_by="P2")
def waits_for_what_is_gone(self: Fan2, sender: SiteId, packet: Skip, arrival: Arrival) -> None:
    """A destination does not believe that the source has forgotten a message."""


@mutant(Fan2, "deliver_logged", caught_by="no-duplication")
def forgets_the_log(self: Fan2, source: SiteId, group: GroupId, number: int, multicast: Multicast) -> None:
    """Deliveries are not logged: after a crash, a copy of an old message is new."""
    self.outbox.append(Deliver(multicast, None, source))


@mutant(Fan2, "accept_awake", caught_by="R1-single-source")
def goes_back_when_it_wakes_up(self: Fan2, source: SiteId, packet: Data, stream: IncomingStream) -> None:
    """Fragment (C) without the check for old numbers: a copy that comes first after a crash is the place to go on."""
    self.skip_to(source, packet.group, stream, packet.number - 1)
    self.recover_stream(source, packet.group, stream)
    self.accept(source, packet, stream)


# ---------------------------------------------------------------------- Protocol 3
@mutant(Fan3, "on_gap", caught_by="P2")
def leaves_gaps_to_the_null_messages(
    self: Fan3, source: SiteId, group: GroupId, stream: IncomingStream, number: int
) -> None:
    """A gap that a message shows is not asked for; a null message will show it again."""
    if number not in stream.early:
        Fan3.on_gap(self, source, group, stream, number)


@mutant(Fan3, "on_null_timeout", caught_by="Q2", alone=True)
def says_nothing_too_rarely(self: Fan3, group: GroupId) -> None:
    """After the first null message the others follow five times too slowly."""
    Fan3.on_null_timeout(self, group)
    self.set_timer(("null", group), 5 * self.options.delta + 1.0)


@mutant(Fan3, "on_null_timeout", caught_by="termination")
def says_nothing_once(self: Fan3, group: GroupId) -> None:
    """One null message, which may be lost, and no more."""
    self.send(self.outgoing[group].members, Null(group, self.outgoing[group].highest))


@mutant(Fan3, "on_null", caught_by="termination")
def misses_the_last_message(self: Fan3, sender: SiteId, packet: Null, arrival: Arrival) -> None:
    """One off: when only the highest number is missing, nothing seems to be."""
    Fan3.on_null(self, sender, Null(packet.group, packet.highest - 1), arrival)


@mutant(Fan3, "on_null")
def acknowledges_what_it_has_not(self: Fan3, sender: SiteId, packet: Null, arrival: Arrival) -> None:
    """A destination acknowledges what it has only heard of, and the source forgets it."""
    Fan3.on_null(self, sender, packet, arrival)
    self.send((sender,), Acknowledge(packet.group, packet.highest))


@mutant(Fan3, "on_acknowledge")
def forgets_what_one_has(self: Fan3, sender: SiteId, packet: Acknowledge, arrival: Arrival) -> None:
    """The source forgets a message when any destination has it, not when all have."""
    for site in self.outgoing[packet.group].members:
        Fan3.on_acknowledge(self, site, packet, arrival)


@mutant(Fan3, "accept_awake")
def skips_what_it_missed(self: Fan3, source: SiteId, packet: Data, stream: IncomingStream) -> None:
    """Protocol 2's fragment (C): what was missed while the site was down stays missed."""
    Fan2.accept_awake(self, source, packet, stream)


@mutant(Fan3, "deliver_logged", caught_by="no-duplication")
def forgets_the_log_of_deliveries(
    self: Fan3, source: SiteId, group: GroupId, number: int, multicast: Multicast
) -> None:
    """Deliveries are not logged: after a crash they are asked for, and delivered, again."""
    self.outbox.append(Deliver(multicast, None, source))
