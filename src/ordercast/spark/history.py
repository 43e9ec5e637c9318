"""The table of a history in other formats than Parquet: whatever Spark has on its class path (Delta, Iceberg)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ordercast.core.errors import UsageError
from ordercast.history.rows import HISTORY


def append_rows(spark: SparkSession, table: str, rows: Sequence[dict[str, Any]], form: str) -> None:
    """Add rows to a table, which is a path."""
    frame = spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=HISTORY))
    with _one_line(table, form):
        frame.coalesce(1).write.format(form).mode("append").save(table)


def read_rows(spark: SparkSession, table: str, form: str) -> pa.Table:
    """All rows of the table."""
    with _one_line(table, form):
        return spark.read.format(form).load(table).select(*HISTORY.names).toArrow().cast(HISTORY)


@contextmanager
def _one_line(table: str, form: str) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        if error.getCondition() == "DATA_SOURCE_NOT_FOUND":
            raise UsageError(
                f"Spark has no format {form!r}: put its package on the class path (spark.jars.packages), or use parquet"
            ) from error
        raise UsageError(f"{table}: {str(error).splitlines()[0]}") from error
