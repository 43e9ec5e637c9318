"""Which file of a trace holds which runs: found out by looking through the files, one by one, wherever that is done."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa

from ordercast.core.errors import UsageError
from ordercast.trace.event_file import EventFile
from ordercast.trace.json_lines import decode_lines
from ordercast.trace.read import event_files, read_runs
from ordercast.trace.schema import Run

Work = Callable[[bytes], Iterable[pa.RecordBatch]]
"""What is done with one piece of work, wherever that is: bytes in, batches out."""
Gather = Callable[[Sequence[bytes], Work, pa.Schema], pa.Table]
"""Has work done on all pieces and brings back what it yields; its batches have exactly that schema."""

FILES_PER_PIECE = 16
"""Looking into a file takes a millisecond or ten, starting a task of Spark ten."""

PIECES = pa.schema([("file", pa.string()), ("run", pa.string()), ("rows", pa.int64()), ("exact", pa.bool_())])
"""One row a `Piece`."""


class Piece(msgspec.Struct, frozen=True):
    """The rows of one run in one file."""

    file: str
    run: str
    rows: int
    exact: bool
    """Whether the file's columns have exactly the types of the schema, so that Spark's own reader can take them."""


@dataclass(frozen=True)
class Trace:
    """A trace that has been looked through: what its files hold is known, what its rows say is not."""

    folder: Path
    runs: Mapping[str, Run]
    files: Sequence[str]
    pieces: Sequence[Piece]

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    def pieces_of_runs(self) -> dict[str, list[Piece]]:
        """Run -> where its rows are, for every run that runs.jsonl describes, those without events too."""
        found: dict[str, list[Piece]] = {run: [] for run in self.runs}
        for piece in self.pieces:
            found[piece.run].append(piece)
        return found


def trace_bytes(folder: str | Path) -> int:
    """What a trace takes on disk. A file that is not there counts nothing: whoever reads it says what is wrong."""
    return sum(os.path.getsize(file) for file in event_files(Path(folder)) if os.path.exists(file))


def find_trace(gather: Gather, folder: str | Path, files: Sequence[str] | None = None) -> Trace:
    """Look through a trace; files that do not fit the schema are refused. `files` overrules which ones are read."""
    root = Path(folder)
    runs = {run.run: run for run in read_runs(root)}
    # Workers have working folders of their own.
    chosen = [str(file.resolve()) for file in event_files(root)] if files is None else list(files)
    parts = [chosen[at : at + FILES_PER_PIECE] for at in range(0, len(chosen), FILES_PER_PIECE)]
    todo = [msgspec.json.encode(part) for part in parts]
    # One piece is sooner done than handed out.
    found = (
        pa.Table.from_batches(_look_through(todo[0]), PIECES) if len(todo) == 1 else gather(todo, _look_through, PIECES)
    )
    pieces = [Piece(**row) for row in found.to_pylist()]
    for piece in pieces:
        if piece.run not in runs:
            raise UsageError(
                f"{piece.file}: has events of run {piece.run!r}, which runs.jsonl does not describe; add it there"
            )
    order = {file: number for number, file in enumerate(chosen)}
    pieces.sort(key=lambda piece: (order[piece.file], piece.run))
    return Trace(root, runs, chosen, pieces)


def _look_through(piece: bytes) -> Iterator[pa.RecordBatch]:
    for file in msgspec.json.decode(piece, type=list[str]):
        counts, exact = _count_runs(Path(file))
        rows = [{"file": file, "run": run, "rows": rows, "exact": exact} for run, rows in counts.items()]
        yield pa.RecordBatch.from_pylist(rows, schema=PIECES)


class _RunOnly(msgspec.Struct):
    run: str


def _count_runs(file: Path) -> tuple[dict[str, int], bool]:
    counts: dict[str, int] = {}
    if file.suffix == ".jsonl":
        for line in decode_lines(file, _RunOnly):
            counts[line.run] = counts.get(line.run, 0) + 1
        return counts, False
    # Refuses what cannot be read and columns that do not fit.
    events = EventFile(file)
    return events.count_runs(), events.exact
