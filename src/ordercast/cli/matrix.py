"""`ordercast protocols --matrix`: Table 2.1 of Spauster 1991, found by campaign."""

from __future__ import annotations

import json
import time
from pathlib import Path

from rich.table import Table
from rich.text import Text

from ordercast.campaign.matrix import MEANINGS, NETWORKS, ORDERS, RUNS, Cell, Row, as_json, find_matrix
from ordercast.cli.progress import late_bar
from ordercast.cli.terminal import make_console

_HEADINGS = {
    "single-source-order": "single source",
    "multiple-source-order": "multiple source",
    "multiple-group-order": "multiple group",
}
_COLOURS = {"held": "green", "violated": "red", "vacuous": "yellow"}


def show_matrix(json_wanted: bool, write: Path | None = None, runs: int = RUNS) -> int:
    """Find the matrix and show it; the exit code is 1 when a protocol does not keep an order that it claims."""
    began = time.monotonic()
    with late_bar("matrix") as on_progress:
        rows = find_matrix(runs, on_progress=on_progress)
    if write is not None:
        write.write_text(markdown(rows, runs), encoding="utf-8")
    if json_wanted:
        print(json.dumps(as_json(rows, runs, time.monotonic() - began), indent=2, ensure_ascii=False))
    else:
        _show(rows, runs)
    return 1 if any(row.broken_claims() for row in rows) else 0


def _show(rows: list[Row], runs: int) -> None:
    console = make_console()
    table = Table(header_style="dim", show_lines=True)
    for heading in ("algorithm", "network", *_HEADINGS.values()):
        table.add_column(heading)
    for row in rows:
        name = Text.assemble((row.algorithm.name, "bold"), f"\n{row.algorithm.protocol or 'quoted'}")
        for place, network in enumerate(NETWORKS):
            sign = row.algorithm.networks[place] or "blank"
            cells = [
                _cell_text(row.cells.get(network, {}).get(order), row.algorithm.orders[column])
                for column, order in enumerate(ORDERS)
            ]
            table.add_row(name if place == 0 else "", Text.assemble(network, (f"\nthesis: {sign}", "dim")), *cells)
    console.print(table)
    for sign, meaning in MEANINGS.items():
        console.print(Text(f"{sign or 'blank'}: {meaning}", "dim"))
    console.print(Text(f"{runs} runs for each algorithm and network, with faults and several sources", "dim"))
    for row in rows:
        for network, order, cell in row.violations():
            console.print()
            console.print(f"{row.algorithm.name}, {network}, {_HEADINGS[order]}: {cell.why}")
            console.print(Text(f"  {cell.replay}", "bold"))


def _cell_text(cell: Cell | None, sign: str) -> Text:
    thesis = f"thesis: {sign or 'blank'}"
    if cell is None:
        return Text(thesis, "dim")
    return Text.assemble((cell_words(cell), _COLOURS[cell.verdict]), (f"\n{thesis}", "dim"))


def cell_words(cell: Cell) -> str:
    """What was found, in a few words."""
    if cell.violated:
        return f"violated in {cell.violated} of {cell.violated + cell.held} runs"
    return f"held in {cell.held} runs" if cell.held else "no run could tell"


# ---------------------------------------------------------------------- the document
def markdown(rows: list[Row], runs: int) -> str:
    """The page docs/matrix.md."""
    lines = [
        "# Which algorithm keeps which order",
        "",
        "Table 2.1 of Spauster (1991) lists what known algorithms provide, and for which networks they are intended.",
        "This page puts beside it what campaigns found: each algorithm ran under the faults that its contract names,",
        f"with several sources, {runs} runs for each network; the judges (docs/properties.md) say in how many runs an",
        "order was kept, of those in which it could have been violated. It is written by",
        "`ordercast protocols --matrix --write docs/matrix.md`.",
        "",
        "Signs of the thesis:",
        "",
        *(f"- {sign or 'blank'}: {text}" for sign, text in MEANINGS.items()),
        "",
        "| algorithm | protocol | network (thesis) | " + " | ".join(_HEADINGS.values()) + " |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        for place, network in enumerate(NETWORKS):
            cells = []
            for column, order in enumerate(ORDERS):
                sign = row.algorithm.orders[column] or "blank"
                cell = row.cells.get(network, {}).get(order)
                cells.append(f"{'quoted' if cell is None else cell_words(cell)} (thesis: {sign})")
            protocol = f"`{row.algorithm.protocol}`" if row.algorithm.protocol else "quoted from the thesis"
            where = f"{network} ({row.algorithm.networks[place] or 'blank'})"
            lines.append(f"| {row.algorithm.name} | {protocol} | {where} | " + " | ".join(cells) + " |")
    lines += ["", *_explanations(), "", "## Counterexamples", ""]
    for row in rows:
        for network, order, cell in row.violations():
            lines.append(f"- {row.algorithm.name}, {network}, {_HEADINGS[order]}: {cell.why}. See it:")
            lines.append(f"  `{cell.replay}`")
    return "\n".join(lines) + "\n"


def _explanations() -> list[str]:
    return [
        "Sequence numbers order what one source sends to one group, and nothing else: two sources' messages arrive in",
        "different orders at different sites, as the counterexamples show. Where the thesis prints † (the original",
        "protocols know one group only), ours is the modified algorithm: one token, or one sequencer, for all groups.",
        "Publishing is the sequencer with sources that are in no group. ‡ speaks of cost, not of order, and so does",
        "the blank for token-passing on point-to-point networks: the order is kept there as well.",
    ]
