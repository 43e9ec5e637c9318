"""What processes did with building blocks: one line of JSON each, in a file of each process.

The events of a trace say what was ordered. These rows say what applications made of it: who has held what, under which
fencing number, at which moment, who has worked on which item, who has changed a value, and who was answered.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

FOLDER = "uses"
"""Beside the trace, in the folder of a run."""

Block = Literal["lock", "election", "queue", "register", "map", "counter", "question"]
What = Literal[
    "held",
    "written",
    "refused",
    "put",
    "given",
    "finishing",
    "done",
    "late",
    "left",
    "changing",
    "changed",
    "reading",
    "read",
    "seen",
    "answered",
    "mistaken",
]


class Use(msgspec.Struct, frozen=True):
    """One row."""

    holder: str
    """The process, and which start of it."""
    block: Block
    what: What
    """Of locks and elections: `held` at this time, by the holder's own clock. Of the register that a lock protects:
    `written`, or `refused` because somebody has written with a greater number. Of queues: `put`, `given` to this
    holder, `finishing` (it is about to say that it is done), `done`, `late` (another one was given it), and `left` in
    the end. Of a key of a map and of a counter, each change of which is by one: `changing` and `reading` are calls that
    begin, `changed` and `read` their answers, `late` a compare-and-set that somebody else was before, `seen` a change
    as a watch tells it, and `left` the value in the end. Of questions: `answered`, or `mistaken` when an answer is to
    another question."""
    number: int
    """A fencing number, a term, the number of an item, a value, or how many have answered."""
    time: float
    """Seconds, on a clock that all processes of the machine share and nobody sets."""
    place: int = 0
    """The how manieth write of the register this is; of an item, which attempt; of a value, which call of its holder;
    of a question, how many answers were asked for."""


class UseFile:
    """Where one process writes its rows."""

    def __init__(self, folder: Path, process: str, start: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._holder = f"{process}.{start}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(folder / f"{self._holder}.jsonl", flags, 0o600)

    def write(self, block: Block, what: What, number: int, time: float, place: int = 0) -> None:
        """With the system at once: a process that is killed afterwards has done it all the same."""
        use = Use(self._holder, block, what, number, time, place)
        os.write(self._file, msgspec.json.encode(use) + b"\n")
