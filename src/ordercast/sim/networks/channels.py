"""Who hears a channel, and whom a broadcast on it reaches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable

from ordercast.core import SiteId


class Channel:
    """The sites that hear it, in order of their names. Whom a scope reaches is worked out once, until somebody comes or
    goes: thousands may hear a channel, and each of them broadcast on it."""

    def __init__(self) -> None:
        self._members: list[SiteId] = []
        self._reached: dict[Hashable, tuple[SiteId, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._members)

    def join(self, site: SiteId) -> None:
        """A site hears it."""
        members = self._members
        at = bisect_left(members, site)
        if at == len(members) or members[at] != site:
            members.insert(at, site)
            self._reached.clear()

    def leave(self, site: SiteId) -> None:
        """A site hears it no more."""
        members = self._members
        at = bisect_left(members, site)
        if at < len(members) and members[at] == site:
            del members[at]
            self._reached.clear()

    def reached(self, scope: Hashable, is_reached: Callable[[SiteId], bool] | None) -> tuple[SiteId, ...]:
        """Whom a broadcast of that scope reaches: everyone, or those of whom the function says so. The answer is kept
        unless the scope is None."""
        reached = None if scope is None else self._reached.get(scope)
        if reached is None:
            members = self._members
            reached = tuple(members if is_reached is None else filter(is_reached, members))
            if scope is not None:
                self._reached[scope] = reached
        return reached
