"""The work of `ordercast verify`, which other commands do with their own traces: the place for it, and a report."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from ordercast.check import CLAIMED, Choice
from ordercast.cli.verify.summary import EXAMPLES_MAX, EXAMPLES_SHOWN
from ordercast.spark.master import MASTER_VARIABLE
from ordercast.trace.pieces import trace_bytes
from ordercast.trace.read import read_runs
from ordercast.verify import Here, Place, Verified, verify_folder

HERE_BYTES_MAX = 50_000_000
"""Some million events: this process has judged them before a session of Spark would be ready to hand them out."""


def verify_and_report(
    trace: str,
    choice: Choice = CLAIMED,
    *,
    spark: bool = False,
    master: str | None = None,
    quarantine: str | None = None,
    report: str | None = None,
    large_rows: int | None = None,
    show_progress: bool = True,
    examples: bool = True,
) -> tuple[Verified, str | None]:
    """Verify a trace; what came of it, and where the report is. `examples` asks for the counterexamples that a
    terminal shows, a report takes more of them."""
    page = None
    if report is not None:
        # First of all: neither a missing matplotlib nor a folder that cannot be written should cost a verification.
        from ordercast.cli.verify.report import VerifyPage

        page = VerifyPage(report, trace)
    # What is no trace is refused before Java is started, for that takes seconds.
    read_runs(trace)
    elsewhere = spark or large_rows is not None or wants_spark(trace, master)
    with _spark(trace, master, large_rows, show_progress) if elsewhere else contextlib.nullcontext(Here()) as place:
        verified = verify_folder(
            place,
            trace,
            choice,
            quarantine=quarantine,
            examples=EXAMPLES_MAX if page is not None else EXAMPLES_SHOWN if examples else 0,
            curves=page is not None,
        )
    if page is None:
        return verified, None
    page.write(verified)
    return verified, str(page.file)


def wants_spark(trace: str, master: str | None, bytes_max: int = HERE_BYTES_MAX) -> bool:
    """Whether somebody named a master, or the trace is so large that Spark's workers are done sooner."""
    return master is not None or bool(os.environ.get(MASTER_VARIABLE)) or trace_bytes(trace) > bytes_max


@contextlib.contextmanager
def _spark(trace: str, master: str | None, large_rows: int | None, show_progress: bool) -> Iterator[Place]:
    # Imported here: small traces need no Spark, and their users may not have it.
    from ordercast.cli.spark_session import command_session
    from ordercast.spark.verify import LARGE_ROWS, OnSpark, session_settings

    with command_session("verify", master, show_progress, session_settings(trace)) as session:
        yield OnSpark(session, LARGE_ROWS if large_rows is None else large_rows)
