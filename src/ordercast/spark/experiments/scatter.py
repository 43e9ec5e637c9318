"""Tasks out to the workers, results back as each task ends, and a way out in the middle."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam, InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ordercast.core import StorageError
from ordercast.spark.experiments.experiment import find_function

POLL_SECONDS = 0.05
CANCEL_SECONDS_MAX = 5.0
"""Spark lets a cancelled Python task run on for two seconds, then ends its process."""


class _Gather(AccumulatorParam[list[bytes]]):
    """An accumulator that is a list. Spark adds what a task has put into it when the task has succeeded, once."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:  # noqa: N802 - Spark's name
        value1.extend(value2)
        return value1


def scatter(spark: SparkSession, work: str, tasks: Sequence[bytes], name: str) -> Iterator[bytes]:
    """Let `work` (module:name of a function from bytes to bytes) loose on every task; the results as they come.

    Whoever stops listening, because of Ctrl-C for example, cancels what is not done.
    """
    if not tasks:
        return
    context = spark.sparkContext
    results: Accumulator[list[bytes]] = context.accumulator([], _Gather())
    group = f"ordercast-{uuid.uuid4()}"
    failures: list[BaseException] = []
    over = threading.Event()

    def submit() -> None:
        try:
            context.setJobGroup(group, name)
            context.parallelize(tasks, len(tasks)).foreachPartition(partial(_run, work, results))
        except BaseException as error:  # of whatever kind: the other thread tells the user
            failures.append(error)
        finally:
            over.set()

    # A thread of its own asks Spark and waits. This one only looks at a list: an interrupt finds it with no question
    # to Java half asked.
    thread = InheritableThread(target=submit, session=spark)
    thread.daemon = True
    thread.start()
    taken = 0
    try:
        while True:
            finished = over.wait(POLL_SECONDS)
            come = results.value[taken:]
            taken += len(come)
            yield from come
            if finished and not come:
                break
    finally:
        if not over.is_set():
            # Whatever is wrong with Java now, the session's end will see to it.
            with contextlib.suppress(Exception):
                context.cancelJobGroup(group)
            thread.join(CANCEL_SECONDS_MAX)
    results.value.clear()  # Spark keeps the accumulator for as long as the session lasts
    if failures:
        raise _explain(failures[0]) from failures[0]


def _explain(error: BaseException) -> BaseException:
    from_java = type(error).__module__.startswith("py4j")
    if not from_java and not isinstance(error, PySparkException | OSError):
        return error
    java = getattr(error, "java_exception", None)
    words = str(java.getMessage() if java is not None else error).strip().splitlines() or [type(error).__name__]
    # Of the pages that Spark prints the last line of Python's traceback says it, where there is one.
    cause = next((line for line in words if "Error: " in line and not line.startswith((" ", "\t"))), words[0])
    return StorageError(f"Spark could not finish ({cause.strip()[:300]}); what was done is kept: run it again")


def _run(work: str, results: Accumulator[list[bytes]], tasks: Iterable[bytes]) -> None:
    """On a worker."""
    pa.set_cpu_count(1)  # one processor is what a task has
    function: Callable[..., Any] = find_function(work)
    for task in tasks:
        results.add([function(task)])
