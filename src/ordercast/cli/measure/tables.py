"""Measures for people: a table each, short enough to be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ordercast.cli.terminal import make_console

LINES_MAX = 30
"""Lines of one table; more of them scroll the other tables away."""

Row = Mapping[str, Any]
Cell = Callable[[Row], str]

NOTHING = "–"


def seconds_text(seconds: float | None) -> str:
    """`1.23 s`, `4.56 ms` or `7.89 µs`."""
    if seconds is None:
        return NOTHING
    unit, name = _unit_of(seconds)
    return f"{_digits(seconds / unit)} {name}"


def seconds_with_interval(seconds: float | None, low: float | None, high: float | None) -> str:
    """`1.23 [1.1, 1.4] s`."""
    if seconds is None or low is None or high is None:
        return seconds_text(seconds)
    unit, name = _unit_of(seconds)
    return f"{_digits(seconds / unit)} [{_digits(low / unit)}, {_digits(high / unit)}] {name}"


def number_with_interval(number: float | None, low: float | None, high: float | None) -> str:
    """`1.23 [1.1, 1.4]`."""
    if low is None or high is None:
        return number_text(number)
    return f"{number_text(number)} [{number_text(low)}, {number_text(high)}]"


def number_text(number: float | None) -> str:
    """Three digits of a fraction, all digits of what is large."""
    if number is None:
        return NOTHING
    return f"{number:,}" if isinstance(number, int) else _digits(number)


def share_text(share: float | None) -> str:
    """`12.3 %`."""
    return NOTHING if share is None else f"{100 * share:.3g} %"


class TableOfMeasure(NamedTuple):
    """How a measure is shown."""

    title: str
    note: str
    measure: str
    """Its name in the document."""
    columns: Mapping[str, Cell]
    """Heading -> what stands under it, after the keys."""
    chosen: Callable[[Row], bool] = lambda _row: True

    def rows_of(self, document: Mapping[str, Any]) -> list[Row]:
        """Those rows of the measure that belong here."""
        return [row for row in document[self.measure] if self.chosen(row)]


def show_measures(document: Mapping[str, Any], page: Path | None) -> None:
    """Print every table that has something in it."""
    console = make_console()
    console.print(Text.assemble((str(document["trace"]), "bold"), f": {summary_line(document)}"))
    empty = []
    for table in TABLES:
        rows = table.rows_of(document)
        if rows:
            _show_table(console, table, rows)
        else:
            empty.append(table.title)
    if empty:
        console.print(Text(f"\nnone: {', '.join(empty)}", "dim"))
    negative = sum(row["negative"] for row in document["latency"])
    if negative:
        console.print(Text(f"\nnote: {negative:,} latencies are negative: the clocks of the sites disagree", "yellow"))
    if page is not None:
        console.print(Text(f"\nreport written to {page}", "dim"))


def summary_line(document: Mapping[str, Any]) -> str:
    """What was measured, and how."""
    runs = "1 run" if document["runs"] == 1 else f"{document['runs']:,} runs"
    return (
        f"{runs}, {document['events']:,} events; in brackets {document['confidence']:.0%} confidence intervals; "
        f"quantiles are {document['quantiles']}"
    )


def key_cells(row: Row) -> dict[str, Cell]:
    """The columns that tell what a row is about."""
    return {name: cell for name, (column, cell) in _KEYS.items() if column in row}


def _show_table(console: Console, table: TableOfMeasure, rows: Sequence[Row]) -> None:
    keys = key_cells(rows[0])
    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in keys:
        shown.add_column(name, no_wrap=True)
    for name in table.columns:
        shown.add_column(name, no_wrap=True, justify="left" if name in _NAMES else "right")
    for row in rows[:LINES_MAX]:
        shown.add_row(*(Text(cell(row)) for cell in (*keys.values(), *table.columns.values())))
    console.print(Text.assemble("\n", (table.title, "bold"), (f"  {table.note}", "dim")))
    console.print(shown)
    if len(rows) > LINES_MAX:
        console.print(Text(f"… and {len(rows) - LINES_MAX:,} lines more; --json has them all", "dim"))


def _count(name: str) -> Cell:
    return lambda row: number_text(row[name])


def _time(name: str) -> Cell:
    return lambda row: seconds_text(row[name])


def _share(name: str) -> Cell:
    return lambda row: share_text(row[name])


def _name(name: str) -> Cell:
    return lambda row: str(row[name])


def _with_interval(name: str, text: Callable[[float | None, float | None, float | None], str]) -> Cell:
    return lambda row: text(row[name], row[f"{name}_low"], row[f"{name}_high"])


def _unit_of(seconds: float) -> tuple[float, str]:
    return (1.0, "s") if abs(seconds) >= 1 else (1e-3, "ms") if abs(seconds) >= 1e-3 else (1e-6, "µs")


def _digits(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


_KEYS: dict[str, tuple[str, Cell]] = {
    "protocol": ("protocol", lambda row: row["protocol"] or NOTHING),
    "run": ("run", lambda row: row["run"]),
    "seconds": ("from", lambda row: f"{row['from']:g} to {row['to']:g}"),
}
"""Heading -> the column by which it is known to be there, and what stands under it."""
_NAMES = ("to", "packet", "site", "reason")

TABLES: tuple[TableOfMeasure, ...] = (
    TableOfMeasure(
        "latency",
        "from multicast to the first delivery, at each destination and until all have it",
        "latency",
        {
            "to": _name("at"),
            "number": _count("count"),
            "mean": _with_interval("mean", seconds_with_interval),
            "median": _with_interval("p50", seconds_with_interval),
            "99 %": _with_interval("p99", seconds_with_interval),
            "max": _time("max"),
        },
    ),
    TableOfMeasure(
        "throughput",
        "application messages a second, while the run was busy",
        "throughput",
        {
            "busy": _time("seconds"),
            "messages": _count("messages"),
            "a second": _with_interval("messages_per_second", number_with_interval),
            "delivered everywhere": _with_interval("completed_per_second", number_with_interval),
            "deliveries": _with_interval("deliveries_per_second", number_with_interval),
        },
    ),
    TableOfMeasure(
        "packets",
        "that serve messages, per multicast",
        "packets",
        {
            "packet": _name("packet"),
            "packets": _count("packets"),
            "per multicast": _with_interval("packets_per_multicast", number_with_interval),
            "bytes per multicast": _with_interval("bytes_per_multicast", number_with_interval),
        },
        lambda row: not row["background"],
    ),
    TableOfMeasure(
        "background packets",
        "that serve no message in particular",
        "packets",
        {"packet": _name("packet"), "packets": _count("packets"), "bytes": _count("bytes")},
        lambda row: bool(row["background"]),
    ),
    TableOfMeasure(
        "load",
        "packets sent and received",
        "load",
        {
            "site": _name("site"),
            "sends": _count("sends"),
            "receives": _count("receives"),
            "load": _count("load"),
            "per multicast": _count("load_per_multicast"),
        },
    ),
    TableOfMeasure(
        "retransmissions",
        "packets that carry a message again",
        "retransmissions",
        {
            "packet": _name("packet"),
            "packets": _count("packets"),
            "of all": _share("share"),
            "messages repeated": _count("repeated_messages"),
        },
    ),
    TableOfMeasure(
        "drops",
        "packets that did not make it",
        "drops",
        {"reason": _name("reason"), "packets": _count("packets"), "of all": _share("share")},
    ),
    TableOfMeasure(
        "views",
        "and the time from the first site that installs one to the last",
        "views",
        {
            "views": _count("views"),
            "installations": _count("installations"),
            "changes": _count("changes"),
            "mean time": _time("spread_mean"),
            "longest": _time("spread_max"),
        },
    ),
)
