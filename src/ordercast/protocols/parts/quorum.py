"""Qualified majorities (Rodrigues, Guerraoui, Schiper 1998, 3.5)."""

from __future__ import annotations

from collections.abc import Container, Iterable

from ordercast.core import SiteId, UsageError


class Quorum:
    """A majority of each of several disjoint groups. Any two quorums share a site, in every group.

    With one group it is the usual majority.
    """

    __slots__ = ("groups", "minimum", "sites")

    def __init__(self, groups: Iterable[tuple[SiteId, ...]]) -> None:
        self.groups = tuple((tuple(group), len(group) // 2 + 1) for group in groups)
        """Each group with the size of its majority."""
        sites = [site for group, _ in self.groups for site in group]
        if not sites or len(set(sites)) != len(sites):
            raise UsageError("a qualified majority needs groups that have sites and do not overlap")
        self.sites: tuple[SiteId, ...] = tuple(sorted(sites))
        self.minimum = sum(majority for _, majority in self.groups)
        """Fewer sites than this are never a quorum."""

    def is_met(self, present: Container[SiteId]) -> bool:
        """Whether these sites hold a majority of each group."""
        return not self.missing(present)

    def missing(self, present: Container[SiteId]) -> tuple[SiteId, ...]:
        """The absent sites of the first group that lacks its majority; empty when none does."""
        for group, majority in self.groups:
            absent = tuple(site for site in group if site not in present)
            if len(group) - len(absent) < majority:
                return absent
        return ()
