"""Destination sets: which cells a message goes to, and what was ordered among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ordercast.core import AddressMemo, Context, GroupId, MessageId, Multicast, SiteId, WireError
from ordercast.protocols.parts.multicast import Mark
from ordercast.protocols.parts.quorum import Quorum
from ordercast.protocols.scalatom.cells import Cells
from ordercast.protocols.scalatom.packets import AddressState, CellNames

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.entries import Entry


class Address:
    """Some cells. One consensus can order many messages, but only with the same destination set."""

    __slots__ = ("above", "cells", "leaders", "next", "others", "quorum", "ready", "running", "sites")

    def __init__(self, cells: CellNames, quorum: Quorum, site: SiteId) -> None:
        self.cells = cells
        self.quorum = quorum
        self.sites = quorum.sites
        self.others = tuple(other for other in quorum.sites if other != site)
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


class Addresses:
    """All destination sets that were used."""

    def __init__(self, context: Context, cells: Cells) -> None:
        self._context = context
        self._cells = cells
        self._named: dict[CellNames, Address] = {}
        self._of_groups = AddressMemo(self._find)

    def __iter__(self) -> Iterator[Address]:
        return iter(tuple(self._named.values()))

    def named(self, cells: CellNames) -> Address:
        """The destination set of that name; `WireError` when there is none."""
        address = self._named.get(cells)
        if address is None:
            known = range(len(self._cells.cells))
            if not cells or list(cells) != sorted(set(cells)) or any(cell not in known for cell in cells):
                raise WireError(f"there are no cells {cells}")
            quorum = Quorum(self._cells.cells[cell] for cell in cells)
            address = self._named[cells] = Address(cells, quorum, self._context.site)
        return address

    def of(self, multicast: Multicast) -> Address:
        """Dst(m)."""
        return self._of_groups[multicast.groups, None]

    def _find(self, groups: tuple[GroupId, ...], destinations: tuple[SiteId, ...] | None) -> Address:
        if not groups or any(group not in self._context.groups for group in groups):
            raise WireError(f"unknown groups {groups}")
        return self.named(self._cells.of_groups(groups))

    def here(self, multicast: Multicast, bounds: tuple[Mark | None, ...]) -> Mark | None:
        """Of places that a source names for each addressed cell, the one for ours."""
        cells = self.of(multicast).cells
        own = self._cells.of_site(self._context.site)
        return bounds[cells.index(own)] if own in cells and len(bounds) == len(cells) else None

    def shared_with(self, sender: SiteId, cells: CellNames) -> Address:
        """The destination set of that name, when the sender and we are in it."""
        address = self.named(cells)
        if sender not in address.sites or self._context.site not in address.sites:
            raise WireError(f"{sender} and {self._context.site} are not both in the cells {cells}")
        return address
