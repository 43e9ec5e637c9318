"""The page of `ordercast measure --report`: plots and tables in one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ordercast.cli.measure.plots import plot_latency, plot_load, plot_packets, plot_throughput
from ordercast.cli.measure.tables import TABLES, key_cells, summary_line
from ordercast.cli.report import Page
from ordercast.measure import Grouping, Measured, Measures

WINDOWS_DRAWN = 100
"""Points of the curve over time, unless --window says otherwise."""
LINES_MAX = 1000
"""Of a table on the page; --json has all."""


class Report:
    """A page in the making: it takes what the plots need while the trace is open, and is written afterwards."""

    def __init__(self, folder: str, trace: str) -> None:
        self._page = Page(folder, f"Measures of {trace}")
        self._plots: dict[str, str] = {}

    @property
    def file(self) -> Path:
        """Where the page is written."""
        return self._page.file

    def take(self, measures: Measures, grouping: Grouping, measured: Measured) -> None:
        """Measure what the plots show, which is by protocol, whatever the tables are by."""
        by_protocol = Grouping("protocol")
        same = grouping == by_protocol
        over_time = Grouping("protocol", grouping.window_seconds or _window_seconds(measures))
        load = measured.rows["load"] if same else measures.load(by_protocol)
        packets = measured.rows["packets"] if same else measures.packets(by_protocol)
        self._plots = {
            "Latency": plot_latency(measures.curves(by_protocol)),
            "Throughput over time": plot_throughput(measures.throughput(over_time)),
            "Packets by type": plot_packets(packets),
            "Load of the sites": plot_load(load),
        }

    def write(self, document: Mapping[str, Any]) -> None:
        """Write the page."""
        page = self._page
        page.text(summary_line(document), "note")
        for name, picture in self._plots.items():
            page.heading(name)
            page.picture(picture)
        for table in TABLES:
            rows = table.rows_of(document)
            page.heading(table.title)
            page.text(table.note if rows else "none", "note")
            if rows:
                cells = {**key_cells(rows[0]), **table.columns}
                page.table(list(cells), [[cell(row) for cell in cells.values()] for row in rows[:LINES_MAX]])
            if len(rows) > LINES_MAX:
                page.text(f"and {len(rows) - LINES_MAX:,} lines more", "note")
        page.write()


def _window_seconds(measures: Measures) -> float:
    """So long that there are about WINDOWS_DRAWN of them, in seconds that people count in."""
    longest = max((last - first for first, last in measures.times.values()), default=0.0)
    least = longest / WINDOWS_DRAWN
    steps = [digit * 10.0**power for power in range(-6, 9) for digit in (1, 2, 5)]
    return next((step for step in steps if step >= least), steps[-1])
