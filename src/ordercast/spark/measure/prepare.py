"""What several measures need of a trace, computed once and kept while they are taken."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from ordercast.spark.measure.cells import busy_spans, whole_spans
from ordercast.spark.measure.destinations import membership, with_completion
from ordercast.spark.measure.messages import message_table
from ordercast.spark.tasks import ask_together
from ordercast.trace.schema import Run

_SPANS = "run string, protocol string, busy_from double, busy_to double"


@dataclass(frozen=True)
class Prepared:
    """The tables from which all measures are taken."""

    events: DataFrame
    messages: DataFrame
    """A row a message, with its deliveries."""
    spans: DataFrame
    """A row a run that has events: its protocol, and when it was busy."""
    times: dict[str, tuple[float, float]]
    """Run -> when its first and last event happened."""


@contextlib.contextmanager
def prepare(events: DataFrame, runs: Sequence[Run]) -> Iterator[Prepared]:
    """Compute what the measures share; it is kept, on disk where it is large, until the block is left."""
    spark = events.sparkSession
    moved = membership(events, initial_groups(spark, runs))
    messages = with_completion(message_table(events), moved).persist()
    try:
        spans, times = _known_spans(events, messages, runs)
        yield Prepared(events, messages, spans, times)
    finally:
        messages.unpersist()


def initial_groups(spark: SparkSession, runs: Sequence[Run]) -> DataFrame:
    """run, group, site: the groups at the start."""
    rows = [(run.run, group, site) for run in runs for group, sites in run.groups.items() for site in sites]
    return spark.createDataFrame(rows, "run string, group string, site string")


def _known_spans(
    events: DataFrame, messages: DataFrame, runs: Sequence[Run]
) -> tuple[DataFrame, dict[str, tuple[float, float]]]:
    """One row a run is little: known to the driver, the table is broadcast and never computed again."""
    protocol_of = {run.run: run.protocol for run in runs}
    whole, working = ask_together(events.sparkSession, [whole_spans(events).collect, busy_spans(messages).collect])
    times = {row.run: (row.first_at, row.last_at) for row in whole}
    busy = {row.run: (row.busy_from, row.busy_to) for row in working}
    rows = [(run, protocol_of[run], *busy.get(run, (None, None))) for run in sorted(times)]
    return events.sparkSession.createDataFrame(rows, _SPANS), times
