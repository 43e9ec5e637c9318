"""Broken rules of safety that a schedule finds which looks for trouble, and the random swarm does not in a thousand
seeds: why there are such schedules.

Each is found by one seed of its schedule, in every run of the tests; docs/campaigns.md has the table of who finds what.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ordercast.core import Protocol
from tests.mutants.registry import Mutant, make_mutant
from tests.protocols.parts.hosts import Got, LinkHost


class Hunted(NamedTuple):
    """A mutant with the schedule and the seed that find it."""

    mutant: Mutant
    schedule: str
    seed: int

    def __str__(self) -> str:
        return f"{self.mutant}-by-{self.schedule}"


HUNTED: list[Hunted] = []

Method = Callable[..., Any]


def hunted(protocol: type[Protocol], method: str, *, schedule: str, seed: int) -> Callable[[Method], Method]:
    """Register a function as the replacement of a method, as `mutant` does."""

    def register(function: Method) -> Method:
        HUNTED.append(Hunted(make_mutant(protocol, method, function), schedule, seed))
        return function

    return register


@hunted(LinkHost, "recall_got", schedule="effects", seed=1)
def hands_over_nothing_that_is_in_its_log(self: LinkHost, record: Got) -> None:
    """What was logged and not handed over before the crash is not handed over after it.

    (A crash at a time of the clock never comes between the two: whoever has written the record has done the whole
    step.)
    """
    self.got[record.multicast.id] = record.multicast
