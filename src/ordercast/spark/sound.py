"""Values that no trace may have are refused before anything is computed from them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from ordercast.core.errors import UsageError
from ordercast.trace.event_file import EventFile
from ordercast.trace.pieces import Trace
from ordercast.trace.schema import KINDS, KINDS_WITH_MESSAGE, REQUIRED


def refuse_unsound(trace: Trace, events: DataFrame) -> None:
    """Raise `UsageError` when a row breaks the rules of docs/trace.md.

    Spark's own reader of Parquet checks types and nothing else. One pass over six columns finds out whether there is
    such a row; only then are the files read again, one after the other, to say where.
    """
    if events.where(_is_unsound()).isEmpty():
        return
    for file in trace.files:
        _ = EventFile(file).rows_of_runs
    raise UsageError(f"{trace.folder}: the files change while they are read; wait until the trace is complete")


def _is_unsound() -> Column:
    time = F.col("time")
    nameless = F.col("kind").isin(*KINDS_WITH_MESSAGE) & F.col("message").isNull()
    unsound = ~F.col("kind").isin(*KINDS) | nameless | F.isnan(time) | (F.abs(time) == float("inf"))
    for name in REQUIRED:
        unsound = unsound | F.col(name).isNull()
    # Where a required value is null the rest of the condition may be null too.
    return F.coalesce(unsound, F.lit(True))
