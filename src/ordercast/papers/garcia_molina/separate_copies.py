"""The simple solution that the paper begins with: a separately addressed copy of each message to every host, repeated
until it is acknowledged. A baseline to measure the tree against, not a protocol to choose."""

from __future__ import annotations

from typing import cast

from ordercast.core import (
    NETWORK_FAULTS,
    Context,
    Contract,
    IntervalSet,
    MessageId,
    Multicast,
    Options,
    Packet,
    Protocol,
    SiteId,
    UsageError,
)
from ordercast.core.effects import Credit
from ordercast.core.events import Arrival, MulticastRequested, Started


class Copy(Packet, frozen=True):
    """Source -> one destination."""

    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Acknowledgment(Packet, frozen=True):
    """Destination -> source: I have it."""

    message: MessageId

    def served(self) -> tuple[MessageId, ...]:
        return (self.message,)


class SeparateCopiesOptions(Options, frozen=True):
    """When to repeat, and how much may be under way."""

    retransmit_seconds: float = 1.0
    """Longer than a round trip over several expensive links, or every message would be sent twice."""
    window_messages: int = 2048
    """Messages that some destination has not acknowledged; as in the broadcast tree."""

    def __post_init__(self) -> None:
        if self.retransmit_seconds <= 0 or self.window_messages < 1:
            raise UsageError("options of separate-copies: retransmit_seconds is positive, window_messages is 1 or more")


class SeparateCopies(Protocol):
    """Garcia-Molina, Kogan, Lynch 1987, section 1."""

    contract = Contract(
        name="separate-copies",
        title="a copy to each destination, repeated until it is acknowledged",
        paper="Garcia-Molina, Kogan, Lynch 1987, section 1",
        guarantees=("integrity", "no-duplication", "uniform-agreement", "termination"),
        faults=(*NETWORK_FAULTS, "pause", "skew", "outage"),
        crash="nothing is kept on stable storage: a baseline for networks that fail, and hosts that do not",
        branches=("sent-again", "duplicate"),
        options=SeparateCopiesOptions,
    )
    packets = (Copy, Acknowledgment)
    timers = ("tick",)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(SeparateCopiesOptions, context.options)
        self._unacknowledged: dict[MessageId, tuple[Multicast, set[SiteId], int]] = {}
        """Message -> itself, who has not acknowledged it, and the tick in which it was first sent."""
        self._received: dict[tuple[SiteId, int], IntervalSet] = {}
        """Source and incarnation -> numbers."""
        self._tick = 0

    def on_started(self, event: Started) -> None:
        """One timer for all messages."""
        self.set_timer("tick", self.options.retransmit_seconds)

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """To each destination."""
        multicast = event.multicast
        destinations = self.context.destinations(multicast)
        others = tuple(site for site in destinations if site != self.site)
        if len(others) < len(destinations):
            self.deliver(multicast, parent=self.site)
        if others:
            self._unacknowledged[multicast.id] = (multicast, set(others), self._tick)
        self.send(others, Copy(multicast))
        self._give_credit()

    def on_tick_timeout(self) -> None:
        """Again, to those who have not answered for a whole period."""
        self._tick += 1
        for multicast, missing, since in self._unacknowledged.values():
            if self._tick - since >= 2:
                self.branch("sent-again")
                self.send(tuple(sorted(missing)), Copy(multicast))
        self.set_timer("tick", self.options.retransmit_seconds)

    def on_copy(self, sender: SiteId, packet: Copy, arrival: Arrival) -> None:
        """Acknowledge it in any case, deliver it the first time."""
        name = packet.multicast.id
        received = self._received.setdefault((name.source, name.incarnation), IntervalSet())
        if received.add(name.number):
            self.deliver(packet.multicast, parent=sender)
        else:
            self.branch("duplicate")
        self.send((sender,), Acknowledgment(name))

    def on_acknowledgment(self, sender: SiteId, packet: Acknowledgment, arrival: Arrival) -> None:
        """One fewer."""
        entry = self._unacknowledged.get(packet.message)
        if entry is not None:
            entry[1].discard(sender)
            if not entry[1]:
                del self._unacknowledged[packet.message]
                self._give_credit()

    def _give_credit(self) -> None:
        self.outbox.append(Credit(max(0, self.options.window_messages - len(self._unacknowledged))))
