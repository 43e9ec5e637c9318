"""What a judge says: a verdict, and witnesses for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

WITNESSES_MAX: Final = 1000
"""Counts stop here: a run that is wrong a thousand times is wrong, and a broken protocol can be wrong 10^10 times."""

Outcome = Literal["holds", "violated", "vacuous", "not-judged"]


class Witness(msgspec.Struct, frozen=True):
    """One place in a run where a property fails."""

    sites: tuple[str, ...]
    messages: tuple[str, ...]
    why: str


class Verdict(msgspec.Struct, frozen=True):
    """What was found about one property of one run."""

    property: str
    claimed: bool
    verdict: Outcome
    witnesses: int = 0
    first: Witness | None = None
    all_witnesses: list[Witness] = []
    excused: int = 0
    """What would be a witness, and the property allows: for R2, pairs that a site delivered otherwise and then
    failed. As many as were looked at. Campaigns count it to know that the exception is met; it is no part of the rows
    in which verdicts of a trace are kept."""

    def as_json(self) -> dict[str, Any]:
        """The object that `ordercast verify --json` prints."""
        return {
            "claimed": self.claimed,
            "verdict": self.verdict,
            "witnesses": self.witnesses,
            "first": None if self.first is None else msgspec.to_builtins(self.first),
        }


class Finding(msgspec.Struct, frozen=True):
    """What a judge hands back: witnesses, and whether the run obliged the protocol to anything at all."""

    obliged: bool
    witnesses: Sequence[Witness] = ()
    judged: bool = True
    excused: int = 0

    def verdict(self, name: str, claimed: bool) -> Verdict:
        """The verdict that follows."""
        if not self.judged:
            return Verdict(name, claimed, "not-judged")
        if self.witnesses:
            kept = list(self.witnesses[:WITNESSES_MAX])
            return Verdict(name, claimed, "violated", len(kept), kept[0], kept, self.excused)
        return Verdict(name, claimed, "holds" if self.obliged else "vacuous", excused=self.excused)


NOT_JUDGED: Final = Finding(obliged=False, judged=False)
