"""Whether IP multicast reaches everyone: asked at the start and ever after, because switches forget and routes change.

Until every process has answered, and whenever one no longer does, each gets its own copy by unicast. A process that
multicast does not reach must never be left out in silence.
"""

from __future__ import annotations

from ordercast.core import SiteId

PROBE_SECONDS = 0.2
"""How often a process asks while somebody has not answered."""

CONFIRM_SECONDS = 5.0
"""How often it asks when everybody has."""

UNANSWERED_MAX = 3
"""Probes without an answer after which a process counts as not reached: two may be lost."""


class Reach:
    """Who answers this process' multicasts."""

    def __init__(self, others: tuple[SiteId, ...]) -> None:
        self.number = 0
        self._heard: dict[SiteId, int] = {}
        self.others = others
        """Those who are to hear them; they may come and go."""
        self._told: tuple[SiteId, ...] | None = None
        self.everyone = False
        """Whether multicast can be used."""

    def next_probe(self) -> int:
        """The number of the probe that is due."""
        self.number += 1
        self.judge()
        return self.number

    def seconds_to_next(self) -> float:
        """When to ask again."""
        return CONFIRM_SECONDS if self.everyone else PROBE_SECONDS

    def on_heard(self, site: SiteId, number: int) -> None:
        """Somebody heard a probe."""
        if number <= self.number and site in self.others:
            self._heard[site] = max(number, self._heard.get(site, 0))
            self.judge()

    def missing(self) -> tuple[SiteId, ...]:
        """Those who do not answer."""
        oldest = self.number - UNANSWERED_MAX
        return tuple(site for site in self.others if self._heard.get(site, 0) <= max(oldest, 0))

    def judge(self) -> None:
        """Work out whether everyone is reached."""
        self.everyone = not self.missing()

    def news(self) -> tuple[SiteId, ...] | None:
        """Whom multicast does not reach, once that is known and whenever it changes; None when there is no news."""
        missing = self.missing()
        if missing == self._told or (missing and self.number <= UNANSWERED_MAX):
            return None
        self._told = missing
        return missing
