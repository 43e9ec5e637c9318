"""A trace folder in; its verdicts, counterexamples and whatever else a report shows out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from ordercast.check import CLAIMED, Choice, Verdict, Witness
from ordercast.spark.measure.folder import measure_speed
from ordercast.spark.measure.tables import Rows
from ordercast.spark.quarantine import ROWS_NAME, sift
from ordercast.spark.session import BRIEF
from ordercast.spark.tables import Trace, open_trace, trace_bytes
from ordercast.spark.verify.extract import delivery_curves, events_about
from ordercast.spark.verify.summary import Summary, choose_counterexamples, summarize
from ordercast.spark.verify.verification import LARGE_ROWS, verify
from ordercast.trace.read import read_runs

BRIEF_BYTES = 200_000_000
"""A run up to this size (10^7 events) is judged by a worker; Java only hands it out."""


@dataclass
class Counterexample:
    """A violated property, its first witness, and the rows about the messages that the witness names."""

    run: str
    property: str
    witness: Witness
    events: pa.Table


@dataclass
class Curves:
    """How the deliveries of one run went over time."""

    run: str
    table: pa.Table


@dataclass
class Verified:
    """What came of a verification."""

    summary: Summary
    verdicts: dict[str, dict[str, Verdict]]
    examples: list[Counterexample]
    curves: Curves | None
    """Where they were asked for."""
    speed: dict[str, Rows]
    """Latency and throughput, where they were asked for."""


def verify_folder(
    spark: SparkSession,
    folder: str,
    choice: Choice = CLAIMED,
    *,
    quarantine: str | None = None,
    large_rows: int = LARGE_ROWS,
    examples: int = 0,
    curves: bool = False,
    speed: bool = False,
) -> Verified:
    """Verify a trace, with so many counterexamples at the most. Those of properties that a run does not claim are
    taken only where somebody named them."""
    with (
        _opened(spark, folder, quarantine) as (trace, notes),
        verify(spark, trace, choice, large_rows) as verification,
    ):
        verdicts = verification.collect()
        summary = summarize(trace, verdicts, choice.unclaimed_too, [*notes, *verification.notes])
        return Verified(
            summary,
            verdicts,
            _examples(spark, trace, summary, choice.named is not None, examples),
            _curves(spark, trace, summary) if curves else None,
            measure_speed(spark, trace) if speed else {},
        )


def session_settings(folder: str) -> Mapping[str, str] | None:
    """Those of a brief session, unless runs are so large that Spark's SQL may have to judge them."""
    runs = read_runs(folder)
    return BRIEF if trace_bytes(folder) <= BRIEF_BYTES * len(runs) else None


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
        Counterexample(run, verdict.property, witness, events_about(spark, trace, run, witness.messages))
        for run, verdict, witness in choose_counterexamples(summary, unclaimed_too, most)
    ]


def _curves(spark: SparkSession, trace: Trace, summary: Summary) -> Curves:
    """Of the first run with a counterexample, or else of the first run."""
    run = next((run for run, _, _ in choose_counterexamples(summary, True, 1)), min(trace.runs))
    return Curves(run, delivery_curves(spark, trace, run))
