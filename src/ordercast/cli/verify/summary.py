"""What a person sees of a verification: one line a property over all runs, and counterexamples drawn."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ordercast.cli.diagram import draw_rich
from ordercast.cli.run_report import DIAGRAM_ROWS_MAX, DIAGRAM_SITES_MAX, VERDICT_STYLES, with_legend
from ordercast.trace.schema import EVENTS
from ordercast.verify.folder import Counterexample
from ordercast.verify.summary import PropertySummary, Summary

EXAMPLES_SHOWN = 1
EXAMPLES_MAX = 6
"""Counterexamples drawn in the terminal and in a report, one a property; whoever has more has a broken protocol."""


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
        console.print()
        where = f" in run {example.run}" if summary.runs > 1 else ""
        console.print(Text(f"{example.property}{where}: {example.witness.why}", "red"))
        only = set(example.witness.messages)
        events = shown_events(example)
        drawn = draw_rich(events, only, console.width, rows_max=DIAGRAM_ROWS_MAX)
        console.print(with_legend(drawn, events))
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


def shown_sites(example: Counterexample) -> list[str]:
    """Those to be shown: all that the rows name while they are few, else those of the witness."""
    named = set(example.witness.sites)
    present = set(example.events.column("site").to_pylist()) | named
    return sorted(present if len(present) <= DIAGRAM_SITES_MAX else named)


def shown_events(example: Counterexample) -> pa.Table:
    """The rows of those sites. A site that did nothing about the messages, which may be the point, has one too."""
    sites = shown_sites(example)
    rows = example.events.filter(pc.is_in(example.events.column("site"), value_set=pa.array(sites)))
    absent = sorted(set(sites) - set(rows.column("site").to_pylist()))
    time = pc.min(rows.column("time")).as_py() if len(rows) else 0.0
    # A diagram does not show what is sent, only what arrives.
    idle = [{"run": example.run, "site": site, "seq": 0, "time": time, "kind": "send"} for site in absent]
    return pa.concat_tables([rows, pa.Table.from_pylist(idle, schema=EVENTS)])


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
