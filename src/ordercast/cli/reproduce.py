"""`ordercast reproduce`: tables and graphs of the papers, made again on Spark, next to what the papers say."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ordercast.cli.progress import late_bar
from ordercast.cli.terminal import make_console
from ordercast.core import UsageError
from ordercast.papers.registry import ARTEFACTS, find_artefact

_COLOURS = {"agrees": "green", "differs": "yellow", "no-claim": "dim"}


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("reproduce")(reproduce)


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Artefacts; see --list.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="List the artefacts.")] = False,
    fast: Annotated[bool, typer.Option("--fast", help="A part of each, within a minute.")] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master: local[N], spark://HOST:PORT, …")
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where NAME/ is written.")] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Make a table or graph of a paper again: data, figure, and the paper's claims held against the data.

    An interrupted one goes on where it was. Exit code 1 when a claim of a paper does not hold in the data.

    Example: ordercast reproduce spauster-classic-delay --fast
    """
    if list_all:
        return _list(as_json)
    if every == bool(names):
        raise UsageError("name artefacts, or --all of them; `ordercast reproduce --list` lists them")
    chosen = list(dict.fromkeys(ARTEFACTS if every else names or ()))
    for name in chosen:
        if name not in ARTEFACTS:
            find_artefact(name)  # says what is wrong with it
    documents = _make(chosen, master, results, fast, as_json)
    if as_json:
        print(json.dumps({"artefacts": documents}, indent=2, ensure_ascii=False))
    return 1 if any(document["verdict"] == "differs" for document in documents) else 0


def _list(as_json: bool) -> int:
    if as_json:
        listed = [{"name": name, "what": what} for name, (_, what) in ARTEFACTS.items()]
        print(json.dumps({"artefacts": listed}, indent=2, ensure_ascii=False))
        return 0
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("artefact", "what it is"):
        table.add_column(heading, no_wrap=heading == "artefact")
    for name, (_, what) in ARTEFACTS.items():
        table.add_row(Text(name, "bold"), Text(what))
    make_console().print(table)
    return 0


def _make(names: list[str], master: str | None, results: Path, fast: bool, quiet: bool) -> list[dict[str, Any]]:
    from ordercast.papers.reproduce import reproduce
    from ordercast.spark.session import LITTLE, open_session

    documents = []
    with open_session("reproduce", master, LITTLE) as spark:
        for name in names:
            began = time.monotonic()
            with late_bar(name) as on_progress:
                document = reproduce(find_artefact(name), spark, results, fast=fast, on_progress=_calm(on_progress))
            document = {**document, "folder": str(results / name), "seconds": round(time.monotonic() - began, 1)}
            documents.append(document)
            if not quiet:
                _show(document)
    return documents


def _calm(on_progress: Callable[[int, int], None]) -> Callable[[int, int], None]:
    """The total grows while an experiment learns how many repetitions it needs; the bar never runs backwards."""
    return lambda done, total: on_progress(done, max(total, 1))


def _show(document: dict[str, Any]) -> None:
    console = make_console()
    console.print(
        Text.assemble(
            (document["artefact"], "bold"),
            f" ({document['paper']}): ",
            (document["verdict"], _COLOURS[document["verdict"]]),
            (f"   {document['runs']:,} runs in {document['seconds']:.1f} s, written to {document['folder']}", "dim"),
        )
    )
    for check in document["checks"]:
        mark = Text("  holds   ", "green") if check["holds"] else Text("  differs ", "yellow")
        console.print(Text.assemble(mark, check["claim"]), soft_wrap=True)
        console.print(Text(f"          {check['evidence']}", "dim"), soft_wrap=True)
