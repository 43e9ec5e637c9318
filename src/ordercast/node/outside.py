"""Groups that have gone on without this process: it comes back to them, or it was removed and begins again like any
other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from ordercast.core import GroupId, SiteId

logger = logging.getLogger("ordercast.node")


class Outside:
    """Which groups those are, and of which ones the configuration says no more that this process is in them."""

    def __init__(self, process: SiteId, is_configured: Callable[[GroupId], bool]) -> None:
        self._process = process
        self._is_configured = is_configured
        self._groups: set[GroupId] = set()
        """Until this process enters them again."""
        self._parted: set[GroupId] = set()
        """Those of the configuration that the application has left meanwhile: from then on they are like any other."""

    def __contains__(self, group: GroupId) -> bool:
        return group in self._groups

    def stays_in(self, group: GroupId) -> bool:
        """Whether this process is in a group for good because the configuration says so."""
        return self._is_configured(group) and group not in self._parted

    def exited(self, group: GroupId) -> None:
        """The others have gone on without this process, whose application is in the group."""
        self._groups.add(group)
        logger.warning(
            "process %s is out of group %s, which has gone on without it: it goes on where the others are; if it was "
            "removed, leave the group and join it again",
            self._process,
            group,
        )

    def entered(self, group: GroupId) -> None:
        """This process is in it again."""
        self._groups.discard(group)

    def part(self, groups: Iterable[GroupId]) -> list[GroupId]:
        """The application leaves these: those in which only the configuration still has it."""
        parted = [group for group in groups if group in self._groups and self.stays_in(group)]
        self._groups.difference_update(parted)
        self._parted.update(parted)
        return parted
