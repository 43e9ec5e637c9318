"""Protocol 3 (Spauster 6.4.4): Protocol 2, and a site that was down gets everything it missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar, cast

from ordercast.core import AtRest, Bounds, Contract, GroupId, Multicast, Options, Packet, SiteId
from ordercast.core.effects import Credit, Deliver
from ordercast.core.events import Arrival, MulticastRequested, Recovered, Started
from ordercast.protocols.fan.arrangement import FAN_3
from ordercast.protocols.fan.packets import Acknowledge, Data, Delivered, Null, Request
from ordercast.protocols.fan.protocol1 import FanOptions
from ordercast.protocols.fan.protocol2 import Fan2
from ordercast.protocols.fan.streams import IncomingStream, OutgoingStream

ACKNOWLEDGE_EVERY = 64
"""Deliveries of a stream until the source hears of them; the null messages see to the rest."""


def _promised(bounds: Bounds, options: Options) -> Mapping[str, float]:
    delta = cast(FanOptions, options).delta
    return {
        "P2": 3 * bounds.phi_p + 3 * bounds.phi_n,
        # The thesis prints delta + 3 phi_P + 3 phi_N and forgets the last step: send, request, resend, deliver are
        # four.
        "Q2": delta + 4 * bounds.phi_p + 3 * bounds.phi_n,
    }


def _credit_at_rest(options: FanOptions) -> int:
    """For messages of a page; larger ones may leave less."""
    return max(1, min(options.log_messages_max, options.log_bytes_max // 4096))


class Fan3(Fan2):
    """Null messages tell a destination what it has missed; the source keeps each message until every destination has
    it.

    The log is bounded here as well, by stopping the application: what a destination that is down has not acknowledged
    must be kept for it.
    """

    contract = Contract(
        name="fan-3",
        title="sequence numbers, retransmission and null messages: a site that was down gets everything",
        paper="Spauster 1991, 6.4.4 (Protocol 3)",
        guarantees=(*Fan2.contract.guarantees, "Q2", "uniform-agreement", "termination", "recovery"),
        faults=Fan2.contract.faults,
        crash="nobody waits until the source's log is full of what the crashed site has not acknowledged",
        branches=(
            "in-order",
            "out-of-order",
            "old",
            "awake-recovered",
            "requested",
            "resent",
            "null-sent",
            "null-found-gap",
            "blocked",
        ),
        options=FanOptions,
        at_rest=lambda sites, groups, options: AtRest(
            packets=2 * groups * sites / options.delta, entries=40 + 5 * sites, credit=_credit_at_rest(options)
        ),
        promised=_promised,
        single_source=True,
        several_groups=False,
    )
    arrangement = FAN_3
    packets: ClassVar[tuple[type[Packet], ...]] = (Data, Request, Null, Acknowledge)
    timers = ("null",)

    def on_started(self, event: Started) -> None:
        """Tell the application how much it may send."""
        self.give_credit()
        self._begin_with_nothing()

    def on_recovered(self, event: Recovered) -> None:
        """Fragment (B), and go on with null messages where there is something to know."""
        super().on_recovered(event)
        self.give_credit()
        for group, stream in self.outgoing.items():
            if stream.highest:
                self.set_timer(("null", group), self.options.delta)
        self._begin_with_nothing()

    def _begin_with_nothing(self) -> None:
        """A source that is named as one says from the start that it has said nothing. (Else: its first message to a
        group is late, or never comes, and a site that was down meanwhile, which must hear of every source to count as
        recovered, never does.)"""
        if self.site in self.options.sources:
            for group, stream in self.outgoing.items():
                if not stream.highest:
                    self.set_timer(("null", group), self.options.delta)

    # ------------------------------------------------------------------ the source
    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Fragment (D); the time until the next null message begins anew."""
        super().on_multicast_requested(event)
        self.set_timer(("null", event.multicast.groups[0]), self.options.delta)

    def on_null_timeout(self, group: GroupId) -> None:
        """Fragment (F): nothing was multicast for delta seconds."""
        stream = self.outgoing[group]
        self.branch("null-sent")
        self.send(stream.members, Null(group, stream.highest))
        self.set_timer(("null", group), self.options.delta)
        if self.room() <= 0:
            # Also after a crash: the log was full, and nobody has multicast since.
            self._say_whether_full()

    def bound_log(self, stream: OutgoingStream) -> None:
        """Stop the application when the log is full."""
        if self.room() <= 0:
            self.branch("blocked")
            self._say_whether_full()
            self.give_credit()

    def _say_whether_full(self) -> None:
        """Name the member that has acknowledged least of all that was sent to it. The log is one for all groups: the
        last message to one of them may find it full of what is kept for a member of another."""
        if self.room() > 0:
            self.block("log", "")
            return
        behind: Counter[SiteId] = Counter()
        for stream in self.outgoing.values():
            for site, delivered in stream.delivered.items():
                behind[site] += stream.highest - max(delivered, stream.acknowledged)
        slow = max(sorted(behind), key=lambda site: behind[site])
        self.block("log", f"the log of {self.site} is full: waiting for {slow}")

    def answer_forgotten(self, destination: SiteId, group: GroupId, through: int) -> None:
        """Whatever is forgotten every destination has acknowledged: the request was overtaken, and needs no answer."""

    def on_acknowledge(self, sender: SiteId, packet: Acknowledge, arrival: Arrival) -> None:
        """A destination has everything up to a number."""
        stream = self.outgoing.get(packet.group)
        if stream is not None:
            was_full = self.room() <= 0
            stream.on_acknowledge(sender, packet.delivered)
            if was_full:
                self._say_whether_full()
            self.give_credit()

    def room(self) -> int:
        """How many more messages the log takes, if none is larger than the largest so far.

        (As many as the number allows, while there is a byte left: a full log is acknowledged, the application sends the
        eight messages that waited, and a destination to which they come in another order has room for four early ones.
        The others it drops, and asks for them again when the time that P2 promises is over.)
        """
        messages = size = largest = 0
        for stream in self.outgoing.values():
            messages += len(stream.kept)
            size += stream.kept_bytes
            if stream.largest > largest:
                largest = stream.largest
        free = self.options.log_bytes_max - size
        if free <= 0:
            return 0
        by_number = self.options.log_messages_max - messages
        by_size = -(-free // largest) if largest else free
        return by_number if by_number < by_size else by_size

    def give_credit(self) -> None:
        """Tell the application how much it may send."""
        self.outbox.append(Credit(max(0, self.room())))

    # ------------------------------------------------------------------ the destination
    def accept_awake(self, source: SiteId, packet: Data, stream: IncomingStream) -> None:
        """Fragment (C): nothing is skipped; what was missed shows as a gap."""
        self.branch("awake-recovered")
        self.recover_stream(source, packet.group, stream)
        self.accept(source, packet, stream)

    def deliver_logged(self, source: SiteId, group: GroupId, number: int, multicast: Multicast) -> None:
        """As ever, and tell the source from time to time."""
        self.append(Delivered(source, group, number, multicast))
        self.outbox.append(Deliver(multicast, None, source))
        if number % ACKNOWLEDGE_EVERY == 0:
            self.send((source,), Acknowledge(group, number))

    def on_null(self, sender: SiteId, packet: Null, arrival: Arrival) -> None:
        """Everything up to `highest` exists: ask for what is missing, or say that nothing is."""
        stream = self.stream(sender, packet.group)
        if not stream.up:
            self.branch("awake-recovered")
            self.recover_stream(sender, packet.group, stream)
            self.deliver_pending(sender, packet.group, stream)
        if packet.highest > stream.released:
            self.branch("null-found-gap")
            self.on_gap(sender, packet.group, stream, packet.highest + 1)
        else:
            self.send((sender,), Acknowledge(packet.group, stream.released))
