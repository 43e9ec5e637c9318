"""Protocol 2 (Spauster 6.4.3): Protocol 1, and what the network loses is asked for again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ordercast.core import CRASH_FAULTS, NETWORK_FAULTS, AtRest, Bounds, Contract, GroupId, Options, Packet, SiteId
from ordercast.core.events import Arrival, MulticastRequested
from ordercast.protocols.fan.arrangement import FAN_2
from ordercast.protocols.fan.packets import Data, Request, Skip
from ordercast.protocols.fan.protocol1 import Fan1, FanOptions
from ordercast.protocols.fan.streams import IncomingStream, OutgoingStream
from ordercast.protocols.parts.numbered import EARLY_MAX


def _promised(bounds: Bounds, _options: Options) -> Mapping[str, float]:
    return {"P2": 3 * bounds.phi_p + 3 * bounds.phi_n}


class Fan2(Fan1):
    """A destination that sees a gap asks the source, which keeps a log of what it sent.

    The log is bounded, and the thesis' is not: a source that no longer has what is asked for says so (`Skip`), and
    the destination goes on behind it as it does after a failure. No guarantee is touched: what is skipped was sent
    while the two could not reach each other.
    """

    contract = Contract(
        name="fan-2",
        title="sequence numbers with retransmission: the network may lose, too",
        paper="Spauster 1991, 6.4.3 (Protocol 2)",
        guarantees=Fan1.contract.guarantees,
        faults=(*NETWORK_FAULTS, *CRASH_FAULTS),
        crash="nobody waits: a destination that comes back goes on with the next message it hears",
        branches=("in-order", "out-of-order", "old", "awake-recovered", "requested", "resent", "skipped"),
        options=FanOptions,
        at_rest=lambda sites, groups, options: AtRest(
            # What came early waits for numbers for which nobody asks before a later one comes.
            messages=groups * (options.log_messages_max + sites * EARLY_MAX),
            entries=45 + (5 + groups) * sites + groups * (options.log_messages_max + sites * EARLY_MAX),
        ),
        promised=_promised,
        single_source=True,
        several_groups=False,
    )
    arrangement = FAN_2
    packets: ClassVar[tuple[type[Packet], ...]] = (Data, Request, Skip)
    keeps_log = True

    # ------------------------------------------------------------------ the source
    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Fragment (D); the log stays within its bound."""
        super().on_multicast_requested(event)
        self.bound_log(self.outgoing[event.multicast.groups[0]])

    def bound_log(self, stream: OutgoingStream) -> None:
        """Forget the oldest messages."""
        stream.drop_oldest(self.options.log_messages_max, self.options.log_bytes_max)

    def on_request(self, sender: SiteId, packet: Request, arrival: Arrival) -> None:
        """Fragment (E): send again what is asked for."""
        stream = self.outgoing.get(packet.group)
        if stream is None or sender not in stream.members:
            return
        for first, last in packet.missing:
            if first <= stream.acknowledged:
                self.answer_forgotten(sender, packet.group, min(last, stream.acknowledged))
            for number, multicast in stream.asked_for(((first, last),)):
                self.branch("resent")
                self.send((sender,), Data(packet.group, number, multicast))

    def answer_forgotten(self, destination: SiteId, group: GroupId, through: int) -> None:
        """A destination asks for what is no longer kept: it has to go on without."""
        self.send((destination,), Skip(group, through))

    # ------------------------------------------------------------------ the destination
    def on_gap(self, source: SiteId, group: GroupId, stream: IncomingStream, number: int) -> None:
        """Ask for everything missing below, each time: the answer to an earlier request may be what was lost.

        (Asking once and waiting: the request is lost before the two can reach each other; from then on they can, and
        P2 runs out.)
        """
        missing = stream.missing(stream.released + 1, number - 1)
        if missing:
            self.branch("requested")
            self.send((source,), Request(group, missing))

    def accept_awake(self, source: SiteId, packet: Data, stream: IncomingStream) -> None:
        """Fragment (C): go on with what comes first; a gap behind it can be asked for."""
        if packet.number <= stream.released:
            self.branch("old")
            return
        self.branch("awake-recovered")
        self.skip_to(source, packet.group, stream, packet.number - 1)
        self.recover_stream(source, packet.group, stream)
        self.accept(source, packet, stream)

    def on_skip(self, sender: SiteId, packet: Skip, arrival: Arrival) -> None:
        """The source no longer has what is missing."""
        stream = self.stream(sender, packet.group)
        if stream.up and packet.through > stream.released:
            self.branch("skipped")
            self.skip_to(sender, packet.group, stream, packet.through)
            self.deliver_pending(sender, packet.group, stream)
