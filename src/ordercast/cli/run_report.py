"""What a person sees of one run: numbers, verdicts, and the messages that break a claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ordercast.check import Verdict
from ordercast.cli.diagram import count_rows, draw_rich, legend

DIAGRAM_SITES_MAX = 8
DIAGRAM_ROWS_MAX = 60
"""What fits on a screen and in a head."""

VERDICT_STYLES = {"holds": "green", "violated": "bold red", "vacuous": "yellow", "not-judged": "dim"}


def count_kinds(events: pa.Table) -> dict[str, int]:
    """Kind of event -> how many there are."""
    counted = pc.value_counts(events.column("kind")).to_pylist()
    return {entry["values"]: entry["counts"] for entry in sorted(counted, key=lambda entry: entry["values"])}


def count_services(events: pa.Table) -> dict[str, dict[str, dict[str, int]]]:
    """Group -> site -> service -> how many messages the site has delivered there with it, chosen and used or not."""
    columns = events.select(["kind", "site", "groups", "service"])
    rows = columns.filter(pc.is_in(columns.column("kind"), pa.array(["deliver", "activate"]))).to_pylist()
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for row in rows:
        for group in row["groups"] or ():
            of_site = counts.setdefault(group, {}).setdefault(row["site"], {})
            of_site.setdefault(row["service"] or "none", 0)
            of_site[row["service"] or "none"] += row["kind"] == "deliver"
    return {group: dict(sorted(sites.items())) for group, sites in sorted(counts.items())}


def services_table(counts: Mapping[str, Mapping[str, Mapping[str, int]]]) -> Table:
    """Who delivered how much with which service, a row for each group and site."""
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("group", "site", "delivered with"):
        table.add_column(heading, overflow="fold")
    for group, sites in counts.items():
        for site, of_site in sites.items():
            used = ", ".join(f"{service} {count:,}" for service, count in of_site.items() if count)
            table.add_row(Text(group), Text(site), Text(used or "nothing"))
    return table


def claimed_verdicts(verdicts: Mapping[str, Verdict]) -> list[Verdict]:
    """Those that the protocol claims, in the order of the list of properties."""
    return [verdict for verdict in verdicts.values() if verdict.claimed]


def violated_claims(verdicts: Mapping[str, Verdict]) -> list[Verdict]:
    """The claims that do not hold."""
    return [verdict for verdict in claimed_verdicts(verdicts) if verdict.verdict == "violated"]


def verdict_table(verdicts: Mapping[str, Verdict]) -> Table:
    """A row for each claimed property."""
    claimed = claimed_verdicts(verdicts)
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("claimed property", "verdict", *(["first witness"] if any(each.first for each in claimed) else [])):
        table.add_column(heading)
    for verdict in claimed:
        row = [Text(verdict.property), Text(verdict.verdict, VERDICT_STYLES[verdict.verdict])]
        if verdict.first is not None:
            more = f" (and {verdict.witnesses - 1} more)" if verdict.witnesses > 1 else ""
            row.append(Text(f"{verdict.first.why}{more}", overflow="fold"))
        table.add_row(*row)
    return table


def counts_table(rows: Mapping[str, str]) -> Table:
    """Names and what there is to say about each."""
    table = Table.grid(padding=(0, 3, 0, 0))
    for name, text in rows.items():
        table.add_row(Text(name, "dim"), Text(text))
    return table


def named_counts(counts: Mapping[str, int], none: str = "none") -> str:
    """`loss 3, crash 1`."""
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items())) or none


def diagram_if_small(events: pa.Table, width: int, forced: bool = False) -> RenderableType | None:
    """The whole run as a space-time diagram, or None when it is too large.

    Packets that deliver nothing are left out where that makes it fit. Forced, it is drawn in any case, and cut off.
    """
    few_sites = len(pc.unique(events.column("site"))) <= DIAGRAM_SITES_MAX
    for packets in (True, False):
        if few_sites and count_rows(events, packets) <= DIAGRAM_ROWS_MAX:
            return with_legend(draw_rich(events, width=width, packets=packets), events)
    return with_legend(draw_rich(events, width=width, packets=False), events) if forced else None


def witness_diagram(events: pa.Table, verdict: Verdict, width: int) -> RenderableType | None:
    """The messages of the first witness, and nothing else of the run."""
    if verdict.first is None or not verdict.first.messages:
        return None
    text = draw_rich(events, set(verdict.first.messages), width, rows_max=DIAGRAM_ROWS_MAX)
    return Group(Text(f"{verdict.property}: {verdict.first.why}", "red"), with_legend(text, events))


def with_legend(diagram: Text, events: pa.Table) -> RenderableType:
    """The diagram and what its letters mean."""
    return Group(diagram, Text(legend(events), "dim"))


def verdicts_as_json(verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    """As `ordercast verify --json` has them, the claimed ones only."""
    return {verdict.property: verdict.as_json() for verdict in claimed_verdicts(verdicts)}
