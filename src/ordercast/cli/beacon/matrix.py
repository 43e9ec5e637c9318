"""The reports of all processes as a matrix for each way: who hears whom, and how well."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from ordercast.cli.beacon.hearing import Heard
from ordercast.cli.beacon.talk import Report


def cell(heard: Heard | None) -> Text:
    """`1.2 ms ±0.1, lost 2 of 30, 1 late`."""
    if heard is None:
        return Text("no report", "dim")
    if not heard.received:
        return Text("not heard", "red")
    latency = "" if heard.latency_ms is None else f"{heard.latency_ms:.1f} ms"
    jitter = "" if heard.jitter_ms is None else f" ±{heard.jitter_ms:.1f}"
    words = [f"{latency}{jitter}".strip() or "heard"]
    if heard.lost:
        words.append(f"lost {heard.lost} of {heard.lost + heard.received}")
    words += [f"{count} {what}" for what, count in (("late", heard.late), ("repeated", heard.repeated)) if count]
    return Text(", ".join(words), "yellow" if heard.lost else "")


def matrix(way: str, reports: Mapping[str, Report]) -> Table:
    """A row for each process that hears, a column for each that is heard."""
    rows = {process: report.ways.get(way, {}) for process, report in sorted(reports.items())}
    sources = sorted({*rows, *(source for heard in rows.values() for source in heard)})
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column(f"{way}: heard by")
    for source in sources:
        table.add_column(Text(source), overflow="fold")
    for process in sources:
        heard = rows.get(process)
        table.add_row(
            Text(process),
            *(
                Text("·", "dim") if source == process else cell(None if heard is None else heard.get(source, Heard()))
                for source in sources
            ),
        )
    return table
