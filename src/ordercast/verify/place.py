"""Where a trace is verified: what this process and Spark's workers have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from ordercast.check import Choice, Verdict, Witness
from ordercast.trace.pieces import Trace, Work


@dataclass(frozen=True)
class Judged:
    """The verdicts about all runs of a trace, each with its first witness only, and what was not judged and why."""

    verdicts: dict[str, dict[str, Verdict]]
    notes: list[str] = field(default_factory=list)


class Place(Protocol):
    """Where work is done."""

    def gather(self, pieces: Sequence[bytes], work: Work, schema: pa.Schema) -> pa.Table:
        """What `work` yields for all the pieces; its batches have exactly this schema."""
        ...

    def judge(self, trace: Trace, choice: Choice) -> Judged:
        """Judge every run: what it claims, unless the choice is another."""
        ...


def verdicts_of(
    rows: Iterable[Mapping[str, Any]], runs: Iterable[str], choice: Choice
) -> dict[str, dict[str, Verdict]]:
    """Run -> property -> verdict, from the first row of each finding (`files.FINDINGS`); what was not asked for is
    `not-judged`."""
    found: dict[str, dict[str, Verdict]] = {run: {} for run in sorted(runs)}
    for row in rows:
        first = None if row["why"] is None else Witness(tuple(row["sites"]), tuple(row["messages"]), row["why"])
        found[row["run"]][row["property"]] = Verdict(
            row["property"], row["claimed"], row["verdict"], row["witnesses"], first
        )
    return {
        run: {name: verdicts.get(name) or Verdict(name, False, "not-judged") for name in choice.listed}
        for run, verdicts in found.items()
    }
