"""Destination sets: which cells a message goes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from ordercast.core import AddressMemo, Context, GroupId, Multicast, SiteId, WireError
from ordercast.protocols.parts.cells import Cells
from ordercast.protocols.parts.kept_packets import CellNames
from ordercast.protocols.parts.multicast import Mark
from ordercast.protocols.parts.quorum import Quorum


class Destinations:
    """Some cells, and the sites in them."""

    __slots__ = ("cells", "others", "quorum", "sites")

    def __init__(self, cells: CellNames, quorum: Quorum, site: SiteId) -> None:
        self.cells = cells
        self.quorum = quorum
        self.sites = quorum.sites
        self.others = tuple(other for other in quorum.sites if other != site)


AnyDestinations = TypeVar("AnyDestinations", bound=Destinations)


class Addresses(Generic[AnyDestinations]):
    """All destination sets that were used."""

    def __init__(
        self, context: Context, cells: Cells, make: Callable[[CellNames, Quorum, SiteId], AnyDestinations]
    ) -> None:
        self._context = context
        self._cells = cells
        self._make = make
        self._named: dict[CellNames, AnyDestinations] = {}
        self._of_groups = AddressMemo(self._find)

    def __iter__(self) -> Iterator[AnyDestinations]:
        return iter(tuple(self._named.values()))

    def named(self, cells: CellNames) -> AnyDestinations:
        """The destination set of that name; `WireError` when there is none."""
        address = self._named.get(cells)
        if address is None:
            known = range(len(self._cells.cells))
            if not cells or list(cells) != sorted(set(cells)) or any(cell not in known for cell in cells):
                raise WireError(f"there are no cells {cells}")
            quorum = Quorum(self._cells.cells[cell] for cell in cells)
            address = self._named[cells] = self._make(cells, quorum, self._context.site)
        return address

    def of(self, multicast: Multicast) -> AnyDestinations:
        """Dst(m)."""
        return self._of_groups[multicast.groups, None]

    def sites_of(self, multicast: Multicast) -> tuple[SiteId, ...]:
        """The sites in Dst(m)."""
        return self._of_groups[multicast.groups, None].sites

    def _find(self, groups: tuple[GroupId, ...], destinations: tuple[SiteId, ...] | None) -> AnyDestinations:
        if not groups or any(group not in self._context.groups for group in groups):
            raise WireError(f"unknown groups {groups}")
        return self.named(self._cells.of_groups(groups))

    def here(self, multicast: Multicast, bounds: tuple[Mark | None, ...]) -> Mark | None:
        """Of places that a source names for each addressed cell, the one for ours."""
        cells = self.of(multicast).cells
        own = self._cells.of_site(self._context.site)
        return bounds[cells.index(own)] if own in cells and len(bounds) == len(cells) else None

    def shared_with(self, sender: SiteId, cells: CellNames) -> AnyDestinations:
        """The destination set of that name, when the sender and we are in it."""
        address = self.named(cells)
        if sender not in address.sites or self._context.site not in address.sites:
            raise WireError(f"{sender} and {self._context.site} are not both in the cells {cells}")
        return address
