"""Whom this process does not talk with, and why: told once in the log, and shown for as long as it is so."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ordercast.core import SiteId

logger = logging.getLogger("ordercast.wire")

STRANGERS_MAX = 16
"""Names that are not configured and are remembered: somebody could make up any number of them."""

CAUSES = {
    "forged": "what comes under its name does not open: use one key_file, one name of the cluster and one list of "
    "[processes] with their addresses for all",
    "plaintext": "it sends in the clear, and here everything is sealed: use one configuration file for all processes",
    "sealed": "it seals, and here everything is sent in the clear: use one configuration file for all processes",
    "version": "it speaks another version of the wire: install one version of ordercast for all processes",
    "unknown-process": "it is not among the [processes] here: use one configuration file for all processes",
    "same-name": "another process announces itself under this name: give it another one",
    "full": "as many processes as a cluster can have are here, or were a moment ago: end one of them",
    "was-here": "it was here before with a later history: a second process runs under its name, or it has lost its log",
}
"""What may be true of a datagram that nobody can prove to be fresh, or not even genuine."""


class Refusals:
    """One line for each process that is refused."""

    def __init__(self, process: SiteId, known: Iterable[SiteId]) -> None:
        self.lines: dict[SiteId, str] = {}
        self.known = set(known)
        """Those who are remembered whatever is wrong with others."""
        self._process = process
        self._proven: set[SiteId] = set()
        self._suspected: set[tuple[SiteId, str]] = set()

    def suspect(self, peer: SiteId, cause: str) -> None:
        """A datagram was dropped for one of the `CAUSES`. Each is told once for each peer, for anybody can send such
        datagrams as often as he likes."""
        if (peer, cause) in self._suspected:
            return
        if not self._has_room(peer):
            return
        self._suspected.add((peer, cause))
        line = self._line(peer, CAUSES[cause])
        if peer not in self._proven:
            self.lines[peer] = line
        logger.warning("%s", line)

    def prove(self, peer: SiteId, reason: str) -> str:
        """The peer itself has just given the reason; the line."""
        line = self._line(peer, reason)
        if self.lines.get(peer) != line and self._has_room(peer):
            self._proven.add(peer)
            self.lines[peer] = line
            logger.warning("%s", line)
        return line

    def forget(self, peer: SiteId) -> None:
        """The peer was accepted: if something is wrong later, that is news."""
        self.lines.pop(peer, None)
        self._proven.discard(peer)
        self._suspected = {suspicion for suspicion in self._suspected if suspicion[0] != peer}

    def _has_room(self, peer: SiteId) -> bool:
        if peer in self.known or peer in self.lines:
            return True
        return sum(other not in self.known for other in self.lines) < STRANGERS_MAX

    def _line(self, peer: SiteId, reason: str) -> str:
        shown = peer if peer.isprintable() else repr(peer)
        return f"process {self._process} refuses {shown}: {reason}"
