"""Protocol 1 (Spauster 6.4.2): sequence numbers; sites may fail, the network may not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, cast

from ordercast.core import (
    CRASH_FAULTS,
    AtRest,
    Bounds,
    Context,
    Contract,
    GroupId,
    InvariantViolation,
    Multicast,
    Options,
    Packet,
    Protocol,
    SiteId,
    UsageError,
    WireError,
)
from ordercast.core.effects import Deliver, Replay
from ordercast.core.events import Arrival, MulticastRequested, Recovered
from ordercast.protocols.fan.arrangement import FAN_1
from ordercast.protocols.fan.packets import Data, Delivered, Progress, Sent, Skipped
from ordercast.protocols.fan.streams import IncomingStream, OutgoingStream, Room
from ordercast.protocols.parts.numbered import EARLY_MAX


class FanOptions(Options, frozen=True):
    """Options of the fan protocols."""

    phi_n: float = 1.0
    """Seconds within which the network brings a message, as the run promises it."""
    sources: tuple[SiteId, ...] = ()
    """The sites that multicast; none named: any may. A site that was down counts as recovered when it has heard each
    of them in each of its groups (fragment (C) for each stream); when none is named, when it has heard anyone."""
    log_messages_max: int = 4096
    """How many messages a source keeps for retransmission (Protocols 2 and 3)."""
    log_bytes_max: int = 1 << 25
    """And how many bytes of payload. A destination keeps as many at the most of what comes before its turn."""
    delta: float = 0.1
    """A source that has nothing to say for so many seconds says so (Protocol 3)."""

    shared: ClassVar[frozenset[str]] = frozenset({"sources"})
    """Who may multicast, and whom a site that comes back waits for."""

    def __post_init__(self) -> None:
        if self.phi_n < 0 or self.delta <= 0 or min(self.log_messages_max, self.log_bytes_max) < 1:
            raise UsageError(
                "options of the fan: phi_n is 0 or more, delta positive, log_messages_max and log_bytes_max 1 or more"
            )


def _promised(bounds: Bounds, _options: Options) -> Mapping[str, float]:
    return {"P2": bounds.phi_n + bounds.phi_p}


class Fan1(Protocol):
    """Each source numbers its messages per group, and destinations deliver in the order of the numbers."""

    contract = Contract(
        name="fan-1",
        title="sequence numbers: each source's messages in order, sites may fail, the network may not",
        paper="Spauster 1991, 6.4.2 (Protocol 1)",
        guarantees=(
            "integrity",
            "no-duplication",
            "single-source-order",
            "P2",
            "R1-single-source",
        ),
        faults=("duplication", "delay", *CRASH_FAULTS, "foreign"),
        crash="nobody waits: a destination that comes back goes on with the next message it hears",
        branches=("in-order", "out-of-order", "old", "awake-kept", "awake-recovered"),
        options=FanOptions,
        at_rest=lambda sites, groups, options: AtRest(
            # What came early waits for numbers that nobody sends any more.
            messages=sites * groups * EARLY_MAX,
            entries=30 + (5 + groups) * sites + sites * groups * EARLY_MAX,
        ),
        promised=_promised,
        single_source=True,
        several_groups=False,
    )
    arrangement = FAN_1
    packets: ClassVar[tuple[type[Packet], ...]] = (Data,)
    records = (Delivered, Skipped, Sent, Progress)
    keeps_log: ClassVar[bool] = False
    """Whether the source keeps its messages for retransmission."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(FanOptions, context.options)
        self.incoming: dict[tuple[SiteId, GroupId], IncomingStream] = {}
        self.outgoing: dict[GroupId, OutgoingStream] = {
            group: OutgoingStream(members) for group, members in context.groups.items()
        }
        self._early_room = Room(self.options.log_bytes_max)
        self.awake_at: float | None = None
        """beta of the thesis: when the site woke up after its latest failure; None when it never failed."""
        self.unheard: set[tuple[SiteId, GroupId]] | None = None
        """The streams that have not recovered yet; None when the site is recovered."""

    # ------------------------------------------------------------------ the source
    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Fragment (D)."""
        group = event.multicast.groups[0]
        if self.options.sources and self.site not in self.options.sources:
            raise UsageError(f"{self.site} is not among the sources {', '.join(self.options.sources)}")
        stream = self.outgoing[group]
        number = stream.number(event.multicast, self.keeps_log)
        self.append(Sent(group, number, event.multicast))
        self.send(stream.members, Data(group, number, event.multicast))

    # ------------------------------------------------------------------ the destination
    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """Fragments (A) and (C)."""
        stream = self.incoming.get((sender, packet.group)) or self.stream(sender, packet.group)
        if stream.up:
            self.accept(sender, packet, stream)
        else:
            self.accept_awake(sender, packet, stream)

    def stream(self, source: SiteId, group: GroupId) -> IncomingStream:
        """The state of one source's messages to one group; one that was never heard is up unless the site was down."""
        key = (source, group)
        if key not in self.incoming:
            # (Kept for any name: whoever invents groups fills the memory, and is delivered what is for nobody here.)
            if self.site not in self.context.groups.get(group, ()) or source not in self.context.sites:
                raise WireError(f"there are no messages of {source} to {group!r} for {self.site}")
            self.incoming[key] = IncomingStream(self._early_room, up=self.awake_at is None)
        return self.incoming[key]

    def accept(self, source: SiteId, packet: Data, stream: IncomingStream) -> None:
        """Fragment (A): deliver what is next, keep what is early, ignore what is old."""
        number = packet.number
        if number == stream.released + 1:
            self.branch("in-order")
            stream.released = number
            self.deliver_logged(source, packet.group, number, packet.multicast)
            if stream.early:
                # Kept before fragment (C) had found the place to go on, and now here once more.
                stream.forget(number)
                self.deliver_pending(source, packet.group, stream)
        elif number > stream.released:
            self.branch("out-of-order")
            stream.keep(number, packet.multicast)
            # What found no room is missing as well. (Else: the gap is filled, and nobody asks for the last message.)
            self.on_gap(source, packet.group, stream, number if number in stream.early else number + 1)
        else:
            self.branch("old")

    def on_gap(self, source: SiteId, group: GroupId, stream: IncomingStream, number: int) -> None:
        """Numbers below `number` are missing. Without communication failures they are on their way."""

    def accept_awake(self, source: SiteId, packet: Data, stream: IncomingStream) -> None:
        """Fragment (C): after a failure, find the place to go on.

        Why phi_n must have passed: s sends 7 and 8; 8 overtakes 7 and finds the site down; the site wakes up; 7
        arrives. Going on with 7 at once means to wait for 8 for ever.
        """
        if packet.number <= stream.released:
            self.branch("old")
        elif self.awake_at is not None and self.now - self.awake_at >= self.options.phi_n:
            self.branch("awake-recovered")
            self.skip_to(source, packet.group, stream, packet.number - 1)
            self.recover_stream(source, packet.group, stream)
            self.accept(source, packet, stream)
        else:
            self.branch("awake-kept")
            stream.keep(packet.number, packet.multicast)

    def skip_to(self, source: SiteId, group: GroupId, stream: IncomingStream, number: int) -> None:
        """Move L forward over messages that will not be delivered here, and forget what is pending below."""
        self.append(Skipped(source, group, number))
        stream.skip_to(number)

    def recover_stream(self, source: SiteId, group: GroupId, stream: IncomingStream) -> None:
        """This stream is up again; when all are, so is the site."""
        stream.up = True
        if self.unheard is not None:
            self.unheard.discard((source, group))
            if not self.options.sources:
                self.unheard.clear()
            self.declare_recovered()

    def declare_recovered(self) -> None:
        """Not before every stream that must be heard has been."""
        if not self.unheard:
            self.unheard = None
            super().declare_recovered()

    def deliver_pending(self, source: SiteId, group: GroupId, stream: IncomingStream) -> None:
        """Deliver what P holds of L+1, L+2 …"""
        for multicast in stream.release():
            self.deliver_logged(source, group, stream.released, multicast)

    def deliver_logged(self, source: SiteId, group: GroupId, number: int, multicast: Multicast) -> None:
        """L is stable before the application has the message, so no crash delivers one twice."""
        self.append(Delivered(source, group, number, multicast))
        self.outbox.append(Deliver(multicast, None, source))

    # ------------------------------------------------------------------ stable storage
    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold."""
        return sum(len(stream.kept) for stream in self.outgoing.values())

    def checkpoint_state(self) -> Progress:
        """The state as a checkpoint."""
        return Progress(
            tuple((source, group, stream.released) for (source, group), stream in self.incoming.items()),
            tuple(
                (group, stream.highest, tuple(enumerate(stream.kept, stream.acknowledged + 1)))
                for group, stream in self.outgoing.items()
            ),
        )

    def on_recovered(self, event: Recovered) -> None:
        """Fragment (B): L is still the last message delivered."""
        self.awake_at = self.now
        super().on_recovered(event)

    def restore(self, state: Progress) -> None:
        """L of every stream, and the source's log."""
        for source, group, last_delivered in state.delivered:
            self.stream(source, group).restore(last_delivered)
        for group, highest, log in state.sent:
            stream = self.outgoing[group]
            stream.restore(highest, highest - len(log))
            for _, multicast in log:
                stream.keep(multicast)

    def recall_delivered(self, record: Delivered) -> None:
        """L has moved, and the application has the message or gets it now."""
        self.stream(record.source, record.group).restore(record.number)
        self.outbox.append(Replay(record.multicast, parent=record.source))

    def recall_skipped(self, record: Skipped) -> None:
        """L has moved over what never came."""
        self.stream(record.source, record.group).restore(record.through)

    def recall_sent(self, record: Sent) -> None:
        """The number is taken."""
        self.outgoing[record.group].number(record.multicast, self.keeps_log)

    def resume(self) -> None:
        """Fragment (C) is to come, for each of these streams."""
        self.unheard = set(self.streams_to_hear())

    def streams_to_hear(self) -> Iterable[tuple[SiteId, GroupId]]:
        """The streams that must be heard before the site counts as recovered."""
        groups = [group for group, members in self.context.groups.items() if self.site in members]
        return ((source, group) for source in (self.options.sources or self.context.sites) for group in groups)

    def check_invariants(self) -> None:
        """Of all streams."""
        for incoming in self.incoming.values():
            incoming.check_invariants()
        early_bytes = sum(incoming.early_bytes for incoming in self.incoming.values())
        if early_bytes + self._early_room.free_bytes != self.options.log_bytes_max:
            raise InvariantViolation(f"{early_bytes} bytes came early and {self._early_room.free_bytes} are free")
        for outgoing in self.outgoing.values():
            outgoing.check_invariants()
