"""What the network loses on an edge: the receiver asks for gaps, and the sender announces what nobody acknowledges.

Section 3.4 numbers messages so that losses can be detected and leaves the rest to chapter 7. This is the retransmission
of Protocols 2 and 3 (6.4), edge by edge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import SiteId
from ordercast.core.effects import Send
from ordercast.protocols.propagation_graph.edges import MISSING_MAX, Incoming, Outgoing
from ordercast.protocols.propagation_graph.packets import Acknowledge, Null, Request

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.protocol import PropagationGraph


class Repair:
    """Of all edges of one site. Two timers, whatever the number of edges, and none while nothing is open."""

    def __init__(self, core: PropagationGraph) -> None:
        self._core = core
        self._acknowledge_every = min(core.options.acknowledge_every, max(1, core.options.window_messages // 2))
        self._looking = False
        self._asking = False
        self._silent: dict[SiteId, None] = {}
        """The receivers that have not answered for long."""

    # ------------------------------------------------------------------ the sender of an edge
    def look_soon(self) -> None:
        """While anything is not acknowledged, look after it from time to time."""
        if not self._looking:
            self._looking = True
            self._core.set_timer("look", self._core.options.retransmit_seconds)

    def look_at_once(self) -> None:
        """After a crash nobody knows what the receivers have."""
        for edge in self._core.outgoing.values():
            edge.seen = edge.highest
        self.on_look_timeout()

    def on_look_timeout(self) -> None:
        """Announce what was already there at the last look and is not acknowledged: a last message that is lost shows
        in no gap."""
        core = self._core
        self._looking = False
        for edge in core.outgoing.values():
            if not edge.kept:
                continue
            if edge.acknowledged < edge.seen:
                core.branch("null-sent")
                core.send((edge.to,), Null(edge.highest))
                self._count_vain(edge)
            edge.seen = edge.highest
            self.look_soon()

    def _count_vain(self, edge: Outgoing) -> None:
        edge.vain += 1
        if edge.vain == self._core.options.vain_max:
            self._core.branch("blocked")
            self._core.block(edge.to, f"{edge.to} does not answer")

    def on_request(self, edge: Outgoing, missing: tuple[tuple[int, int], ...]) -> None:
        """Send again what is asked for; the first of it, if it is much."""
        left = MISSING_MAX
        for first, last in missing:
            for number in range(max(first, edge.acknowledged + 1), min(last, edge.highest) + 1):
                if not left:
                    return
                left -= 1
                self._core.branch("resent")
                self._core.outbox.append(Send((edge.to,), edge.kept[number]))

    def on_acknowledge(self, edge: Outgoing, taken: int) -> bool:
        """Forget what the receiver has; whether that was anything new."""
        if not edge.acknowledge(taken):
            return False
        self._core.block(edge.to, "")
        return True

    # ------------------------------------------------------------------ the receiver of an edge
    def on_null(self, edge: Incoming, highest: int) -> None:
        """Ask for what is missing, or say what is taken."""
        edge.announced = max(edge.announced, highest)
        if edge.has_gap:
            self._core.branch("null-found-gap")
            self.ask(edge)
        else:
            self._acknowledge(edge)

    def ask(self, edge: Incoming) -> None:
        """Ask for what is missing, and again after a while if it is still missing then."""
        if edge.requesting or not edge.has_gap:
            return
        core = self._core
        core.branch("requested")
        missing = edge.missing()
        edge.requesting = True
        edge.asked = _last_of_an_answer(missing)
        core.send((edge.sender,), Request(missing))
        if not self._asking:
            self._asking = True
            core.set_timer("ask", core.options.retransmit_seconds)

    def on_answer(self, edge: Incoming) -> None:
        """More has come: when it is all that one answer can bring, ask for the rest at once."""
        if edge.taken >= edge.asked:
            edge.requesting = False
            self.ask(edge)

    def on_ask_timeout(self) -> None:
        """What was asked for may have come by now."""
        self._asking = False
        for edge in self._core.incoming.values():
            if edge.requesting:
                edge.requesting = False
                self.ask(edge)

    def acknowledge_if_due(self, edge: Incoming) -> None:
        """For many messages at once; what remains is acknowledged when the sender announces it."""
        if edge.taken - edge.told >= self._acknowledge_every:
            self._acknowledge(edge)

    def _acknowledge(self, edge: Incoming) -> None:
        """What is taken is in the log: no effect leaves before the records before it are stable."""
        edge.told = edge.taken
        if edge.sender != self._core.site:
            self._core.outbox.append(Send((edge.sender,), Acknowledge(edge.taken)))


def _last_of_an_answer(missing: tuple[tuple[int, int], ...]) -> int:
    """The last number that the answer to a request can bring."""
    left = MISSING_MAX
    for first, last in missing:
        if last - first + 1 >= left:
            return first + left - 1
        left -= last - first + 1
    return missing[-1][1]
