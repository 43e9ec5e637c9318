"""Destination sets: which cells a message goes to, and what was ordered among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import MessageId, SiteId
from ordercast.protocols.parts.address import Destinations
from ordercast.protocols.parts.kept_packets import CellNames
from ordercast.protocols.parts.quorum import Quorum
from ordercast.protocols.scalatom.packets import AddressState

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.entries import Entry


class Address(Destinations):
    """Some cells. One consensus can order many messages, but only with the same destination set."""

    __slots__ = ("above", "leaders", "next", "ready", "running")

    def __init__(self, cells: CellNames, quorum: Quorum, site: SiteId) -> None:
        super().__init__(cells, quorum, site)
        self.ready: dict[MessageId, Entry] = {}
        """Stamped by a qualified majority, not decided."""
        self.running = False
        """Whether we want the decision of the instance `next`."""
        self.next = 1
        """The first instance that is not decided."""
        self.above: set[int] = set()
        """Instances after it that are."""
        self.leaders: dict[int, SiteId] = {}
        """Instance -> who coordinates its first round: the one whose proposal was decided in the instance before."""

    def on_decided(self, number: int, proposer: SiteId) -> None:
        """One more instance is decided."""
        if number < self.next:
            # We have jumped over it, and hear only now how it was decided.
            return
        self.above.add(number)
        self.leaders[number + 1] = proposer
        while self.next in self.above:
            self.above.discard(self.next)
            self.leaders.pop(self.next, None)
            self.next += 1
            self.running = False

    def state(self) -> AddressState:
        """For a checkpoint."""
        return AddressState(self.cells, self.next, tuple(sorted(self.above)), tuple(sorted(self.leaders.items())))

    def restore(self, state: AddressState) -> None:
        """From a checkpoint."""
        self.next = state.next
        self.above = set(state.above)
        self.leaders = dict(state.leaders)

    def begin_of_next(self) -> AddressState:
        """For a site that was given up: all instances before the next one are decided."""
        leader = self.leaders.get(self.next)
        return AddressState(self.cells, self.next, (), () if leader is None else ((self.next, leader),))

    def jump(self, state: AddressState) -> None:
        """All instances before somebody's next one are decided, whether we know how or not."""
        if state.next > self.next:
            self.next = state.next
            self.running = False
            self.leaders.update(state.leaders)
            while self.next in self.above:
                self.next += 1
            self.above = {number for number in self.above if number > self.next}
            self.leaders = {number: leader for number, leader in self.leaders.items() if number >= self.next}

    def is_decided(self, number: int) -> bool:
        """Whether an instance is over."""
        return number < self.next or number in self.above

    def participants(self, number: int) -> tuple[SiteId, ...] | None:
        """In the order in which they coordinate; None when the leader depends on a decision that we lack.

        The leader of one batch leads the next. (With a fixed order, each batch would begin with a suspicion as soon as
        the first site is down.)
        """
        leader = self.sites[0] if number == 1 else self.leaders.get(number)
        if leader is None:
            return None
        return self.rotated(self.sites.index(leader))

    def rotated(self, place: int) -> tuple[SiteId, ...]:
        """All sites, beginning with the one at that place."""
        place %= len(self.sites)
        return self.sites[place:] + self.sites[:place]
