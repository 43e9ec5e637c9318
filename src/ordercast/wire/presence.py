"""Who is there: a peer that has said nothing for some seconds is greeted, and one that does not answer is gone.

Sessions stay: whoever comes back within the same life goes on with the one that it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from ordercast.core import SiteId
from ordercast.wire.session import PeerSession

LOOK_SECONDS = 2.0
"""How often peers are looked at. Nothing is done for it when a datagram comes."""

SILENT_SECONDS = 5.0
"""A peer of which nothing came for so long is greeted, at every look: any genuine answer counts."""

SUSPECT_SECONDS = SILENT_SECONDS + LOOK_SECONDS + 1.0
"""A peer is suspected that has left a greeting unanswered for a second. (A look comes up to `LOOK_SECONDS` after the
silence began to count, and a peer that has nothing to say would be suspected until then.)"""

GONE_SECONDS = 11.0
"""A peer is gone that has left three greetings unanswered."""

FORGET_SECONDS = 60.0
"""A peer that no configuration names is forgotten after so long: whoever finds it again begins anew with it."""


class Presence:
    """When something was last heard of each peer, as far as looking now and then can tell."""

    def __init__(self, peers: Mapping[SiteId, PeerSession]) -> None:
        self._peers = peers
        self._signs: dict[SiteId, tuple[PeerSession, int, float]] = {}
        """Peer -> its session, what was to be seen there, and since when nothing else is."""
        self._up: dict[SiteId, tuple[PeerSession, float]] = {}
        """Peer -> its session, and when a look found it there after it was suspected, or had none."""
        self.deadline = inf
        """When to look again."""

    def look(self, now: float) -> list[SiteId]:
        """Look at everybody; those who are silent."""
        silent = []
        for site, session in self._peers.items():
            since = self._since(site, now)
            self._signs[site] = session, session.signs, since
            if now - since >= SILENT_SECONDS:
                silent.append(site)
            if now - since >= SUSPECT_SECONDS:
                self._up.pop(site, None)
            elif not self._is_known_up(site):
                self._up[site] = session, now
        self.deadline = now + LOOK_SECONDS if self._peers else inf
        return silent

    def there(self, now: float) -> list[SiteId]:
        """The peers that are not gone, sorted."""
        return sorted(site for site in self._peers if now - self._since(site, now) < GONE_SECONDS)

    def silences(self, now: float) -> dict[SiteId, float]:
        """Peer -> for how many seconds nothing came from it, as far as the last look tells."""
        return {site: now - self._since(site, now) for site in self._peers}

    def up_seconds(self, now: float) -> dict[SiteId, float]:
        """Peer that is not suspected -> for how many seconds it has been there without a restart and without being
        suspected, as far as looks tell."""
        return {
            site: now - self._up[site][1] if self._is_known_up(site) else 0.0
            for site in self._peers
            if now - self._since(site, now) < SUSPECT_SECONDS
        }

    def long_gone(self, now: float) -> list[SiteId]:
        """The peers of which nothing was heard for so long that they can be forgotten."""
        return [site for site in self._peers if now - self._since(site, now) >= FORGET_SECONDS]

    def forget(self, site: SiteId) -> None:
        """The peer has no session any more."""
        self._signs.pop(site, None)
        self._up.pop(site, None)

    def _is_known_up(self, site: SiteId) -> bool:
        known = self._up.get(site)
        return known is not None and known[0] is self._peers[site]

    def _since(self, site: SiteId, now: float) -> float:
        known = self._signs.get(site)
        session = self._peers[site]
        return now if known is None or known[0] is not session or known[1] != session.signs else known[2]
