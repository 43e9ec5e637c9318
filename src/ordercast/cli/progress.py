"""A progress bar for what takes long, on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ordercast.sim import Simulation

PATIENCE_SECONDS = 2.0
"""What is done within this time needs no bar."""
_STEPS = 200


def execute_with_progress(simulation: Simulation, name: str) -> None:
    """Execute the run; a bar appears when it takes long."""
    total = simulation.ended_at
    bar = _bar(TextColumn("{task.completed:.1f} of {task.total:.1f} simulated seconds"), TimeElapsedColumn())
    task = bar.add_task(name.replace("[", r"\["), total=total)
    began = time.monotonic()

    def tick() -> None:
        if bar.live.is_started:
            bar.update(task, completed=simulation.queue.now)
        elif time.monotonic() - began > PATIENCE_SECONDS:
            bar.start()

    # Looking on changes nothing: ticks touch no site and no random stream, and leave the order of all else as it is.
    for step in range(1, _STEPS):
        simulation.queue.schedule(total * step / _STEPS, tick)
    try:
        simulation.execute()
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def late_bar(name: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar with the time that is left, on standard error; it appears when the work takes long."""
    bar = _bar(MofNCompleteColumn(), TimeRemainingColumn())
    task = bar.add_task(name, total=None)
    began = time.monotonic()

    def on_progress(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if not bar.live.is_started and time.monotonic() - began > PATIENCE_SECONDS:
            bar.start()

    try:
        yield on_progress
    finally:
        if bar.live.is_started:
            bar.stop()


def _bar(*columns: ProgressColumn) -> Progress:
    console = Console(stderr=True)
    # Where nobody looks on, all that would be left of it is an empty line.
    watched = console.is_terminal
    return Progress(
        TextColumn("{task.description}"), BarColumn(), *columns, console=console, transient=True, disable=not watched
    )
