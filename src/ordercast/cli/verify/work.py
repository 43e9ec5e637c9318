"""The work of `ordercast verify`, which other commands do with their own traces: a session with a bar, and a report."""

from __future__ import annotations

from ordercast.check import CLAIMED, Choice
from ordercast.cli.spark_session import command_session
from ordercast.cli.verify.summary import EXAMPLES_MAX, EXAMPLES_SHOWN
from ordercast.spark.verify import LARGE_ROWS
from ordercast.spark.verify.folder import Verified, session_settings, verify_folder


def verify_and_report(
    trace: str,
    choice: Choice = CLAIMED,
    *,
    master: str | None = None,
    quarantine: str | None = None,
    report: str | None = None,
    large_rows: int = LARGE_ROWS,
    show_progress: bool = True,
    examples: bool = True,
    speed: bool = False,
) -> tuple[Verified, str | None]:
    """Verify a trace on Spark; what came of it, and where the report is. `examples` asks for the counterexamples that
    a terminal shows, a report takes more of them."""
    page = None
    if report is not None:
        # First of all: neither a missing matplotlib nor a folder that cannot be written should cost a verification.
        from ordercast.cli.verify.report import VerifyPage

        page = VerifyPage(report, trace)
    # What is no trace is refused before Java is started, for that takes seconds.
    with command_session("verify", master, show_progress, session_settings(trace)) as spark:
        verified = verify_folder(
            spark,
            trace,
            choice,
            quarantine=quarantine,
            large_rows=large_rows,
            examples=EXAMPLES_MAX if page is not None else EXAMPLES_SHOWN if examples else 0,
            curves=page is not None,
            speed=speed,
        )
    if page is None:
        return verified, None
    page.write(verified)
    return verified, str(page.file)
