"""`ordercast verify`: check a trace for every property that it claims, in this process or on Spark."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from ordercast.check import choose
from ordercast.cli.terminal import make_console
from ordercast.cli.verify.summary import show
from ordercast.cli.verify.work import verify_and_report
from ordercast.verify.folder import Verified


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("verify")(verify_trace)


def verify_trace(
    trace: Annotated[
        str, typer.Argument(metavar="TRACE", help="A trace, a live cluster's folder of traces, or a folder of traces.")
    ],
    everything: Annotated[bool, typer.Option("--all", help="Check every property, not only the claimed ones.")] = False,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="P", help="Check this one, claimed or not; repeatable.")
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="On Spark even where this process would be done sooner.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="On this Spark master; else ORDERCAST_MASTER, else this machine."),
    ] = None,
    quarantine: Annotated[
        str | None, typer.Option(metavar="DIR", help="Set rows that do not fit aside in this new folder, and go on.")
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write a page with pictures to this folder.")
    ] = None,
    large_rows: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="On Spark; runs with more events (20 million) are judged by several workers."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Check a trace, simulated or live, for what it claims, and draw the first counterexample.

    Some million events are judged in this process; larger traces, and those for which a master is named, on Spark.
    Exit code 1 when a claimed property is violated.

    Example: ordercast verify crash-7 --report page
    """
    verified, page = verify_and_report(
        trace,
        choose(properties or None, everything),
        spark=spark,
        master=master,
        quarantine=quarantine,
        report=report,
        large_rows=large_rows,
        show_progress=not as_json,
        examples=not as_json,
    )
    summary = verified.summary
    if as_json:
        print(json.dumps(_document(verified), indent=2))
        complaints = Console(stderr=True, highlight=False, soft_wrap=True)
        for note in summary.notes:
            complaints.print(Text(f"note: {note}"))
    else:
        show(make_console(), summary, verified.examples, page)
    sys.stdout.flush()
    return 1 if summary.violated_claims else 0


def _document(verified: Verified) -> dict[str, Any]:
    return {
        "runs": {
            run: {name: verdict.as_json() for name, verdict in of_run.items()}
            for run, of_run in verified.verdicts.items()
        },
        "violated_claims": verified.summary.violated_claims,
    }
