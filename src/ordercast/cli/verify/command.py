"""`ordercast verify`: check a trace for every property that it claims, on Spark."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.text import Text

from ordercast.check import Verdict
from ordercast.cli.spark_session import command_session
from ordercast.cli.terminal import make_console
from ordercast.cli.verify.summary import (
    EXAMPLES_MAX,
    EXAMPLES_SHOWN,
    Counterexample,
    Summary,
    choose_counterexamples,
    show,
    summarize,
)
from ordercast.spark.measure.folder import measure_speed
from ordercast.spark.quarantine import ROWS_NAME, sift
from ordercast.spark.session import BRIEF
from ordercast.spark.tables import Trace, open_trace, trace_bytes
from ordercast.spark.verify import LARGE_ROWS, verify
from ordercast.spark.verify.extract import delivery_curves, events_about
from ordercast.trace.read import read_runs

BRIEF_BYTES = 200_000_000
"""A run up to this size (10^7 events) is judged by a worker; Java only hands it out."""


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
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master; else ORDERCAST_MASTER, else this machine.")
    ] = None,
    quarantine: Annotated[
        str | None, typer.Option(metavar="DIR", help="Set rows that do not fit aside in this new folder, and go on.")
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write a page with pictures to this folder.")
    ] = None,
    large_rows: Annotated[
        int, typer.Option(min=1, metavar="N", help="Runs with more events are judged by several workers.")
    ] = LARGE_ROWS,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Check a trace, simulated or live, for what it claims, and draw the first counterexample.

    Exit code 1 when a claimed property is violated.

    Example: ordercast verify crash-7 --report page
    """
    names = list(dict.fromkeys(properties)) if properties else None
    verified = verify_folder(
        trace,
        names,
        everything,
        master,
        quarantine,
        report,
        large_rows,
        show_progress=not as_json,
        examples=not as_json,
    )
    summary = verified.summary
    if as_json:
        print(json.dumps(_document(verified.verdicts, summary), indent=2))
        complaints = Console(stderr=True, highlight=False, soft_wrap=True)
        for note in summary.notes:
            complaints.print(Text(f"note: {note}"))
    else:
        show(make_console(), summary, verified.examples, verified.page)
    sys.stdout.flush()
    return 1 if summary.violated_claims else 0


@dataclass
class Verified:
    """What came of a verification."""

    summary: Summary
    verdicts: dict[str, dict[str, Verdict]]
    examples: list[Counterexample]
    page: str | None
    """The report, where one was asked for."""
    measured: dict[str, Any]
    """Latency and throughput, where they were asked for."""


def verify_folder(
    trace: str,
    names: list[str] | None = None,
    everything: bool = False,
    master: str | None = None,
    quarantine: str | None = None,
    report: str | None = None,
    large_rows: int = LARGE_ROWS,
    show_progress: bool = True,
    examples: bool = True,
    measure_too: bool = False,
) -> Verified:
    """Verify a trace on Spark; `examples` asks for the first counterexample, a report for several, `measure_too` for
    latency and throughput."""
    page = None
    if report is not None:
        # First of all: neither a missing matplotlib nor a folder that cannot be written should cost a verification.
        from ordercast.cli.verify.report import VerifyPage

        page = VerifyPage(report, trace)
    with (
        # What is no trace is refused before Java is started, for that takes seconds.
        command_session("verify", master, show_progress, session_settings(trace)) as spark,
        _opened(spark, trace, quarantine) as (opened, notes),
        verify(spark, opened, names, everything, large_rows) as verification,
    ):
        verdicts = verification.collect()
        summary = summarize(opened, verdicts, everything or names is not None, [*notes, *verification.notes])
        wanted = EXAMPLES_MAX if page is not None else EXAMPLES_SHOWN if examples else 0
        found = _examples(spark, opened, summary, names is not None, wanted)
        if page is not None:
            page.add(summary, verdicts, found, _curves(spark, opened, summary))
        measured = measure_speed(spark, opened) if measure_too else {}
    if page is not None:
        page.write()
    return Verified(summary, verdicts, found, None if page is None else str(page.file), measured)


def session_settings(trace: str) -> Mapping[str, str] | None:
    """Those of a brief session, unless runs are so large that Spark's SQL may have to judge them."""
    runs = read_runs(trace)
    return BRIEF if trace_bytes(trace) <= BRIEF_BYTES * len(runs) else None


@contextlib.contextmanager
def _opened(spark: SparkSession, folder: str, quarantine: str | None) -> Iterator[tuple[Trace, list[str]]]:
    if quarantine is None:
        yield open_trace(spark, folder), []
        return
    with sift(spark, folder, quarantine) as sifted:
        notes = []
        if sifted.rows or sifted.files:
            files = f" and {sifted.files} whole files" if sifted.files else ""
            notes.append(
                f"{sifted.rows} rows{files} set aside in {Path(quarantine) / ROWS_NAME}; verdicts are without them"
            )
        yield sifted.trace, notes


def _examples(
    spark: SparkSession, trace: Trace, summary: Summary, unclaimed_too: bool, most: int
) -> list[Counterexample]:
    return [
        Counterexample(run, verdict, events_about(spark, trace, run, verdict.first.messages))
        for run, verdict in choose_counterexamples(summary, unclaimed_too, most)
        if verdict.first is not None
    ]


def _curves(spark: SparkSession, trace: Trace, summary: Summary) -> tuple[str, Any]:
    """Of the first run with a counterexample, or else of the first run."""
    run = next((run for run, _ in choose_counterexamples(summary, True, 1)), min(trace.runs))
    return run, delivery_curves(spark, trace, run)


def _document(verdicts: dict[str, dict[str, Verdict]], summary: Summary) -> dict[str, Any]:
    return {
        "runs": {
            run: {name: verdict.as_json() for name, verdict in of_run.items()} for run, of_run in verdicts.items()
        },
        "violated_claims": summary.violated_claims,
    }
