"""Run an experiment: what is missing, on the workers, until every point is known as exactly as asked for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from ordercast.core import UsageError
from ordercast.spark.experiments.experiment import Experiment, Point, RunFunction, Value, find_function
from ordercast.spark.experiments.plan import pack, spread
from ordercast.spark.experiments.precision import target
from ordercast.spark.experiments.scatter import scatter
from ordercast.spark.experiments.ship import ship
from ordercast.spark.experiments.store import Record, Store
from ordercast.spark.experiments.tables import aggregate, repetition_table

Progress = Callable[[int, int], None]
"""Is told how many runs are done, and of how many that are known to be needed by now."""

PROGRESS_FILE = "progress.jsonl"
REPETITIONS_FILE = "repetitions.parquet"
POINTS_FILE = "points.parquet"


class _Run(msgspec.Struct, frozen=True):
    """One run to be made."""

    key: str
    point: dict[str, Value]
    repetition: int
    seed: int


class _Task(msgspec.Struct, frozen=True):
    """What goes to a worker."""

    function: str
    measures: tuple[str, ...]
    runs: list[_Run]


class _Answer(msgspec.Struct, frozen=True):
    """What comes back."""

    records: list[Record]
    error: str = ""


@dataclass(frozen=True)
class Results:
    """An experiment that is done."""

    experiment: Experiment
    repetitions: pa.Table
    """One row a run: the parameters, `repetition`, `seed`, the measures."""
    runs_made: int
    """By this call; the others were there already."""


def run_experiment(
    experiment: Experiment,
    spark: SparkSession,
    folder: Path | None = None,
    *,
    progress_file: Path | None = None,
    on_progress: Progress = lambda done, total: None,
) -> Results:
    """Run it; with a folder, its tables land there, and an interrupted experiment goes on from there.

    `progress_file` is where the runs are kept as they come, if not in the folder.
    """
    find_function(experiment.function)
    ship(spark, experiment.function)
    if progress_file is None and folder is not None:
        progress_file = folder / PROGRESS_FILE
    store = Store(progress_file)
    try:
        rounds = _Rounds(experiment, store)
        made = 0
        while tasks := rounds.next_tasks(spark.sparkContext.defaultParallelism):
            on_progress(*rounds.progress())
            for answer in scatter(spark, f"{__name__}:work", tasks, f"experiment {experiment.name}"):
                made += rounds.take(msgspec.json.decode(answer, type=_Answer))
                on_progress(*rounds.progress())
        on_progress(*rounds.progress())
        table = repetition_table(experiment, rounds.finished())
    finally:
        store.close()
    if folder is not None:
        pq.write_table(table, folder / REPETITIONS_FILE, compression="zstd")
        pq.write_table(aggregate(spark, experiment, table).toArrow(), folder / POINTS_FILE, compression="zstd")
    return Results(experiment, table, made)


class _Rounds:
    """Round after round: each makes what is missing by what is known then."""

    def __init__(self, experiment: Experiment, store: Store) -> None:
        self._experiment = experiment
        self._store = store
        self._points = experiment.points()
        if not self._points:
            raise UsageError(f"experiment {experiment.name}: its grid has no points")
        self._keys: dict[tuple[int, int], str] = {}
        self._targets: list[int] = []
        self._done = 0

    def _key(self, place: int, repetition: int) -> str:
        key = self._keys.get((place, repetition))
        if key is None:
            key = self._keys[place, repetition] = self._experiment.key(self._points[place], repetition)
        return key

    def _find(self, place: int, repetition: int) -> Record | None:
        return self._store.records.get(self._key(place, repetition))

    def _target(self, place: int) -> int:
        def find(repetition: int) -> Mapping[str, float | None] | None:
            record = self._find(place, repetition)
            return None if record is None else record.values

        return target(self._experiment, find)

    def progress(self) -> tuple[int, int]:
        """Runs done, and needed as far as is known."""
        return self._done, sum(self._targets)

    def next_tasks(self, parallelism: int) -> list[bytes]:
        """What to do next; nothing when all is done."""
        self._targets = [self._target(place) for place in range(len(self._points))]
        missing: list[tuple[int, int]] = []
        seconds: dict[int, float] = {}
        for place, wanted in enumerate(self._targets):
            known: list[Record] = []
            for repetition in range(wanted):
                record = self._find(place, repetition)
                if record is None:
                    missing.append((place, repetition))
                else:
                    known.append(record)
            if known:
                seconds[place] = sum(record.seconds for record in known) / len(known)
        self._done = sum(self._targets) - len(missing)
        if missing and not seconds:
            # Nobody knows yet how long a run takes: one for each processor tells, from all over the grid.
            groups = [[place] for place in spread(parallelism, len(missing))]
        else:
            typical = sum(seconds.values()) / max(1, len(seconds))
            groups = pack([seconds.get(place, typical) for place, _ in missing], parallelism)
        return [self._task([missing[place] for place in group]) for group in groups]

    def _task(self, runs: Sequence[tuple[int, int]]) -> bytes:
        experiment = self._experiment
        return msgspec.json.encode(
            _Task(
                experiment.function,
                tuple(measure.name for measure in experiment.measures),
                [
                    _Run(
                        self._key(place, repetition),
                        self._points[place],
                        repetition,
                        experiment.seed(self._points[place], repetition),
                    )
                    for place, repetition in runs
                ],
            )
        )

    def take(self, answer: _Answer) -> int:
        """Keep what a task has made; how many runs that was."""
        self._store.add(answer.records)
        self._done += len(answer.records)
        if answer.error:
            raise UsageError(f"experiment {self._experiment.name}: {answer.error}")
        return len(answer.records)

    def finished(self) -> list[tuple[Point, int, int, Mapping[str, float | None]]]:
        """Point, repetition, seed and values of every run that counts, in the order of the grid."""
        return [
            (
                point,
                repetition,
                self._experiment.seed(point, repetition),
                self._store.records[self._key(place, repetition)].values,
            )
            for place, point in enumerate(self._points)
            for repetition in range(self._targets[place])
        ]


def work(task: bytes) -> bytes:
    """On a worker: make the runs of a task, one after the other."""
    todo = msgspec.json.decode(task, type=_Task)
    function = cast(RunFunction, find_function(todo.function))
    records: list[Record] = []
    for run in todo.runs:
        began = time.perf_counter()
        try:
            given = function(dict(run.point), run.seed)
            values = {name: _number(given[name]) for name in todo.measures}
        except Exception as error:  # the user's function may do anything; the runs before it are kept
            what = f"no measure {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
            told = f"{todo.function}({run.point}, {run.seed}): {what}"
            return msgspec.json.encode(_Answer(records, " ".join(told.split())))
        records.append(Record(run.key, values, time.perf_counter() - began))
    return msgspec.json.encode(_Answer(records))


def _number(value: float | None) -> float | None:
    number = None if value is None else float(value)
    return None if number is None or not math.isfinite(number) else number
