"""The destination's part: deliver in the order of the sequencer, ask for what is missing, acknowledge what is taken."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Multicast
from ordercast.core.effects import Deliver
from ordercast.protocols.classic.sequencer.bodies import Bodies
from ordercast.protocols.classic.sequencer.packets import (
    Acknowledge,
    Delivered,
    DeliveredOwn,
    Ordered,
    Placed,
    Request,
)

if TYPE_CHECKING:
    from ordercast.protocols.classic.sequencer.protocol import Sequencer

PENDING_MAX = 4096
"""Early messages kept; what overflows is dropped, as if the network had lost it. A sequencer's default history, so
never less."""


class Receiver:
    """A site that is in a group."""

    def __init__(self, core: Sequencer) -> None:
        self._core = core
        self.delivered = 0
        """The link number up to which everything is delivered."""
        self.consumed = 0
        """The link number up to which the application has taken everything."""
        self._acknowledged = 0
        self._sizes: deque[int] = deque()
        """Bytes of what is delivered and not taken yet."""
        self._unacknowledged_bytes = 0
        self._pending: dict[int, Ordered] = {}
        self._announced = 0
        self._requesting = False
        self._bodies = Bodies(core)
        self._logs = core.context.stable and core.site != core.sequencer

    def on_ordered(self, link: int, ordered: Ordered) -> None:
        """Deliver it if it is next, keep it if it is early, ignore it if it is old."""
        core = self._core
        if link == self.delivered + 1:
            self._deliver(link, ordered)
            while self._pending and (following := self._pending.pop(self.delivered + 1, None)) is not None:
                self._deliver(self.delivered + 1, following)
        elif link <= self.delivered:
            core.branch("old")
        else:
            core.branch("gap")
            if len(self._pending) < PENDING_MAX:
                self._pending[link] = ordered
            self._announced = max(self._announced, link)
            if not self._requesting:
                self._request()

    def on_body(self, place: int, multicast: Multicast) -> None:
        """A large message from its source; this site has that place among its destinations."""
        placed = self._bodies.on_body(multicast)
        if placed is not None:
            self._core.branch("body-late")
            self.on_ordered(placed.links[place], Ordered(placed.number, placed.links, multicast))

    def on_placed(self, link: int, placed: Placed) -> None:
        """The place of a large message: deliver that, or wait for it a while, for it may be on its way."""
        if link <= self.delivered:
            self._core.branch("old")
            return
        multicast = self._bodies.on_placed(placed)
        if multicast is not None:
            self.on_ordered(link, Ordered(placed.number, placed.links, multicast))
            return
        self._announced = max(self._announced, link)
        if not self._requesting:
            self._requesting = True
            self._core.set_timer("request", self._core.options.retransmit_seconds)

    def _deliver(self, link: int, ordered: Ordered) -> None:
        """The link number is stable before the application has the message, so no crash delivers one twice."""
        core = self._core
        self.delivered = link
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
            core.source.on_accepted(multicast.id)

    def on_announce(self, highest: int) -> None:
        """There is so much: ask for what is missing, or say that nothing is."""
        if highest > self.delivered:
            self._announced = max(self._announced, highest)
            if not self._requesting:
                self._request()
        elif self.consumed == self.delivered:
            self._acknowledge()

    def on_request_timeout(self) -> None:
        """Ask again if it is still missing."""
        self._requesting = False
        if self._announced > self.delivered:
            self._request()

    def _request(self) -> None:
        core = self._core
        missing: list[tuple[int, int]] = []
        start = self.delivered + 1
        for link in sorted(self._pending):
            if link > start:
                missing.append((start, link - 1))
            start = link + 1
        if start <= self._announced:
            missing.append((start, self._announced))
        core.branch("requested")
        core.send((core.sequencer,), Request(tuple(missing)))
        self._requesting = True
        core.set_timer("request", core.options.retransmit_seconds)

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
            core.center.on_acknowledge(core.site, self.consumed)
        else:
            core.send((core.sequencer,), Acknowledge(self.consumed))

    def restore(self, delivered: int) -> None:
        """After a crash: everything up to here was delivered, and the application takes it from the log."""
        self.delivered = self.consumed = delivered

    def check_invariants(self) -> None:
        """Nothing that could be delivered waits."""
        if self._pending and min(self._pending) <= self.delivered + 1:
            raise InvariantViolation(f"{min(self._pending)} waits although {self.delivered} is delivered")
