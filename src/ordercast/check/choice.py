"""Which properties are judged: the user's choice, from the command line to the judges."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

import msgspec

from ordercast.check.registry import PROPERTIES
from ordercast.core.errors import UsageError
from ordercast.trace.schema import Run


class Choice(msgspec.Struct, frozen=True):
    """What each run claims, or everything, or exactly the named properties; names that somebody types go through
    `choose`."""

    named: tuple[str, ...] | None = None
    everything: bool = False

    @property
    def unclaimed_too(self) -> bool:
        """Whether properties are judged where a run does not claim them."""
        return self.everything or self.named is not None

    @property
    def listed(self) -> tuple[str, ...]:
        """The properties that have a verdict, be it that they are `not-judged`."""
        return PROPERTIES if self.named is None else self.named

    def judged(self, run: Run) -> tuple[str, ...]:
        """The properties that are judged of a run."""
        return self.listed if self.unclaimed_too else tuple(run.guarantees)


CLAIMED: Final = Choice()
EVERYTHING: Final = Choice(everything=True)


def choose(named: Iterable[str] | None = None, everything: bool = False) -> Choice:
    """The choice of these properties, claimed or not; without them of everything, or of what each run claims."""
    if named is None:
        return Choice(everything=everything)
    names = tuple(dict.fromkeys(named))
    _refuse_unknown(names, "asked for")
    return Choice(names)


def check_claims(runs: Iterable[Run]) -> None:
    """Before any work: a run that claims what no judge has, of all deliveries or of those with a service."""
    for run in runs:
        _refuse_unknown(run.guarantees, f"run {run.run!r} claims")
        for service, names in run.services.items():
            _refuse_unknown(names, f"run {run.run!r} claims for the service {service!r}")


def _refuse_unknown(names: Iterable[str], who: str) -> None:
    for name in names:
        if name not in PROPERTIES:
            near = get_close_matches(name, PROPERTIES, 1, cutoff=0.0)
            raise UsageError(f"{who} the unknown property {name!r}; the nearest known one is {near[0]!r}")
