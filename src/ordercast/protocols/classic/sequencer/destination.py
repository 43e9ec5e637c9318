"""The destination's part: deliver in the order of the sequencer, ask for what is missing, acknowledge what is taken."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core import AddressMemo, GroupId, Multicast, Part, SiteId, WireError
from ordercast.core.effects import Deliver, Replay
from ordercast.core.events import Arrival
from ordercast.protocols.classic.sequencer.bodies import Bodies
from ordercast.protocols.classic.sequencer.packets import (
    Acknowledge,
    Announce,
    Delivered,
    DeliveredOwn,
    Ordered,
    Placed,
    Request,
    Submit,
)
from ordercast.protocols.parts.numbered import Incoming

if TYPE_CHECKING:
    from ordercast.protocols.classic.sequencer.protocol import Sequencer


class Destination(Part):
    """A site that is in a group. What others than the sequencer say of places is ignored."""

    packets = (Submit, Ordered, Placed, Announce)
    timers = ("request",)
    records = (Delivered, DeliveredOwn)

    def __init__(self, core: Sequencer) -> None:
        self._core = core
        self.stream: Incoming[Ordered] = Incoming()
        """From the sequencer, by link numbers; what is released is delivered."""
        self.consumed = 0
        """The link number up to which the application has taken everything."""
        self._acknowledged = 0
        self._sizes: deque[int] = deque()
        """Bytes of what is delivered and not taken yet."""
        self._unacknowledged_bytes = 0
        self._requesting = False
        self._bodies = Bodies(core)
        self._logs = core.context.stable and core.site != core.sequencer
        self._places: AddressMemo[int | None] = AddressMemo(self._find_place)
        """Which of the destinations this site is; None when it is not one of them."""

    def _find_place(self, groups: tuple[GroupId, ...], destinations: tuple[SiteId, ...] | None) -> int | None:
        core = self._core
        sites = core.find_sites(groups, destinations)
        return sites.index(core.site) if core.site in sites else None

    # ------------------------------------------------------------------ what comes
    def on_ordered(self, sender: SiteId, packet: Ordered, arrival: Arrival) -> None:
        """This site's own link number tells where the message belongs."""
        multicast = packet.multicast
        place = self._places[multicast.groups, multicast.destinations]
        if sender == self._core.sequencer and place is not None:
            self.take(_link_of(packet, place), packet)

    def take(self, link: int, ordered: Ordered) -> None:
        """Deliver it if it is next, keep it if it is early, ignore it if it is old."""
        stream = self.stream
        if link == stream.released + 1:
            stream.released = link
            self._deliver(link, ordered)
            if stream.early:
                for following in stream.release():
                    self._deliver(stream.released, following)
        elif link <= stream.released:
            self._core.branch("old")
        else:
            self._core.branch("gap")
            stream.keep(link, ordered)
            if not self._requesting:
                self._request()

    def on_submit(self, sender: SiteId, packet: Submit, arrival: Arrival) -> None:
        """A large message from its source; its place comes, or came, from the sequencer."""
        multicast = packet.multicast
        if multicast.id.source != sender:
            return
        place = self._places[multicast.groups, multicast.destinations]
        if place is None:
            return
        placed = self._bodies.on_body(multicast)
        if placed is not None:
            self._core.branch("body-late")
            self.take(_link_of(placed, place), Ordered(placed.number, placed.links, multicast))

    def on_placed(self, sender: SiteId, packet: Placed, arrival: Arrival) -> None:
        """The place of a large message: deliver that, or wait for it a while, for it may be on its way."""
        place = self._places[packet.groups, packet.destinations]
        if sender != self._core.sequencer or place is None:
            return
        link = _link_of(packet, place)
        if link <= self.stream.released:
            self._core.branch("old")
            return
        multicast = self._bodies.on_placed(packet)
        if multicast is not None:
            self.take(link, Ordered(packet.number, packet.links, multicast))
            return
        self.stream.announce(link)
        if not self._requesting:
            self._wait_for_answer()

    def _deliver(self, link: int, ordered: Ordered) -> None:
        """The link number is stable before the application has the message, so no crash delivers one twice."""
        core = self._core
        multicast = ordered.multicast
        size = len(multicast.payload)
        self._sizes.append(size)
        if self._logs:
            # A payload is in the log once: the sequencer has it with its place, a source since it submitted it.
            if multicast.id in core.source.pending:
                core.append(DeliveredOwn(link, ordered.number, multicast.id))
            else:
                core.append(Delivered(link, ordered.number, multicast))
        core.outbox.append(Deliver(multicast, (ordered.number,), core.sequencer))
        if size >= core.direct_bytes:
            self._bodies.on_delivered(multicast.id)
        if multicast.id.source == core.site:
            core.source.accept(multicast.id)

    # ------------------------------------------------------------------ what is missing
    def on_announce(self, sender: SiteId, packet: Announce, arrival: Arrival) -> None:
        """There is so much."""
        if sender == self._core.sequencer:
            self.hear_of(packet.highest)

    def hear_of(self, highest: int) -> None:
        """There is so much: ask for what is missing, or say that nothing is."""
        if highest > self.stream.released:
            self.stream.announce(highest)
            if not self._requesting:
                self._request()
        elif self.consumed == self.stream.released:
            self._acknowledge()

    def on_request_timeout(self) -> None:
        """Ask again if it is still missing."""
        self._requesting = False
        if self.stream.has_gap:
            self._request()

    def _request(self) -> None:
        core, stream = self._core, self.stream
        core.branch("requested")
        core.send((core.sequencer,), Request(stream.missing(stream.released + 1, stream.announced)))
        self._wait_for_answer()

    def _wait_for_answer(self) -> None:
        self._requesting = True
        self._core.set_timer("request", self._core.options.retransmit_seconds)

    # ------------------------------------------------------------------ what is taken
    def on_consumed(self, count: int) -> None:
        """The application has taken deliveries: acknowledge from time to time, so that the sequencer can forget."""
        options = self._core.options
        taken = min(count, len(self._sizes))
        self.consumed += taken
        for _ in range(taken):
            self._unacknowledged_bytes += self._sizes.popleft()
        if (
            self.consumed - self._acknowledged >= options.acknowledge_every
            or self._unacknowledged_bytes >= options.acknowledge_bytes
        ):
            self._acknowledge()

    def _acknowledge(self) -> None:
        core = self._core
        self._acknowledged = self.consumed
        self._unacknowledged_bytes = 0
        if core.site == core.sequencer:
            core.center.acknowledge(core.site, self.consumed)
        else:
            core.send((core.sequencer,), Acknowledge(self.consumed))

    # ------------------------------------------------------------------ after a crash
    def restore(self, delivered: int) -> None:
        """Everything up to here was delivered, and the application takes it from the log."""
        self.stream.restore(delivered)
        self.consumed = delivered

    def recall_delivered(self, record: Delivered) -> None:
        """A message that came from elsewhere."""
        self.replay(record.link, record.number, record.multicast)

    def recall_delivered_own(self, record: DeliveredOwn) -> None:
        """A message of this site."""
        self.replay(record.link, record.number, self._core.source.pending[record.message].multicast)

    def replay(self, link: int, number: int, multicast: Multicast) -> None:
        """It was delivered before the crash."""
        core = self._core
        self.restore(link)
        if multicast.id.source == core.site:
            core.source.forget(multicast.id)
        core.outbox.append(Replay(multicast, (number,), core.sequencer))

    def check_invariants(self) -> None:
        """Nothing that could be delivered waits."""
        self.stream.check_invariants()


def _link_of(packet: Ordered | Placed, place: int) -> int:
    """The link number of one destination."""
    try:
        return packet.links[place]
    except IndexError:
        raise WireError(f"the place {packet.number} has {len(packet.links)} link numbers, and none for us") from None
