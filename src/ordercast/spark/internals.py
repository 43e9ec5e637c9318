"""What the pipeline needs of PySpark and PySpark keeps to itself; a new version of PySpark is looked at here."""

# ruff: noqa: SLF001 - PySpark has no public names for any of these

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ordercast.core.errors import InvariantViolation


def active_context() -> SparkContext | None:
    """That of the session which this process has already."""
    return SparkContext._active_spark_context


def adopt_gateway(gateway: Any) -> None:
    """Let the next context use this Java process instead of starting one."""
    SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm


def forget_gateway() -> None:
    """Let the next context start a Java process."""
    SparkContext._gateway = SparkContext._jvm = None


def forget_session() -> None:
    """Let another session begin, whatever state the last one was left in."""
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def count_executors(context: SparkContext) -> int:
    """How many processes can work; the driver counts as one."""
    return len(context._jsc.sc().statusTracker().getExecutorInfos())


def has_format(spark: SparkSession, name: str) -> bool:
    """Whether there is a data source of that name."""
    java = spark.sparkContext._jvm
    if java is None:
        raise InvariantViolation("a session without a Java process")
    try:
        settings = spark._jsparkSession.sessionState().conf()
        java.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(name, settings)
    except (Py4JJavaError, PySparkException):
        return False
    return True


def work_with(context: SparkContext, python: str) -> None:
    """Let workers run this Python from now on."""
    context.pythonExec = python


def frame_of_bytes(spark: SparkSession, pieces: Sequence[bytes]) -> DataFrame:
    """A row and a task for each piece.

    What `parallelize` makes of Python's objects passes through a Python process of its own, in each task, before it is
    a row. Bytes that Java has been given are one at once.
    """
    context = spark.sparkContext
    java = context._jvm
    if java is None:
        raise InvariantViolation("a session without a Java process")
    listed = java.java.util.ArrayList()
    for piece in pieces:
        listed.add(bytearray(piece))
    rdd = context._jsc.parallelize(listed, max(1, len(pieces))).rdd()
    return DataFrame(spark._jsparkSession.createDataset(rdd, java.org.apache.spark.sql.Encoders.BINARY()).toDF(), spark)
