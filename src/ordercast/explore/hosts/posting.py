"""What a part that is searched alone stands on: a link and a failure detector that whoever searches decides about."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ordercast.core import Part, Protocol, SiteId
from ordercast.core.packets import Packet
from ordercast.protocols.parts.link import Letter


class PostOnce:
    """A link that repeats nothing and keeps nothing. All its letters have the number 1: nobody asks for a receipt, and
    two letters that say the same are the same."""

    next = 1

    def __init__(self, host: Protocol) -> None:
        self._host = host

    def post(self, to: Iterable[SiteId], letter: Letter, vital: bool = False) -> None:
        """Send it."""
        self._host.send(tuple(to), letter)

    def acknowledge(self, sender: SiteId, letter: Letter) -> None:
        """Nobody waits for it."""

    def estrange(self, site: SiteId) -> None:
        """There is nothing that could be dropped."""


class Suspicions(Part):
    """A failure detector that may be wrong at any time: a suspicion is the timer `suspect` of its host, and whoever
    searches lets it fire. That is all that ◇S allows, and more. Whoever is heard is trusted again."""

    def __init__(self, host: Protocol) -> None:
        self._host = host
        self.suspected: set[SiteId] = set()
        self._watched: list[SiteId] = []

    def watch(self, site: SiteId) -> None:
        """Somebody waits for the site."""
        self._watched.append(site)
        self._host.set_timer("suspect", 1.0)

    def unwatch(self, site: SiteId) -> None:
        """Nobody does any more."""
        self._watched.remove(site)
        if not self._watched:
            self._host.cancel_timer("suspect")

    def on_heard(self, sender: SiteId, packet: Packet) -> None:
        """It is there."""
        self.suspected.discard(sender)

    def suspect_all(self, tell: Callable[[SiteId], None]) -> None:
        """Everyone who is waited for is silent, or seems to be."""
        for site in dict.fromkeys(self._watched):
            self.suspected.add(site)
            tell(site)
        if self._watched:
            self._host.set_timer("suspect", 1.0)
