"""From the users' groups, which overlap, to the paper's groups, which do not (Rodrigues, Guerraoui, Schiper 1998, 3.3).

Sites that are in exactly the same groups form a *cell*. Cells are disjoint, a multicast to groups goes to the union of
their cells, and a majority is needed in each cell.
"""

from __future__ import annotations

from collections.abc import Mapping

from ordercast.core import GroupId, SiteId


class Cells:
    """The partition of the members that their groups induce."""

    def __init__(self, groups: Mapping[GroupId, tuple[SiteId, ...]]) -> None:
        membership: dict[SiteId, list[GroupId]] = {}
        for group in sorted(groups):
            for site in groups[group]:
                membership.setdefault(site, []).append(group)
        by_groups: dict[tuple[GroupId, ...], list[SiteId]] = {}
        for site in sorted(membership):
            by_groups.setdefault(tuple(membership[site]), []).append(site)
        self.cells: tuple[tuple[SiteId, ...], ...] = tuple(sorted(map(tuple, by_groups.values())))
        """Sorted by their first sites; a cell is named by its place."""
        self._groups = groups
        self._place: dict[SiteId, int] = {site: place for place, cell in enumerate(self.cells) for site in cell}

    def of_site(self, site: SiteId) -> int | None:
        """The cell of a site; None for one that is in no group."""
        return self._place.get(site)

    def mates(self, site: SiteId) -> tuple[SiteId, ...]:
        """The other sites of its cell."""
        cell = self.of_site(site)
        return () if cell is None else tuple(mate for mate in self.cells[cell] if mate != site)

    def of_groups(self, groups: tuple[GroupId, ...]) -> tuple[int, ...]:
        """The cells that make up these groups, ascending."""
        return tuple(sorted({self._place[site] for group in groups for site in self._groups[group]}))

    def fragile(self) -> tuple[tuple[SiteId, ...], ...]:
        """The cells that stop when one of their sites does: a majority of one or two sites is all of them."""
        return tuple(cell for cell in self.cells if len(cell) < 3)

    def warnings(self) -> tuple[str, ...]:
        """What to tell the operator at the start, one line each."""
        return tuple(map(self._warning, self.fragile()))

    def _warning(self, cell: tuple[SiteId, ...]) -> str:
        several = len(cell) > 1
        who = (
            f"the processes {', '.join(cell)} are a cell of their own"
            if several
            else f"the process {cell[0]} is a cell of its own"
        )
        return (
            f"{who}, which tolerates no failure: what is addressed to {', '.join(self._common(cell))} waits while "
            f"{'one of them' if several else 'it'} is down; put at least three processes in the same groups"
        )

    def _common(self, cell: tuple[SiteId, ...]) -> list[GroupId]:
        return [group for group in sorted(self._groups) if cell[0] in self._groups[group]]
