"""Which task judges which runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise

import msgspec

from ordercast.check import Choice
from ordercast.trace.pieces import Piece
from ordercast.trace.schema import Run

RUN_WEIGHT_ROWS = 5_000
"""A run takes the judges some milliseconds before its first row: as much as this many rows."""
TASK_ROWS_MIN = 250_000
"""Some tenths of a second of judging; a much smaller task would cost more to start than to do."""
TASK_ROWS_MAX = 4_000_000
"""Some seconds of judging, so that progress shows, and little is lost with a worker. What a worker holds in memory at a
time is a file and its run, however many there are in the task."""
TASKS_PER_CORE = 3
"""So that no core waits long for the last one."""
REREAD_ROWS_MAX = 50_000_000
"""A file that several tasks need is read by each. To sort a trace by run first takes as long as to read this many rows
of it again, however small it is."""
JSON_ROWS = 30
"""To read a row of a JSON file takes as long as to read this many rows of a Parquet file."""


class Assignment(msgspec.Struct, frozen=True):
    """One run and the files that hold it."""

    run: Run
    files: list[str]
    rows: int


class Task(msgspec.Struct, frozen=True):
    """What one Spark task has to do."""

    assignments: list[Assignment]
    choice: Choice


def assign(runs: Mapping[str, Run], pieces: Mapping[str, Sequence[Piece]]) -> list[Assignment]:
    """Run by run, in the order in which they lie in the files."""
    assignments = [
        Assignment(runs[name], [piece.file for piece in found], sum(piece.rows for piece in found))
        for name, found in pieces.items()
    ]
    return sorted(assignments, key=lambda each: (each.files, each.run.run))


def cut(assignments: Sequence[Assignment], cores: int) -> list[list[Assignment]]:
    """Neighbours together, in tasks of a sensible size that end where files end: what a task does not share with
    another is read once."""
    weight_of_all = sum(map(_weight, assignments))
    size = min(max(weight_of_all // (cores * TASKS_PER_CORE), TASK_ROWS_MIN), TASK_ROWS_MAX)
    tasks: list[list[Assignment]] = []
    room = 0
    for _, group in groupby(assignments, key=lambda each: each.files):
        together = list(group)
        weight = sum(map(_weight, together))
        # Runs of one file go to several tasks, each of which reads all of it, only where a core would wait otherwise.
        pieces = max(1, min(round(weight / size), -(-cores * weight // weight_of_all), len(together)))
        # To the nearest whole file: else tasks of nearly two files would become tasks of one.
        if pieces == 1 and weight <= room * 2:
            tasks[-1] += together
            room -= weight
            continue
        bounds = [len(together) * piece // pieces for piece in range(pieces + 1)]
        tasks += [together[low:high] for low, high in pairwise(bounds)]
        room = size - weight if pieces == 1 else 0
    return tasks


def _weight(each: Assignment) -> int:
    return each.rows + RUN_WEIGHT_ROWS


def rows_read_again(tasks: Iterable[Sequence[Assignment]], rows_of_file: Mapping[str, int]) -> int:
    """How many rows are read a second time and more often when each task reads the files it needs."""
    weights = {file: rows * (JSON_ROWS if file.endswith(".jsonl") else 1) for file, rows in rows_of_file.items()}
    read = sum(weights[file] for task in tasks for file in {file for each in task for file in each.files})
    return read - sum(weights.values())
