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
from ordercast.spark.tables import check_format


def append_rows(spark: SparkSession, table: str, rows: Sequence[dict[str, Any]], form: str) -> None:
    """Add rows to a table, which is a path."""
    frame = spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=HISTORY))
    check_format(spark, form)
    with _one_line(table):
        frame.coalesce(1).write.format(form).mode("append").save(table)


def read_rows(spark: SparkSession, table: str, form: str) -> pa.Table:
    """All rows of the table."""
    check_format(spark, form)
    with _one_line(table):
        return spark.read.format(form).load(table).select(*HISTORY.names).toArrow().cast(HISTORY)


@contextmanager
def _one_line(table: str) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        raise UsageError(f"{table}: {str(error).splitlines()[0]}") from error
