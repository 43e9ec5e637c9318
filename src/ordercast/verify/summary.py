"""Verdicts counted over all runs, one line a property."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ordercast.check import Verdict, Witness
from ordercast.trace.pieces import Trace

_WORDS = {"holds": "hold", "violated": "violated", "vacuous": "vacuous", "not-judged": "not judged"}


@dataclass
class PropertySummary:
    """One property, over all runs in which it was looked at."""

    name: str
    claimed: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    violated_claims: int = 0
    witnesses: int = 0
    first: tuple[str, Verdict] | None = None
    """The first run that violates it; a run that claims it comes before one that does not."""

    @property
    def verdict(self) -> str:
        """The worst there is; what holds in one run and is vacuous in the others holds."""
        return next((outcome for outcome in ("violated", "holds", "vacuous") if self.outcomes[outcome]), "not-judged")

    @property
    def runs(self) -> str:
        """`98 hold, 2 violated`."""
        return ", ".join(f"{self.outcomes[name]:,} {words}" for name, words in _WORDS.items() if self.outcomes[name])


@dataclass
class Summary:
    """All properties that were looked at."""

    runs: int
    events: int
    properties: list[PropertySummary]
    notes: list[str]

    @property
    def violated_claims(self) -> int:
        return sum(each.violated_claims for each in self.properties)


def summarize(
    trace: Trace, verdicts: Mapping[str, Mapping[str, Verdict]], unclaimed_too: bool, notes: Sequence[str]
) -> Summary:
    """Count over all runs. Where it is not claimed a property counts only when unclaimed ones were asked for."""
    found: dict[str, PropertySummary] = {}
    for run, of_run in verdicts.items():
        for verdict in of_run.values():
            each = found.setdefault(verdict.property, PropertySummary(verdict.property))
            if not verdict.claimed and not unclaimed_too:
                continue
            each.claimed += verdict.claimed
            each.outcomes[verdict.verdict] += 1
            each.witnesses += verdict.witnesses
            if verdict.verdict == "violated":
                each.violated_claims += verdict.claimed
                if each.first is None or (verdict.claimed and not each.first[1].claimed):
                    each.first = (run, verdict)
    looked_at = [each for each in found.values() if each.outcomes]
    return Summary(len(trace.runs), trace.rows, looked_at, list(notes))


def choose_counterexamples(summary: Summary, unclaimed_too: bool, most: int) -> Iterator[tuple[str, Verdict, Witness]]:
    """The first of each violated property with its witness, claimed ones first."""
    firsts = [each.first for each in summary.properties if each.first is not None]
    claimed = [first for first in firsts if first[1].claimed]
    others = [first for first in firsts if not first[1].claimed]
    for run, verdict in [*claimed, *(others if unclaimed_too else [])][:most]:
        if verdict.first is not None:
            yield run, verdict, verdict.first
