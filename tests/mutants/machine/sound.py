"""Runs of campaigns, and searches, that what is not broken does not pass either: they say nothing about a mutant.

A seed, or a search, that shows a mutant may be one that shows a fault of the code as it is, or of the core that a test
has put around a part. So each such run is made once more, by a process that has the modules as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator

from tests.mutants.machine.plan import CAMPAIGNS
from tests.mutants.machine.pool import Job, run_each
from tests.mutants.machine.trial import is_passed

STAGES = ("campaign", "search")


class Sound:
    """What is known of runs without any mutant."""

    def __init__(self, passes: Callable[[str], bool]) -> None:
        self._passes = passes
        """Whether the protocol as it is passes a run, as it is named."""
        self._passed: dict[str, bool] = {}

    @property
    def failing(self) -> frozenset[str]:
        """Runs to be left out."""
        return frozenset(run for run, passed in self._passed.items() if not passed)

    def shows(self, noticed: str | None) -> bool:
        """Whether what has noticed a mutant would not have noticed anything without it."""
        stage, _, detail = (noticed or "").partition(": ")
        run = detail.split(" ")[0]
        # Else it is an exception outside of any run.
        if stage not in STAGES or not (":" in run or "/" in run):
            return True
        if run not in self._passed:
            self._passed[run] = self._passes(run)
            if not self._passed[run]:
                print(f"{run} fails without any mutant: mend that, it is left out", file=sys.stderr, flush=True)
        return self._passed[run]


def run_soundly(
    jobs: Iterable[Job],
    trial: Callable[[Job, frozenset[str]], str | None],
    seconds: float,
    processes: int,
    passes: Callable[[str], bool] | None = None,
) -> Iterator[tuple[Job, str | None, float]]:
    """As `run_each`; whoever was noticed by a run that fails anyway is tried again without it. The second argument of a
    trial is what it leaves out."""
    sound = Sound(passes or (lambda run: _passes(run, seconds)))
    waiting = list(jobs)
    while waiting:
        again = []
        for job, noticed, used in run_each(waiting, lambda job: trial(job, sound.failing), seconds, processes):
            if sound.shows(noticed):
                yield job, noticed, used
            else:
                again.append(job)
        waiting = again


def _passes(run: str, seconds: float) -> bool:
    """In a process of its own, for this one never imports a protocol."""
    ((_, failed, _),) = run_each([run], lambda run: None if is_passed(run, CAMPAIGNS) else "fails", seconds, 1)
    return failed is None
