"""How long a site waits for an answer: longer with each retry, and longer where that has proved too short."""

from __future__ import annotations

from ordercast.protocols.classic.token.options import TokenOptions

CALM_SECONDS = 10.0
"""Who suspects or comes back again and again within this time waits longer and longer: it reaches some of the others
and not all, or the network is slow."""
SUSPICION_SECONDS_MAX = 2.0
"""So far the suspicion adapts by itself; networks that need more for a reformation are told in the options."""
REFORMATION_RETRIES = 16
"""An originator waits up to eight retries for those who do not join; installing takes as long again."""
SLOWNESS_MAX = 3
"""Doublings of a time to wait."""


class Patience:
    """All times to wait of one site."""

    def __init__(self, options: TokenOptions) -> None:
        self._options = options
        self._slowness = 0
        """How often suspicions have come one after the other: the network may be slower than the options believe."""
        self._suspected_at = -CALM_SECONDS

    @property
    def is_stretched(self) -> bool:
        """Whether times to wait are longer than the options say."""
        return self._slowness > 0

    def retry_after(self, retries: int) -> float:
        """Twice as long each time, up to eight times as long; longer from the beginning where that has proved too
        short."""
        return self._options.retry_seconds * (1 << min(retries + self._slowness, SLOWNESS_MAX))

    def silence(self) -> float:
        """How long nothing may be heard.

        Longer when suspicions follow each other. (A reformation takes five ways through the network. Where the
        suspicion is shorter, those who have joined suspect the originator and originate another list before it can
        install its own, for ever.)
        """
        seconds = self._options.suspicion_seconds
        return min(seconds * (1 << self._slowness), max(seconds, SUSPICION_SECONDS_MAX))

    def reformation(self) -> float:
        """What an originator may take: it waits for answers, and for those who do not answer."""
        return max(self.silence(), REFORMATION_RETRIES * self._options.retry_seconds)

    def note_suspicion(self, now: float) -> None:
        """One more; those that follow each other make the waiting longer, and after a calm time it begins anew."""
        calm = now - self._suspected_at >= CALM_SECONDS
        self._slowness = 0 if calm else min(SLOWNESS_MAX, self._slowness + 1)
        self._suspected_at = now
