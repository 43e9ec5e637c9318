"""What the driver does: spread the runs, see to those that are too large for a worker, and gather the verdicts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check import CLAIMED, Choice, Verdict
from ordercast.check.choice import check_claims
from ordercast.spark.tables import compact, read_events
from ordercast.spark.tasks import described, plain_errors, spread
from ordercast.trace.pieces import Trace
from ordercast.trace.schema import Run
from ordercast.verify import plan
from ordercast.verify.files import FINDINGS, as_rows, judge_files
from ordercast.verify.place import verdicts_of
from ordercast.verify.plan import Assignment, Task, assign, cut, rows_read_again

LARGE_ROWS = 20_000_000
"""Judging the order of 10^7 deliveries takes a worker 1.7 GiB; twice that still fits a small machine."""


@dataclass
class Verification:
    """The findings about all runs of a trace. They stay with the workers until asked for."""

    findings: DataFrame
    """run, property, claimed, verdict, witnesses, number, sites, messages, why: a row a witness (see `files.py`)."""
    runs: Mapping[str, Run]
    choice: Choice
    notes: list[str] = field(default_factory=list)

    @property
    def verdicts(self) -> DataFrame:
        """run, property, claimed, verdict, witnesses, and the first witness: sites, messages, why."""
        return self.findings.where(F.col("number") == 0).drop("number")

    @property
    def witnesses(self) -> DataFrame:
        """run, property, sites, messages, why."""
        found = self.findings.where(F.col("verdict") == "violated")
        return found.select("run", "property", "sites", "messages", "why")

    def collect(self) -> dict[str, dict[str, Verdict]]:
        """Run -> property -> verdict with its first witness only; what was not asked for is `not-judged`."""
        what = f"{len(self.runs):,} runs, judged file by file"
        with plain_errors(), described(self.findings.sparkSession, what):
            rows = self.verdicts.toArrow().to_pylist()
        return verdicts_of(rows, self.runs, self.choice)


@contextmanager
def verify(
    spark: SparkSession,
    trace: Trace,
    choice: Choice = CLAIMED,
    large_rows: int = LARGE_ROWS,
) -> Iterator[Verification]:
    """Judge every run: what it claims, unless the choice is another. The findings live as long as the block."""
    check_claims(trace.runs.values())
    with tempfile.TemporaryDirectory(prefix="ordercast-verify-") as temporary:
        assignments = assign(trace.runs, trace.pieces_of_runs())
        large = [each for each in assignments if each.rows > large_rows]
        small = [each for each in assignments if each.rows <= large_rows]
        tasks = _tasks(spark, trace, small, Path(temporary))
        payload = [msgspec.msgpack.encode(Task(task, choice)) for task in tasks]
        findings = spread(spark, payload, judge_files, FINDINGS)
        notes: list[str] = []
        for each in large:
            rows, note = _judge_large(spark, trace, each, choice)
            notes.extend(note)
            findings = findings.unionByName(spark.createDataFrame(pa.Table.from_pylist(rows, schema=FINDINGS)))
        findings = findings.persist()
        try:
            yield Verification(findings, trace.runs, choice, notes)
        finally:
            findings.unpersist()


def _tasks(
    spark: SparkSession, trace: Trace, assignments: Sequence[Assignment], temporary: Path
) -> list[list[Assignment]]:
    """The runs cut into tasks; a trace whose runs are scattered over its files is sorted first."""
    cores = spark.sparkContext.defaultParallelism
    tasks = cut(assignments, cores)
    rows_of_file = dict.fromkeys(trace.files, 0)
    for piece in trace.pieces:
        rows_of_file[piece.file] += piece.rows
    if rows_read_again(tasks, rows_of_file) <= plan.REREAD_ROWS_MAX:
        return tasks
    sorted_trace = compact(spark, trace, temporary / "trace")
    wanted = {each.run.run for each in assignments}
    found = {run: pieces for run, pieces in sorted_trace.pieces_of_runs().items() if run in wanted}
    return cut(assign(trace.runs, found), cores)


def _judge_large(
    spark: SparkSession, trace: Trace, each: Assignment, choice: Choice
) -> tuple[list[dict[str, object]], list[str]]:
    # Imported here: few traces need it.
    from ordercast.spark.sound import refuse_unsound
    from ordercast.spark.verify.large import CAUSAL, LARGE_PROPERTIES, judge_large

    run = each.run
    asked = choice.judged(run)
    possible = [name for name in asked if name in LARGE_PROPERTIES]
    events = read_events(spark, trace, [run.run])
    with plain_errors():
        refuse_unsound(trace, events)
        verdicts = judge_large(spark, events, run, possible)
    left = [name for name in asked if name not in LARGE_PROPERTIES]
    verdicts = {**verdicts, **{name: Verdict(name, name in run.guarantees, "not-judged") for name in left}}
    rows = [row for verdict in verdicts.values() for row in as_rows(run.run, verdict, choice)]
    # These are judged of any run that is small enough, or has order keys.
    left += [name for name in possible if name in CAUSAL and verdicts[name].verdict == "not-judged"]
    if not left:
        return rows, []
    return rows, [f"run {run.run!r} has {each.rows:,} events, too many for one worker; not judged: {', '.join(left)}"]
