"""Which task judges which runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ordercast.spark.tables import Piece
from ordercast.trace.schema import Run

RUN_WEIGHT_ROWS = 5_000
"""A run takes the judges some milliseconds before its first row: as much as this many rows."""
TASK_ROWS_MIN = 250_000
"""Some tenths of a second of judging; a much smaller task would cost more to start than to do."""
TASK_ROWS_MAX = 1_000_000
"""The size of a file of the project's own writer; what a worker holds in memory at a time is a file and its run."""
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
    properties: list[str] | None
    everything: bool


def assign(runs: Mapping[str, Run], pieces: Mapping[str, Sequence[Piece]]) -> list[Assignment]:
    """Run by run, in the order in which they lie in the files."""
    assignments = [
        Assignment(runs[name], [piece.file for piece in found], sum(piece.rows for piece in found))
        for name, found in pieces.items()
    ]
    return sorted(assignments, key=lambda each: (each.files, each.run.run))


def cut(assignments: Sequence[Assignment], cores: int) -> list[list[Assignment]]:
    """Neighbours together, in tasks of a sensible size."""
    weight_of_all = sum(each.rows + RUN_WEIGHT_ROWS for each in assignments)
    size = min(max(weight_of_all // (cores * TASKS_PER_CORE), TASK_ROWS_MIN), TASK_ROWS_MAX)
    tasks: list[list[Assignment]] = []
    taken = 0
    for each in assignments:
        weight = each.rows + RUN_WEIGHT_ROWS
        if not tasks or taken + weight > size:
            tasks.append([])
            taken = 0
        tasks[-1].append(each)
        taken += weight
    return tasks


def rows_read_again(tasks: Iterable[Sequence[Assignment]], rows_of_file: Mapping[str, int]) -> int:
    """How many rows are read a second time and more often when each task reads the files it needs."""
    weights = {file: rows * (JSON_ROWS if file.endswith(".jsonl") else 1) for file, rows in rows_of_file.items()}
    read = sum(weights[file] for task in tasks for file in {file for each in task for file in each.files})
    return read - sum(weights.values())
