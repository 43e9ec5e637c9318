"""When to say hello, and to whom: to those who have no session, or another one; with longer and longer waits."""

from __future__ import annotations

from collections.abc import Container, Iterable
from math import inf

from ordercast.core import SiteId

HELLO_SECONDS_MIN = 0.05
HELLO_SECONDS_MAX = 1.0
"""Between two hellos to a process that does not answer; doubled from the first to the second."""

PROVOKED_SECONDS = 0.2
"""Somebody whom we do not know sends something: whoever has not answered yet is asked again, at most so often."""


class _Salute:
    """When to say hello to a peer."""

    __slots__ = ("doubted", "due", "last", "wait_seconds")

    def __init__(self) -> None:
        self.doubted = False
        """The peer has a session, and perhaps a newer one that we have not heard of."""
        self.due = 0.0
        self.last = -inf
        self.wait_seconds = HELLO_SECONDS_MIN


class Salutes:
    """The hellos to those who are known by name."""

    def __init__(self, sites: Iterable[SiteId], peers: Container[SiteId]) -> None:
        """`peers` are those who have a session at the time."""
        self.deadline = 0.0
        """When a hello is due, at the earliest."""
        self._salutes = {site: _Salute() for site in sites}
        self._peers = peers
        self._provoked = False
        """Everybody is being asked already."""

    def __contains__(self, site: SiteId) -> bool:
        return site in self._salutes

    def add(self, site: SiteId) -> None:
        """Greet this one, too."""
        self._salutes[site] = _Salute()
        self.deadline = 0.0

    def remove(self, site: SiteId) -> None:
        """Greet this one no more."""
        self._salutes.pop(site, None)

    def doubt(self, site: SiteId, now: float) -> None:
        """Greet this one now, although it has a session."""
        salute = self._salutes[site]
        salute.doubted = True
        salute.due = min(salute.due, now)

    def settle(self) -> None:
        """Something has changed: the next stranger is news."""
        self._provoked = False

    def due(self, now: float) -> list[SiteId]:
        """Whom to greet now."""
        due = []
        self._provoked = False
        self.deadline = inf
        for site, salute in self._salutes.items():
            if site in self._peers and not salute.doubted:
                continue
            if salute.due <= now:
                salute.doubted = False
                due.append(site)
                salute.last = now
                salute.due = now + salute.wait_seconds
                salute.wait_seconds = min(2 * salute.wait_seconds, HELLO_SECONDS_MAX)
            if site not in self._peers or salute.doubted:
                self.deadline = min(self.deadline, salute.due)
        return due

    def provoke(self, now: float) -> None:
        """Somebody unknown has sent something: hurry up with those from whom it may be.

        That is everybody: (1) a restarts and greets b; (2) b challenges a; (3) a accepts b, and its response is lost.
        Now a has a session of b and says no more, and b still has the one of a's last life.
        """
        if self._provoked:
            return
        self._provoked = True
        for site, salute in self._salutes.items():
            soon = max(now, salute.last + PROVOKED_SECONDS)
            if site in self._peers:
                if not salute.doubted:
                    salute.doubted = True
                    salute.due = soon
            else:
                salute.due = min(salute.due, soon)
            self.deadline = min(self.deadline, salute.due)
