"""Work on files, spread over the workers: one Spark task for each piece of it, Arrow batches back."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from ordercast.core.errors import UsageError

Work = Callable[[bytes], Iterable[pa.RecordBatch]]


def spread(spark: SparkSession, pieces: Sequence[bytes], work: Work, schema: pa.Schema) -> DataFrame:
    """What `work` yields for all the pieces; its batches must have exactly this schema, for Spark casts nothing."""

    def do(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for piece in batch.column(0).to_pylist():
                yield from work(piece)

    return _hand_out(spark, pieces).mapInArrow(do, from_arrow_schema(schema))


def _hand_out(spark: SparkSession, pieces: Sequence[bytes]) -> DataFrame:
    """A row and a task for each piece.

    What `parallelize` makes of Python's objects passes through a Python process of its own, in each task, before it is
    a row. Bytes that Java has been given are one at once.
    """
    context = spark.sparkContext
    java = context._jvm
    assert java is not None
    listed = java.java.util.ArrayList()
    for piece in pieces:
        listed.add(bytearray(piece))
    rdd = context._jsc.parallelize(listed, max(1, len(pieces))).rdd()
    return DataFrame(spark._jsparkSession.createDataset(rdd, java.org.apache.spark.sql.Encoders.BINARY()).toDF(), spark)


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Around an action: what a worker refused is raised here as it would have been by this process."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        refused = re.findall(r"ordercast\.core\.errors\.UsageError: (.*)", _whole_text(error))
        if refused:
            raise UsageError(refused[0].strip()) from error
        raise


def _whole_text(error: Any) -> str:
    cause = getattr(error, "java_exception", None)
    return f"{error}\n{cause}" if cause is not None else str(error)
