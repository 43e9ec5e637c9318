"""Events in, DataFrames out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check import CLAIMED, choose, judge
from ordercast.check.choice import check_claims
from ordercast.core.errors import UsageError
from ordercast.measure import Grouping
from ordercast.measure.measures import COLUMNS
from ordercast.spark.measure.prepare import prepare
from ordercast.spark.measure.tables import SparkMeasures
from ordercast.spark.tables import open_trace, read_events
from ordercast.spark.tasks import described, plain_errors
from ordercast.spark.verify.large.packs import Find, ask_parts
from ordercast.trace.read import read_runs
from ordercast.trace.schema import EVENTS, Run
from ordercast.verify.files import FINDINGS, as_rows

TRACE: Final = "ordercast.trace"
"""Where a DataFrame remembers its trace: in the metadata of its column `run`, which outlive conditions."""


def read_trace(spark: SparkSession, path: str) -> DataFrame:
    """The events of a trace, in the columns of docs/trace.md."""
    _use_own_python(spark)
    with plain_errors(), described(spark, f"look through {path}"):
        trace = open_trace(spark, path)
    events = read_events(spark, trace)
    named = F.col("run").alias("run", metadata={TRACE: str(trace.folder.resolve())})
    return events.select(named, *(name for name in EVENTS.names if name != "run"))


def verify(events: DataFrame, properties: Sequence[str] = ()) -> DataFrame:
    """run, property, claimed, verdict, witnesses, number, sites, messages, why: a row a witness, or one for a property
    that has none. Of each run what it claims, unless properties are named. A run has to fit into the memory of a
    worker; `ordercast verify` judges larger ones."""
    runs = _runs_of(events)
    choice = choose(properties) if properties else CLAIMED
    check_claims(runs)
    missing = [name for name in EVENTS.names if name not in events.columns]
    if missing:
        raise UsageError(f"these events have no column {missing[0]!r}: verify what read_trace gives")
    numbers = F.create_map(*(each for number, run in enumerate(runs) for each in (F.lit(run.run), F.lit(number))))
    parts = events.select(numbers[F.col("run")].alias("part"), *EVENTS.names)

    def judge_run(part: int, rows: pa.Table) -> pa.Table:
        run = runs[part]
        verdicts = judge(run, rows, choice)
        found = [row for verdict in verdicts.values() for row in as_rows(run.run, verdict, choice)]
        return pa.Table.from_pylist(found, schema=FINDINGS)

    find: Find = judge_run
    return ask_parts(parts, find, FINDINGS)


def measure(events: DataFrame, by: str = "protocol") -> dict[str, DataFrame]:
    """Measure -> its table (docs/measure.md), for each protocol or for each run; those without rows are left out."""
    if by not in ("protocol", "run"):
        raise UsageError(f"by is 'protocol' or 'run', not {by!r}")
    runs = _runs_of(events)
    spark = events.sparkSession
    grouping = Grouping("run" if by == "run" else "protocol")
    with plain_errors(), described(spark, "measure"), prepare(events.select(*COLUMNS), runs) as prepared:
        rows, _ = SparkMeasures(prepared).everything(grouping)
    tables: dict[str, list[dict[str, Any]]] = {name: own for name, own in rows.items() if own}
    return {name: spark.createDataFrame(pa.Table.from_pylist(own)) for name, own in tables.items()}


def _runs_of(events: DataFrame) -> list[Run]:
    fields = [field for field in events.schema.fields if field.name == "run"]
    folder = fields[0].metadata.get(TRACE) if fields else None
    if folder is None:
        raise UsageError("these events do not say of which trace they are: begin with read_trace(spark, path)")
    return list(read_runs(folder))


def _use_own_python(spark: SparkSession) -> None:
    """Workers on this machine run this Python, also in a session that was begun without a word about it."""
    context = spark.sparkContext
    if str(context.master).startswith("local") and not spark.conf.get("spark.pyspark.python", ""):
        context.pythonExec = sys.executable
