"""A Spark session for a command: a progress bar on standard error when it takes long, and nothing else."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ordercast.cli.progress import PATIENCE_SECONDS
from ordercast.spark.progress import watch
from ordercast.spark.session import open_session


@contextlib.contextmanager
def command_session(
    command: str, master: str | None, show_progress: bool, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """The session in which a command does its work; print results after the block, when the bar is gone."""
    shown = show_progress and sys.stderr.isatty()
    with _bar(command, shown) as bar, open_session(command, master, settings) as spark:
        with watch(spark, bar.move):
            yield spark
        bar.say("stopping Spark")


class _Bar:
    """Appears when its patience has run out."""

    def __init__(self, command: str, shown: bool) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not shown,
        )
        self._command = command
        self._task = self._progress.add_task(f"{command}: starting Spark", total=None, count="")
        self._timer = threading.Timer(PATIENCE_SECONDS, self._progress.start)
        self._timer.daemon = True

    def move(self, done: int, total: int) -> None:
        """Show how far it is."""
        if total:
            self._progress.update(
                self._task, description=self._command, completed=done, total=total, count=f"{done} of {total} tasks"
            )

    def say(self, words: str) -> None:
        """Show what it is about, without a measure of it."""
        self._progress.update(self._task, description=f"{self._command}: {words}", total=None, count="")

    def begin(self) -> None:
        self._timer.start()

    def finish(self) -> None:
        self._timer.cancel()
        self._timer.join()
        self._progress.stop()


@contextlib.contextmanager
def _bar(command: str, shown: bool) -> Iterator[_Bar]:
    bar = _Bar(command, shown)
    bar.begin()
    try:
        yield bar
    finally:
        bar.finish()
