"""Work for Spark: on files, one task for each piece of it, Arrow batches back; and several questions side by side."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from ordercast.core.errors import UsageError
from ordercast.spark.internals import frame_of_bytes
from ordercast.trace.pieces import Work

ASKED_AT_ONCE: Final = 3
"""Questions side by side. To plan a query keeps one processor busy; with more of them than that, each only gets less of
Java's memory."""
CANCEL_AGAIN_SECONDS: Final = 0.1
"""A question that was being planned when the others were cancelled asks for its next job after that."""

_DESCRIPTION: Final = "spark.job.description"


def spread(spark: SparkSession, pieces: Sequence[bytes], work: Work, schema: pa.Schema) -> DataFrame:
    """What `work` yields for all the pieces; its batches must have exactly this schema, for Spark casts nothing."""

    def do(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for piece in batch.column(0).to_pylist():
                yield from work(piece)

    return frame_of_bytes(spark, pieces).mapInArrow(do, from_arrow_schema(schema))


def gather(spark: SparkSession, pieces: Sequence[bytes], work: Work, schema: pa.Schema) -> pa.Table:
    """The same, brought to the driver."""
    with plain_errors():
        return spread(spark, pieces, work, schema).toArrow().cast(schema)


def ask_together(spark: SparkSession, questions: Sequence[Callable[[], Any]]) -> list[Any]:
    """The answers to several questions, asked side by side; where one fails, or Ctrl-C comes, none is asked further.

    Of a small trace most of the time is planning, which is one processor's work for each question; of a large one the
    last tasks of a question leave processors idle that another can use.
    """
    if len(questions) < 2:
        return [question() for question in questions]
    context = spark.sparkContext
    tag = f"ordercast-{uuid.uuid4()}"

    def tagged(question: Callable[[], Any]) -> Callable[[], Any]:
        def ask() -> Any:
            context.addJobTag(tag)
            return question()

        # For each its own: it hands the thread one set of Spark's properties, tags among them.
        return inheritable_thread_target(spark)(ask)

    with ThreadPoolExecutor(ASKED_AT_ONCE, "ordercast-ask") as pool:
        answers = [pool.submit(tagged(question)) for question in questions]
        try:
            return [answer.result() for answer in answers]
        except BaseException:
            for answer in answers:
                answer.cancel()
            while wait(answers, CANCEL_AGAIN_SECONDS).not_done:
                with contextlib.suppress(Py4JError, OSError):
                    context.cancelJobsWithTag(tag)
            raise


@contextlib.contextmanager
def described(spark: SparkSession, what: str) -> Iterator[None]:
    """Jobs that are begun in the block say in Spark's user interface what they are for."""
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"ordercast: {what}")
    try:
        yield
    finally:
        # Null takes it away again, whatever PySpark's types say.
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]


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
