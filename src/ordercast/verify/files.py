"""What a worker does: read its files, judge its runs, and hand back what it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from ordercast.check import Choice, Verdict, judge
from ordercast.trace.event_file import EventFile, RunEvents
from ordercast.verify.plan import Assignment, Task

FINDINGS = pa.schema(
    [
        ("run", pa.string()),
        ("property", pa.string()),
        ("claimed", pa.bool_()),
        ("verdict", pa.string()),
        ("witnesses", pa.int32()),
        ("number", pa.int32()),
        ("sites", pa.list_(pa.string())),
        ("messages", pa.list_(pa.string())),
        ("why", pa.string()),
    ]
)
"""One row a witness, numbered from 0 for each run and property; one row, without `why`, for a verdict that has none.
Properties that were not asked for have no row."""


def judge_files(piece: bytes) -> Iterator[pa.RecordBatch]:
    """Judge the runs of one task."""
    task = msgspec.msgpack.decode(piece, type=Task)
    for assignment, events in iterate_events(task.assignments):
        verdicts = judge(assignment.run, events, task.choice)
        rows = [row for verdict in verdicts.values() for row in as_rows(assignment.run.run, verdict, task.choice)]
        yield pa.RecordBatch.from_pylist(rows, schema=FINDINGS)


def iterate_events(assignments: list[Assignment]) -> Iterator[tuple[Assignment, RunEvents]]:
    """Each run with its events; a file stays open until its last run has been read."""
    uses = Counter(file for assignment in assignments for file in assignment.files)
    opened: dict[str, EventFile] = {}
    for assignment in assignments:
        for file in assignment.files:
            if file not in opened:
                opened[file] = EventFile(file)
        yield assignment, RunEvents(assignment.run.run, [opened[file] for file in assignment.files])
        for file in assignment.files:
            uses[file] -= 1
            if not uses[file]:
                del opened[file]


def as_rows(run: str, verdict: Verdict, choice: Choice) -> Iterator[dict[str, object]]:
    """The findings about one property of one run."""
    if not verdict.claimed and not choice.unclaimed_too:
        return
    common = {
        "run": run,
        "property": verdict.property,
        "claimed": verdict.claimed,
        "verdict": verdict.verdict,
        "witnesses": verdict.witnesses,
    }
    if not verdict.all_witnesses:
        yield {**common, "number": 0}
    for number, witness in enumerate(verdict.all_witnesses):
        yield {**common, "number": number, **msgspec.structs.asdict(witness)}
