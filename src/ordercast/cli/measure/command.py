"""`ordercast measure`: latency, throughput, packets, load, retransmissions, drops and views of a trace."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordercast.cli.measure.tables import show_measures
from ordercast.cli.verify.work import wants_spark
from ordercast.core import UsageError
from ordercast.measure import Grouping, Measured, Measures, measure_here
from ordercast.measure.intervals import CONFIDENCE
from ordercast.trace.pieces import trace_bytes
from ordercast.trace.read import read_runs

if TYPE_CHECKING:
    from ordercast.cli.measure.report import Report


BRIEF_BYTES = 50_000_000
"""Traces up to this size (some 10^6 events) are measured in less time than Java needs to become fast."""


class By(StrEnum):
    """What a line of the results is about."""

    protocol = "protocol"
    run = "run"
    window = "window"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("measure")(measure)


def measure(
    trace: Annotated[str, typer.Argument(help="A trace folder, or a folder of them.")],
    by: Annotated[By, typer.Option(help="One line for each of these.")] = By.protocol,
    window: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Cut time into windows of this length; a line for each.")
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="On Spark even where this process would be done sooner.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="On this Spark master; else ORDERCAST_MASTER, else this machine."),
    ] = None,
    report: Annotated[str | None, typer.Option(metavar="DIR", help="Write a page with plots to this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Measure a trace, simulated or live: what messages cost, how long they take, and how sure one can be of it.

    Some million events are measured in this process; larger traces, and those for which a master is named, on Spark.

    Example: ordercast measure trace --window 1 --report page
    """
    grouping = choose_grouping(by, window)
    # Spark takes seconds to start: a folder that is not there is complained about before.
    read_runs(trace)
    page = None if report is None else _open_report(report, trace)
    also = None if page is None else page.take
    if spark or wants_spark(trace, master):
        measured = _measure_on_spark(trace, master, grouping, also, not as_json)
    else:
        measured = measure_here(trace, grouping, also)
    document: dict[str, Any] = {
        "trace": trace,
        "by": by.value,
        "window_seconds": window,
        "runs": measured.runs,
        "events": measured.events,
        "confidence": CONFIDENCE,
        "quantiles": "exact" if measured.exact else "approximate",
        **measured.rows,
    }
    if page is not None:
        page.write(document)
    if as_json:
        print(json.dumps(document, indent=2))
    else:
        show_measures(document, None if page is None else page.file)
    return 0


def _measure_on_spark(
    trace: str,
    master: str | None,
    grouping: Grouping,
    also: Callable[[Measures, Grouping, Measured], None] | None,
    show_progress: bool,
) -> Measured:
    # Imported here: small traces need no Spark, and their users may not have it.
    from ordercast.cli.spark_session import command_session
    from ordercast.spark.measure.folder import measure_folder
    from ordercast.spark.session import BRIEF

    settings = BRIEF if trace_bytes(trace) <= BRIEF_BYTES else None
    with command_session("measure", master, show_progress, settings) as session:
        return measure_folder(session, trace, grouping, also)


def choose_grouping(by: By, window: float | None) -> Grouping:
    """What the options ask for: `--window` cuts the lines of `--by`, and by window means by protocol and window."""
    if window is None:
        if by is By.window:
            raise UsageError("--by window needs --window SECONDS: how long is a window?")
    elif not (math.isfinite(window) and window > 0):
        raise UsageError(f"--window: a window is longer than 0 seconds, not {window:g}")
    return Grouping("run" if by is By.run else "protocol", window)


def _open_report(folder: str, trace: str) -> Report:
    # Needs matplotlib, which nothing else here does.
    from ordercast.cli.measure.report import Report

    return Report(folder, trace)
