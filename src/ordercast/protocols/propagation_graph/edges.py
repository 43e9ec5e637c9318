"""The two ends of an edge: numbered messages from one site to another (Spauster 3.4)."""

from __future__ import annotations

from itertools import count

import msgspec

from ordercast.core import GroupId, InvariantViolation, SiteId
from ordercast.protocols.parts.numbered import Incoming, MeasuredOutgoing
from ordercast.protocols.propagation_graph.options import PropagationGraphOptions
from ordercast.protocols.propagation_graph.packets import Forward, Submit

Numbered = Submit | Forward


class OutgoingEdge(MeasuredOutgoing[Numbered]):
    """The sender's end."""

    __slots__ = ("away", "closed", "ended", "graph", "held_by", "held_looks", "seen", "urged", "vain")

    def __init__(self, to: SiteId, graph: int = 0) -> None:
        super().__init__(to)
        self.graph = graph
        """The number of the graph to which it belongs."""
        self.closed = False
        """Whether the receiver has closed the graph: it takes nothing more."""
        self.away = False
        """Whether the receiver, which sends nothing on, has failed or comes back: nobody waits for it."""
        self.ended = False
        """Whether the last message of the edge is the `Close` of its graph."""
        self.seen = 0
        """The highest number at the last look: what is above it is too young to worry."""
        self.urged = 0
        """The highest number at which the receiver was asked at once whether it has taken it."""
        self.vain = 0
        """Looks in a row at which nothing new was acknowledged."""
        self.held_by: tuple[SiteId, ...] = ()
        """The sites for which the receiver waits, as it has said lately."""
        self.held_looks = 0
        """Looks since it has said so."""

    def take_back(self) -> list[Submit]:
        """The receiver has closed the graph: what it has not taken by now, in order, is kept no more."""
        rest = [packet for packet in self.kept if type(packet) is Submit]
        self.acknowledge(self.highest)
        self.closed = True
        return rest

    def has_room(self, options: PropagationGraphOptions) -> bool:
        """Whether one more message may be kept."""
        if len(self.kept) < options.history_messages_max and self.kept_bytes < options.history_bytes_max:
            return True
        return self.away and self.kept_bytes < options.away_bytes_max

    def note_taken(self, options: PropagationGraphOptions) -> None:
        """The receiver has taken some: it is there, and when it has caught up it counts like the others."""
        few = len(self.kept) < options.history_messages_max and self.kept_bytes < options.history_bytes_max
        self.away = self.away and not few

    @property
    def has_submissions(self) -> bool:
        """Whether it keeps own messages, of which nobody has said that they are taken."""
        return any(type(packet) is Submit for packet in self.kept)


class IncomingEdge(Incoming[Numbered]):
    """The receiver's end. What is released is taken: forwarded and delivered. `early` is the wait queue: what came
    before its turn, or finds no room further on."""

    __slots__ = ("asked", "graph", "requesting", "sender", "stalled", "told")

    def __init__(self, sender: SiteId, graph: int = 0) -> None:
        super().__init__()
        self.sender = sender
        self.graph = graph
        """The number of the graph to which it belongs."""
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


class Step(msgspec.Struct, frozen=True):
    """What this site does with messages of one address."""

    to: tuple[SiteId, ...]
    edges: tuple[OutgoingEdge, ...]
    numbers: tuple[count[int], ...]
    """Of these edges."""
    member: bool
    counted: tuple[GroupId, ...]
    """The groups of the address whose messages this site counts: it is in them, or orders them."""
