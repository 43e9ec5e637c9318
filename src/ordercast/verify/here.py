"""Verification in this process: for traces that are judged in less time than Java takes to start."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from ordercast.check import Choice
from ordercast.check.choice import check_claims
from ordercast.trace.pieces import Trace, Work
from ordercast.verify.files import FINDINGS, judge_files
from ordercast.verify.place import Judged, verdicts_of
from ordercast.verify.plan import Task, assign


class Here:
    """This process. One file and its run are in memory at a time."""

    def gather(self, pieces: Sequence[bytes], work: Work, schema: pa.Schema) -> pa.Table:
        """Piece after piece."""
        return pa.Table.from_batches((batch for piece in pieces for batch in work(piece)), schema)

    def judge(self, trace: Trace, choice: Choice) -> Judged:
        """Run after run, in the order in which they lie in the files."""
        check_claims(trace.runs.values())
        task = Task(assign(trace.runs, trace.pieces_of_runs()), choice)
        found = self.gather([msgspec.msgpack.encode(task)], judge_files, FINDINGS).to_pylist()
        return Judged(verdicts_of((row for row in found if row["number"] == 0), trace.runs, choice))
