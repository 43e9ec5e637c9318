"""Distances to any process (2.4, Table 2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import SiteId
from ordercast.protocols.intergroup.control.local_group import LocalGroup
from ordercast.protocols.intergroup.control.tables import Entry

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.control.hierarchy import Hierarchy
    from ordercast.protocols.intergroup.control.options import ControlOptions


class Distances:
    """What the tables of the hierarchy say about distances."""

    def __init__(self, site: SiteId, options: ControlOptions, hierarchy: Hierarchy) -> None:
        self._site = site
        self._options = options
        self._hierarchy = hierarchy

    def to(self, site: SiteId, coordinator: SiteId | None) -> float:
        """Seconds to a site; where nothing is known of it, to its coordinator."""
        seconds = self._known(site)
        if seconds is None and coordinator is not None and coordinator != site:
            # Table 2.1, q is a child: the way from its coordinator to itself is left out.
            seconds = self._known(coordinator)
        if seconds is None:
            return self._options.distance_seconds_unknown
        return max(seconds, self._options.distance_seconds_min)

    def furthest(self) -> float:
        """Seconds to the site that is furthest away, of those that are known."""
        hierarchy = self._hierarchy
        found = [self._options.distance_seconds_min]
        for group in hierarchy.local_groups():
            if group.coordinator != self._site:
                found.append(group.head.distance or 0.0)
            found.extend(self._within(group, entry) or 0.0 for entry in group.locals)
        found.extend(self._to_coordinator(entry) or 0.0 for entry in hierarchy.coords)
        return max(found) if len(found) > 1 else self._options.distance_seconds_unknown

    def to_close_coordinator(self) -> float:
        """closeCoordDistance, for a coordinator: seconds to the nearest other one that is not far away in hops. (One
        that is 20 hops and 20 ms away: whoever becomes its child is far from its coordinator, and becomes a coordinator
        again; and so on for ever.)"""
        boundary, coords = self._options.boundary_ttl, self._hierarchy.coords
        return min(
            (
                entry.distance
                for entry in coords
                if entry.hops <= boundary and entry.distance is not None and entry.site not in coords.leaving
            ),
            default=float("inf"),
        )

    # ------------------------------------------------------------------ of those who are known
    def _known(self, site: SiteId) -> float | None:
        if site == self._site:
            return 0.0
        for group in self._hierarchy.local_groups():
            if site == group.coordinator:
                return group.head.distance
            entry = group.locals.get(site)
            if entry is not None:
                seconds = self._within(group, entry)
                if seconds is not None:
                    return seconds
        entry = self._hierarchy.coords.get(site)
        return None if entry is None else self._to_coordinator(entry)

    def _within(self, group: LocalGroup, entry: Entry) -> float | None:
        """To another one of the same local group: measured, or by way of the coordinator."""
        if entry.distance is not None:
            return entry.distance
        head = group.head.distance
        return None if entry.reported is None or head is None else head + entry.reported

    def _to_coordinator(self, entry: Entry) -> float | None:
        """To a coordinator: measured by one, or by way of the one that a child has."""
        if entry.distance is not None or entry.reported is None:
            return entry.distance
        joined = self._hierarchy.joined
        return entry.reported if joined is None else (joined.head.distance or 0.0) + entry.reported
