"""The sites of the system, and what follows from how many there are: a majority, and the resilience."""

from __future__ import annotations

from collections.abc import Iterable

from ordercast.core import Packet, Part, SiteId, UsageError, WireError
from ordercast.protocols.classic.token.turns import Summary, Turn


class Sites(Part):
    """Who may be in a token list, and how many of them decide. Nothing else in the protocol counts sites."""

    def __init__(self, site: SiteId, sites: tuple[SiteId, ...], resilience: int | None) -> None:
        if resilience is not None and resilience >= len(sites):
            raise UsageError(f"option resilience of token is below the number of sites, {len(sites)}, not {resilience}")
        self.all = sites
        self.others = tuple(other for other in sites if other != site)
        self.majority = len(sites) // 2 + 1
        self._resilience = len(sites) // 2 if resilience is None else resilience

    def on_heard(self, sender: SiteId, packet: Packet) -> None:
        """Only the sites of the system take part."""
        if sender not in self.all:
            raise WireError(f"{sender!r} is no site of the system")

    def check_turns(self, turns: Iterable[Turn]) -> None:
        """They acknowledge messages of the sites of the system only."""
        for turn in turns:
            for run in turn.runs:
                if run.first.source not in self.all:
                    raise WireError(f"a turn with a message of {run.first.source!r}, which is no site of the system")

    def check_members(self, members: tuple[SiteId, ...]) -> None:
        """They are sites of the system."""
        if not set(members) <= set(self.all):
            raise WireError(f"a list of {', '.join(members)}, of whom not all are sites of the system")

    def check_summary(self, summary: Summary) -> None:
        """It names the sites of the system."""
        if sorted(source for source, _number in summary.ordered) != sorted(self.all):
            raise WireError("a summary of other sites than those of the system")

    def are_majority(self, count: int) -> bool:
        """Whether so many sites are one: any two majorities have a site in common."""
        return count >= self.majority

    def are_all(self, count: int) -> bool:
        """Whether nobody is missing."""
        return count == len(self.all)

    def transfers_needed(self, members: int) -> int:
        """L; a list that is too small for it has to know the message at every site."""
        return min(self._resilience, members - 1)
