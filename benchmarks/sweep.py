"""Sweep throughput: an experiment on Spark beside the same runs in multiprocessing, on the same processors.

Both are warm (Java started, modules imported), both do the same runs, in turns, so that whatever else the machine does
hits both. Printed: seconds of each, and Spark's throughput as a share of multiprocessing's; the second by the processor
time that each used, which other work on the machine does not change.

    python benchmarks/sweep.py [--runs 600] [--turns 3] [--processors 2]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ordercast.spark.experiments import Experiment, Measure, Point, run_experiment
from ordercast.spark.experiments.order_matrix import run_cell
from ordercast.spark.session import BRIEF, open_session

MEASURES = [Measure(name) for name in ("single_source_order", "multiple_source_order", "multiple_group_order")]


def sweep(runs: int, turn: int) -> Experiment:
    """A real one: random runs of two protocols, of 20 to 50 ms each."""
    grid = {"algorithm": ["Two-phase (two-phase)", "Sequencer (sequencer)"], "network": ["broadcast", "point-to-point"]}
    number = max(1, runs // 4)
    return Experiment(
        f"sweep-{turn}",
        grid,
        "ordercast.spark.experiments.order_matrix:run_cell",
        MEASURES,
        repetitions_min=number,
        repetitions_max=number,
    )


def jobs_of(experiment: Experiment) -> list[tuple[Point, int]]:
    """The same runs, with the same seeds."""
    return [
        (point, experiment.seed(point, number))
        for point in experiment.points()
        for number in range(experiment.repetitions_min)
    ]


def run_job(job: tuple[Point, int]) -> dict[str, float | None]:
    return run_cell(*job)


class Spent(NamedTuple):
    """What something took: on the clock, and of processors."""

    seconds: float
    processor_seconds: float


def spent_on(action: Callable[[], object]) -> Spent:
    before, began = processor_seconds(), time.perf_counter()
    action()
    return Spent(time.perf_counter() - began, processor_seconds() - before)


def processor_seconds() -> float:
    """Of this process and all below it, Java included: what a busy machine cannot blur."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def is_ours(pid: int) -> bool:
        while pid > 1 and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return sum(seconds for pid, seconds in used.items() if is_ours(pid))


def main() -> None:
    parser = argparse.ArgumentParser(description="Sweep throughput of Spark beside multiprocessing.")
    parser.add_argument("--runs", type=int, default=600)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--processors", type=int, default=2)
    wanted = parser.parse_args()
    ratios: list[float] = []
    works: list[float] = []
    began = time.perf_counter()
    with (
        open_session("sweep", f"local[{wanted.processors}]", BRIEF) as spark,
        multiprocessing.get_context("spawn").Pool(wanted.processors) as pool,
        tempfile.TemporaryDirectory() as folder,
    ):
        print(f"session started in {time.perf_counter() - began:.1f} s, which is not counted below")
        warm = sweep(40, -1)
        run_experiment(warm, spark)
        pool.map(run_job, jobs_of(warm))
        for turn in range(wanted.turns):
            experiment = sweep(wanted.runs, turn)
            jobs = jobs_of(experiment)
            # Small chunks: the best that multiprocessing can do with runs of unlike length.
            with_pool = spent_on(partial(pool.map, run_job, jobs, 4))
            place = Path(folder) / str(turn)
            with_spark = spent_on(partial(run_experiment, experiment, spark, progress_file=place))
            again = spent_on(partial(pool.map, run_job, jobs, 4))
            ratios.append((with_pool.seconds + again.seconds) / 2 / with_spark.seconds)
            works.append((with_pool.processor_seconds + again.processor_seconds) / 2 / with_spark.processor_seconds)
            print(
                f"{len(jobs)} runs: multiprocessing {with_pool.seconds:.1f} s, Spark {with_spark.seconds:.1f} s, "
                f"multiprocessing {again.seconds:.1f} s; Spark has {ratios[-1]:.2f} of its throughput, "
                f"{works[-1]:.2f} by processor time",
                flush=True,
            )
    print(
        f"median: {statistics.median(ratios):.2f} by the clock, {statistics.median(works):.2f} by processor time "
        "(wanted: 0.85 or more)"
    )


if __name__ == "__main__":
    main()
