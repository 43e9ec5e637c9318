"""What a person sees of a verification: one line a property over all runs, and counterexamples drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ordercast.check import Verdict
from ordercast.cli.diagram import draw_rich
from ordercast.cli.run_report import DIAGRAM_ROWS_MAX, DIAGRAM_SITES_MAX, VERDICT_STYLES, with_legend
from ordercast.spark.tables import Trace
from ordercast.trace.schema import EVENTS

EXAMPLES_SHOWN = 1
EXAMPLES_MAX = 6
"""Counterexamples drawn in the terminal and in a report, one a property; whoever has more has a broken protocol."""

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


@dataclass
class Counterexample:
    """A violated property, and the rows that show it."""

    run: str
    verdict: Verdict
    events: pa.Table

    @property
    def sites(self) -> list[str]:
        """Those to be shown: all that the rows name while they are few, else those of the witness."""
        assert self.verdict.first is not None
        named = set(self.verdict.first.sites)
        present = set(self.events.column("site").to_pylist()) | named
        return sorted(present if len(present) <= DIAGRAM_SITES_MAX else named)

    @property
    def shown(self) -> pa.Table:
        """The rows of those sites. A site that did nothing about the messages, which may be the point, has one too."""
        sites = self.sites
        rows = self.events.filter(pc.is_in(self.events.column("site"), value_set=pa.array(sites)))
        absent = sorted(set(sites) - set(rows.column("site").to_pylist()))
        time = pc.min(rows.column("time")).as_py() if len(rows) else 0.0
        # A diagram does not show what is sent, only what arrives.
        idle = [{"run": self.run, "site": site, "seq": 0, "time": time, "kind": "send"} for site in absent]
        return pa.concat_tables([rows, pa.Table.from_pylist(idle, schema=EVENTS)])


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


def choose_counterexamples(summary: Summary, unclaimed_too: bool, most: int) -> Iterator[tuple[str, Verdict]]:
    """The first of each violated property, claimed ones first."""
    firsts = [each.first for each in summary.properties if each.first is not None]
    claimed = [first for first in firsts if first[1].claimed]
    others = [first for first in firsts if not first[1].claimed]
    yield from [*claimed, *(others if unclaimed_too else [])][:most]


def show(console: Console, summary: Summary, examples: Sequence[Counterexample], page: str | None) -> None:
    """Everything, for people."""
    runs = f"{summary.runs:,} run{'s' if summary.runs != 1 else ''}"
    console.print(Text(f"{runs}, {summary.events:,} events", "dim"))
    for note in summary.notes:
        console.print(Text(f"note: {note}", "yellow"))
    console.print()
    if summary.properties:
        console.print(_table(summary))
    else:
        console.print(Text("the trace claims nothing; --all checks every property", "yellow"))
    for example in examples[:EXAMPLES_SHOWN]:
        assert example.verdict.first is not None
        console.print()
        where = f" in run {example.run}" if summary.runs > 1 else ""
        console.print(Text(f"{example.verdict.property}{where}: {example.verdict.first.why}", "red"))
        only = set(example.verdict.first.messages)
        drawn = draw_rich(example.shown, only, console.width, rows_max=DIAGRAM_ROWS_MAX)
        console.print(with_legend(drawn))
    console.print()
    count = summary.violated_claims
    if count:
        console.print(Text(f"{count:,} claim{'s' if count != 1 else ''} violated", "bold red"))
    elif any(each.claimed for each in summary.properties):
        console.print(Text("no claim is violated", "green"))
    if page is not None:
        console.print(Text(f"report written to {page}", "dim"))


def claimed_words(each: PropertySummary, runs: int) -> str:
    """`yes`, `no`, or in how many runs."""
    return "no" if not each.claimed else "yes" if each.claimed == runs else f"in {each.claimed:,} of {runs:,} runs"


def _table(summary: Summary) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    several = summary.runs > 1
    violated = any(each.first for each in summary.properties)
    for heading in ("property", "claimed", "verdict", *(["runs"] if several else [])):
        table.add_column(heading)
    if violated:
        table.add_column("witnesses", justify="right")
        table.add_column("first witness")
    for each in summary.properties:
        row = [
            Text(each.name),
            Text(claimed_words(each, summary.runs), "" if each.claimed else "dim"),
            Text(each.verdict, VERDICT_STYLES[each.verdict]),
        ]
        if several:
            row.append(Text(each.runs))
        if violated:
            first = each.first[1].first if each.first is not None else None
            row.append(Text(f"{each.witnesses:,}" if each.witnesses else ""))
            row.append(Text("" if first is None else first.why, overflow="fold"))
        table.add_row(*row)
    return table
