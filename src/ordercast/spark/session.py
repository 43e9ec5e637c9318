"""The one place where a Spark session begins and ends.

    with open_session("verify", master="local[4]") as spark:
        ...

Nothing of Spark reaches the terminal, whatever is missing is said in one line, and when the block is left, in
whatever way, no process is left behind. A process that has a session already (a notebook, a test run) shares it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ordercast.core.errors import UsageError
from ordercast.spark.home import make_home
from ordercast.spark.internals import active_context, count_executors, forget_session
from ordercast.spark.java import prepare_environment
from ordercast.spark.launch import end, explain, launch
from ordercast.spark.master import Master, find_master
from ordercast.spark.package import write_package

LOG_VARIABLE = "ORDERCAST_SPARK_LOG"
"""A file to which everything that Spark has to say is added; otherwise only what goes wrong is kept, and thrown away
with the session."""

WORKERS_SECONDS_MAX = 60.0
"""A standalone worker needs some seconds to start its Java; longer means that the cluster has none to give."""

STOP_SECONDS_MAX = 5.0
"""Jobs are cancelled and the session stopped within a second, unless the cluster is out of reach."""

SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A Python task costs 13 ms with it and 26 ms over TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # No limit. Any other makes Spark look, row by row, how large its batch has become, and for a column of lists that
    # is null in most rows each look goes through the whole batch: 200,000 rows took a minute instead of seconds.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # The tables that are shuffled here are small, or have been cut up by run before.
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.session.timeZone": "UTC",
    # Java's default is a quarter of the memory, PySpark's a gigabyte, which a sort of 10^8 rows does not fit in.
    "spark.driver.memory": "3g",
}


BRIEF: Mapping[str, str] = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For a session of some seconds: Java compiles its own code once and not twice, which halves what it takes to start,
and collects what little garbage there is without threads for it (a fifth of what a first question takes). A session
that pushes 10^8 rows through SQL is better off without."""

LITTLE: Mapping[str, str] = {
    **BRIEF,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}
"""For tables of at most some ten thousand rows: Spark plans a question once, and interprets the plan instead of writing
Java for it. That halves the time of a question about little; at 25,000 rows there is no difference, at 125,000 it takes
half as long again."""


@contextlib.contextmanager
def open_session(
    name: str, master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session named `ordercast NAME`, on the given master, or the environment's ORDERCAST_MASTER, or this machine."""
    if active_context() is not None:
        yield _share(master)
        return
    # Before Java is started, for that takes seconds.
    chosen = find_master(master)
    with tempfile.TemporaryDirectory(prefix="ordercast-spark-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        given = os.environ.get(LOG_VARIABLE)
        log = Path(given) if given else folder / "spark.log"
        wanted = _settings(name, chosen, folder, settings or {})
        with _environment(chosen, folder):
            gateway = launch(wanted, folder, log, "info" if given else "warn")
            try:
                spark = _start(wanted, chosen, log)
                if not chosen.shares_package:
                    spark.sparkContext.addPyFile(str(write_package(folder / "ordercast.zip")))
            except BaseException:
                _finish(gateway)
                raise
        try:
            with _quiet(), _cancelled_by_interrupt(spark.sparkContext):
                yield spark
        finally:
            _finish(gateway)


def _share(master: str | None) -> SparkSession:
    spark = SparkSession.builder.getOrCreate()
    running = spark.sparkContext.master
    if master is not None and master != running:
        find_master(master)
        raise UsageError(f"this process has a Spark session on {running} already; stop it to use {master}")
    return spark


def _settings(name: str, master: Master, folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    settings = {"spark.master": master.url, "spark.app.name": f"ordercast {name}", **SETTINGS}
    # Else these appear in whatever folder the user happens to be in.
    settings["spark.sql.warehouse.dir"] = str(folder / "warehouse")
    if master.is_local:
        settings["spark.local.dir"] = str(folder / "local")
    if master.driver_address is not None:
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = master.driver_address
    return {**settings, **more}


@contextlib.contextmanager
def _environment(master: Master, folder: Path) -> Iterator[None]:
    """What Spark reads from the environment while it starts; the process's own is put back afterwards."""
    names = ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "SPARK_LOCAL_IP")
    before = {name: os.environ.get(name) for name in names}
    try:
        prepare_environment()
        if master.is_local:
            # Another Spark on this machine need not be of the version that PySpark speaks to.
            _put("SPARK_HOME", str(make_home(folder)))
        else:
            # Which Python the machines of a cluster have is for the user to say.
            _put("PYSPARK_PYTHON", before["PYSPARK_PYTHON"] or os.environ["PYSPARK_PYTHON"])
            _put("SPARK_LOCAL_IP", before["SPARK_LOCAL_IP"] or master.driver_address)
        yield
    finally:
        for name, value in before.items():
            _put(name, value)


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _start(settings: Mapping[str, str], master: Master, log: Path) -> SparkSession:
    conf = SparkConf()
    conf.setAll(list(settings.items()))
    handler = signal.getsignal(signal.SIGINT)
    try:
        context = SparkContext(conf=conf)
    except (Py4JError, PySparkException, OSError) as error:
        raise UsageError(f"Spark did not start on {master.url}: {explain(log, str(error))}") from error
    finally:
        # PySpark's own handler of Ctrl-C speaks to Java over a connection that waits for an answer to something else.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)
    if master.url.startswith("spark://") and settings.get("spark.dynamicAllocation.enabled") != "true":
        _await_workers(context, master)
    return SparkSession(context)


def _await_workers(context: SparkContext, master: Master) -> None:
    """Without this a job on a cluster that has no room waits, silently and for ever."""
    give_up = time.monotonic() + WORKERS_SECONDS_MAX
    while True:
        if count_executors(context) > 1:
            return
        if time.monotonic() > give_up:
            raise UsageError(
                f"{master.url} gives no worker within {WORKERS_SECONDS_MAX:.0f} s; has one free cores and memory?"
            )
        time.sleep(0.1)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Py4J tells the root logger, and so the terminal, about every Ctrl-C, traceback included."""

    def is_ours(record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts

    logging.getLogger().addFilter(is_ours)
    try:
        yield
    finally:
        logging.getLogger().removeFilter(is_ours)


@contextlib.contextmanager
def _cancelled_by_interrupt(context: SparkContext) -> Iterator[None]:
    """Ctrl-C ends the jobs before anybody tidies up after them.

    Else: (1) this thread waits for a job, (2) Ctrl-C, (3) some `finally` on the way out asks Java to forget a table,
    (4) which Java does when the job that makes the table is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    interrupted = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        # From a thread of its own, for this one's connection to Java may be in the middle of an answer.
        threading.Thread(target=_cancel, args=(context,), name="ordercast-spark-cancel", daemon=True).start()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except (Py4JError, PySparkException, OSError) as error:
        if interrupted.is_set():
            # Whoever tidied up on the way out found the session in ruins.
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _cancel(context: SparkContext) -> None:
    with contextlib.suppress(Py4JError, OSError):
        context.cancelAllJobs()


def _finish(gateway: Any) -> None:
    """Stop what there is to be stopped, whatever state it is in; afterwards another session can begin."""
    context = active_context()
    if context is not None:
        # Not from this thread: an interrupt may have left its connection to Java in the middle of an answer.
        thread = threading.Thread(target=_stop, args=(context,), name="ordercast-spark-stop", daemon=True)
        thread.start()
        thread.join(STOP_SECONDS_MAX)
    end(gateway)
    forget_session()


def _stop(context: SparkContext) -> None:
    _cancel(context)
    with contextlib.suppress(Py4JError, OSError):
        context.stop()
