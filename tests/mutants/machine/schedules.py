"""`python -m tests.mutants.machine.schedules PROTOCOL…`: which schedule finds which broken protocol first.

For each mutant of `tests/mutants`, those that were written for the schedules among them, the first seed of the swarm
that shows it, and of each schedule that looks for trouble; a dash where so many seeds (`--seeds`) did not. Of a
steered campaign it is the number of the run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from ordercast.campaign import Draw, run_draw, steer
from ordercast.campaign.schedules import SCHEDULES, is_stood
from tests.mutants.hunted import HUNTED
from tests.mutants.registry import MUTANTS, Mutant

SWARM = ""
"""No schedule."""
COLUMNS = (SWARM, *SCHEDULES)


def first_seed(mutant: Mutant, schedule: str, seeds: int) -> int | None:
    """The first seed that shows the mutant; None when none does, or the contract does not stand the schedule."""
    if schedule and not is_stood(mutant.broken, schedule):
        return None
    for seed in range(seeds):
        if run_draw(Draw(mutant.broken, seed, schedule=schedule)).outcome.violations:
            return seed
    return None


def first_steered(mutant: Mutant, runs: int) -> int | None:
    """The first run of a steered campaign that shows the mutant; None when none does."""
    outcomes = steer(mutant.broken, 0, runs)
    return next((number for number, outcome in enumerate(outcomes) if outcome.violations), None)


def rows(names: set[str], seeds: int) -> Iterator[list[str]]:
    """A row for each mutant of these protocols, or for all."""
    for mutant in (*MUTANTS, *(hunted.mutant for hunted in HUNTED)):
        if not names or mutant.protocol.contract.name in names or str(mutant) in names:
            found = [first_seed(mutant, schedule, seeds) for schedule in COLUMNS]
            found.append(first_steered(mutant, seeds))
            yield [str(mutant), *("–" if seed is None else str(seed + 1) for seed in found)]


def main(arguments: list[str]) -> None:
    """Print the table as Markdown, row by row."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.machine.schedules", description=__doc__)
    parser.add_argument("names", nargs="*", help="protocols or mutants; default all")
    parser.add_argument("--seeds", type=int, default=100)
    options = parser.parse_args(arguments)
    for file in sorted(Path(__file__).parents[1].glob("[a-z]*.py")):
        if not file.stem.startswith(("test_", "conftest", "registry", "explored")):
            import_module(f"tests.mutants.{file.stem}")
    print("| mutant | swarm |", " | ".join(SCHEDULES), "| steered |")
    print("| --- |" + " --- |" * (len(COLUMNS) + 1))
    for row in rows(set(options.names), options.seeds):
        print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
