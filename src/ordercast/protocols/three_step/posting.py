"""Letters that are sent once: what is lost shows as a message that is not finished, and is asked about."""

from __future__ import annotations

from collections.abc import Iterable

from ordercast.core import Protocol, SiteId
from ordercast.protocols.parts.link import Letter
from ordercast.protocols.parts.multicast import Data


class PostingOnce:
    """Takes the place of a link."""

    next = 0
    """Nobody confirms a letter, so their numbers mean nothing."""

    def __init__(self, host: Protocol) -> None:
        self._host = host

    def post(self, to: Iterable[SiteId], letter: Letter, vital: bool = False) -> None:
        """Send it."""
        if isinstance(letter, Data) and letter.multicast.id.source != self._host.site:
            self._host.branch("relayed")
        self._host.send(tuple(to), letter)

    def acknowledge(self, sender: SiteId, letter: Letter) -> None:
        """Nobody waits for that."""

    def estrange(self, site: SiteId) -> None:
        """Nothing is kept for it here."""
