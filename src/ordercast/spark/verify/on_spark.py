"""Verification on Spark's workers: for traces that would take one process long, and for runs that it cannot hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from ordercast.check import Choice
from ordercast.spark.session import BRIEF
from ordercast.spark.tasks import gather
from ordercast.spark.verify.verification import LARGE_ROWS, verify
from ordercast.trace.pieces import Trace, Work, trace_bytes
from ordercast.trace.read import read_runs
from ordercast.verify import Judged

BRIEF_BYTES = 200_000_000
"""A run up to this size (10^7 events) is judged by a worker; Java only hands it out."""


@dataclass(frozen=True)
class OnSpark:
    """The workers of a session. Runs with more rows than `large_rows` are judged by several of them."""

    spark: SparkSession
    large_rows: int = LARGE_ROWS

    def gather(self, pieces: Sequence[bytes], work: Work, schema: pa.Schema) -> pa.Table:
        """Each piece is a task."""
        return gather(self.spark, pieces, work, schema)

    def judge(self, trace: Trace, choice: Choice) -> Judged:
        """The runs are spread over the workers; what comes back is verdicts."""
        with verify(self.spark, trace, choice, self.large_rows) as verification:
            return Judged(verification.collect(), verification.notes)


def session_settings(folder: str) -> Mapping[str, str] | None:
    """Those of a brief session, unless runs are so large that Spark's SQL may have to judge them."""
    runs = read_runs(folder)
    return BRIEF if trace_bytes(folder) <= BRIEF_BYTES * len(runs) else None
