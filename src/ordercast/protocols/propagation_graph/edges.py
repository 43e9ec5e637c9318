"""The two ends of an edge: numbered messages from one site to another (Spauster 3.4)."""

from __future__ import annotations

from ordercast.core import InvariantViolation, SiteId
from ordercast.protocols.parts.numbered import Incoming, MeasuredOutgoing
from ordercast.protocols.propagation_graph.packets import Forward, Submit

Numbered = Submit | Forward


class OutgoingEdge(MeasuredOutgoing[Numbered]):
    """The sender's end."""

    __slots__ = ("held_by", "held_looks", "seen", "vain")

    def __init__(self, to: SiteId) -> None:
        super().__init__(to)
        self.seen = 0
        """The highest number at the last look: what is above it is too young to worry."""
        self.vain = 0
        """Looks in a row at which nothing new was acknowledged."""
        self.held_by: tuple[SiteId, ...] = ()
        """The sites for which the receiver waits, as it has said lately."""
        self.held_looks = 0
        """Looks since it has said so."""


class IncomingEdge(Incoming[Numbered]):
    """The receiver's end. What is released is taken: forwarded and delivered. `early` is the wait queue: what came
    before its turn, or finds no room further on."""

    __slots__ = ("asked", "requesting", "sender", "stalled", "told")

    def __init__(self, sender: SiteId) -> None:
        super().__init__()
        self.sender = sender
        self.told = 0
        """The number that was acknowledged last."""
        self.stalled = False
        """The next message is there and has to wait for room."""
        self.requesting = False
        self.asked = 0
        """The last number that was asked for."""

    def restore(self, released: int) -> None:
        """After a crash. What is logged may have been acknowledged."""
        super().restore(released)
        self.told = released

    def check_invariants(self) -> None:
        """What waits comes later than what is taken, and the next one waits only for room."""
        if not self.stalled:
            super().check_invariants()
        elif min(self.early, default=0) != self.released + 1:
            raise InvariantViolation(f"the edge from {self.sender} is stalled, and {self.released + 1} does not wait")
