"""Experiments: seeds, tasks, precision, tables; interrupted, killed and gone on with."""

from __future__ import annotations

import math
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from scipy import stats

from ordercast.core import UsageError
from ordercast.spark.experiments import Experiment, Measure, Point, aggregate, run_experiment
from ordercast.spark.experiments.plan import TASK_SECONDS, pack, spread
from ordercast.spark.experiments.precision import half_width, target
from ordercast.spark.experiments.store import Record, Store
from tests.spark.processes import DEADLINE_SECONDS, living, process_group, wait_for
from tests.support import RUN_ORDERCAST

FUNCTIONS = """
import random, time

def noisy(point, seed):
    source = random.Random(seed)
    return {"height": source.gauss(point["mean"], 1.0), "seed_seen": seed}

def slow(point, seed):
    end = time.perf_counter() + 0.1
    while time.perf_counter() < end:
        pass
    return {"height": random.Random(seed).random()}

def broken(point, seed):
    if point["mean"] == 2:
        raise ValueError("no such height")
    return {"height": 1.0}

def gaps(point, seed):
    return {"height": None if seed % 2 else 1.0}
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module of the user's own, which the workers do not have."""
    folder = tmp_path_factory.mktemp("functions")
    (folder / "heights.py").write_text(FUNCTIONS)
    sys.path.insert(0, str(folder))
    return folder


def heights(function: str = "noisy", **changes: Any) -> Experiment:
    given: dict[str, Any] = {
        "name": "heights",
        "grid": {"mean": [2, 5], "kind": ["a", "b"]},
        "function": f"heights:{function}",
        "measures": [Measure("height", relative=0.1)],
    }
    return Experiment(**{**given, **changes})


# ---------------------------------------------------------------------- what needs no session
def test_a_seed_depends_on_experiment_point_and_repetition_and_on_nothing_else() -> None:
    experiment = heights()
    point: Point = {"mean": 2, "kind": "a"}
    seeds = {experiment.seed(each, number) for each in experiment.points() for number in range(50)}
    assert len(seeds) == 4 * 50
    assert experiment.seed(point, 3) == heights(grid={"kind": ["a"], "mean": [2]}).seed({"kind": "a", "mean": 2}, 3)
    assert experiment.seed(point, 3) != heights(name="weights").seed(point, 3)
    # Written down: a seed of yesterday's table gives yesterday's run.
    assert experiment.seed(point, 3) == 2877567270567888822
    assert experiment.key(point, 3) == "967eca78fb2fc3c01ac9c9bc939a81ff"


def test_tasks_are_of_a_second_or_more_all_alike_and_hold_every_run_once() -> None:
    costs = [0.032] * 600 + [0.3] * 7
    groups = pack(costs, 4)
    assert sorted(place for group in groups for place in group) == list(range(607))
    seconds = [sum(costs[place] for place in group) for group in groups]
    assert len(groups) % 4 == 0
    assert min(seconds) >= TASK_SECONDS
    assert max(seconds) / min(seconds) < 1.05


def test_little_work_is_still_shared_and_tiny_work_is_not() -> None:
    assert len(pack([0.1] * 10, 2)) == 2
    assert len(pack([0.01] * 10, 2)) == 1
    assert pack([], 2) == []
    assert pack([0.0, 0.0], 8) == [[0, 1]]
    assert spread(3, 9) == [0, 3, 6]
    assert spread(9, 3) == [0, 1, 2]


def test_the_interval_is_students() -> None:
    values = [3.0, 4.5, 2.0, 8.0, 5.5]
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert half_width(values) == pytest.approx((high - low) / 2)
    assert half_width([1.0]) == math.inf


def test_repetitions_go_on_until_the_interval_is_narrow_enough_or_the_maximum_is_reached() -> None:
    random = np.random.default_rng(3)
    values = [{"height": float(value)} for value in random.normal(2.0, 1.0, 5000)]
    experiment = heights()
    count = target(experiment, lambda number: values[number])
    heights_taken = [row["height"] for row in values[:count]]
    assert half_width(heights_taken) <= 0.1 * float(np.mean(heights_taken))
    assert target(heights(repetitions_max=30), lambda number: values[number]) == 30
    assert target(heights(measures=[Measure("height", absolute=10.0)]), lambda number: values[number]) == 5
    # What is not there yet does not count, wherever the gap is.
    assert target(experiment, lambda number: values[number] if number < 4 else None) == 5


def test_a_line_that_was_cut_off_is_no_record_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    file = tmp_path / "progress.jsonl"
    store = Store(file)
    store.add([Record("one", {"x": 1.5}, 0.1), Record("two", {"x": None}, 0.1)])
    store.close()
    file.write_bytes(file.read_bytes()[:-5])
    store = Store(file)
    assert set(store.records) == {"one"}
    store.add([Record("two", {"x": 0.1 + 0.2}, 0.1)])
    store.close()
    store = Store(file)
    assert store.records["two"].values["x"] == 0.1 + 0.2
    with pytest.raises(UsageError, match="another process"):
        Store(file)
    store.close()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"grid": {"Mean": [1]}}, "cannot be a column"),
        ({"grid": {"repetition": [1]}}, "cannot be a column"),
        ({"grid": {"height": [1]}}, "two things"),
        ({"grid": {"mean": [1, "a"]}}, "not a mixture"),
        ({"grid": {"mean": [math.inf]}}, "finite"),
        ({"measures": []}, "at least one measure"),
        ({"repetitions_min": 9, "repetitions_max": 3}, "repetitions_min"),
    ],
)
def test_an_experiment_that_makes_no_sense_is_refused_in_one_line(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        heights(**changes)


# ---------------------------------------------------------------------- on Spark
def test_every_point_is_known_as_exactly_as_asked_for(spark: SparkSession, functions: Path, tmp_path: Path) -> None:
    experiment = heights(measures=[Measure("height", relative=0.1), Measure("seed_seen")])
    told: list[tuple[int, int]] = []
    results = run_experiment(experiment, spark, tmp_path, on_progress=lambda done, total: told.append((done, total)))
    table = pq.read_table(tmp_path / "repetitions.parquet")
    points = pq.read_table(tmp_path / "points.parquet").to_pylist()
    assert table.equals(results.repetitions)
    assert [(row["mean"], row["kind"]) for row in points] == [(2, "a"), (2, "b"), (5, "a"), (5, "b")]
    for row in points:
        mine = table.to_pandas().query("mean == @row['mean'] and kind == @row['kind']")
        assert row["repetitions"] == len(mine)
        assert row["height"] == pytest.approx(mine.height.mean())
        assert row["height_half_width"] == pytest.approx(half_width(mine.height.tolist()))
        assert row["height_half_width"] <= 0.1 * row["height"]
        assert (row["height_min"], row["height_max"]) == (mine.height.min(), mine.height.max())
    # The seed is the run's (a measure is a float, and has the first 53 bits of it).
    assert table.column("seed_seen").to_pylist() == [float(seed) for seed in table.column("seed").to_pylist()]
    assert told[-1] == (len(table), len(table))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_what_was_run_is_not_run_again_also_when_the_grid_grows(
    spark: SparkSession, functions: Path, tmp_path: Path
) -> None:
    first = run_experiment(heights(), spark, tmp_path)
    assert first.runs_made == first.repetitions.num_rows
    assert run_experiment(heights(), spark, tmp_path).runs_made == 0
    larger = run_experiment(heights(grid={"mean": [2, 5, 9], "kind": ["a", "b"]}), spark, tmp_path)
    assert larger.runs_made == larger.repetitions.num_rows - first.repetitions.num_rows
    exacter = run_experiment(heights(measures=[Measure("height", relative=0.09)]), spark, tmp_path)
    assert 0 < exacter.runs_made < exacter.repetitions.num_rows


def test_a_run_that_fails_is_named_and_what_was_done_is_kept(
    spark: SparkSession, functions: Path, tmp_path: Path
) -> None:
    assert run_experiment(heights("broken", grid={"mean": [1]}), spark, tmp_path).runs_made == 5
    with pytest.raises(UsageError, match=r"heights:broken\(\{'mean': 2.*ValueError: no such height"):
        run_experiment(heights("broken", grid={"mean": [1, 2]}), spark, tmp_path)
    assert run_experiment(heights("broken", grid={"mean": [1]}), spark, tmp_path).runs_made == 0
    with pytest.raises(UsageError, match="names no function"):
        run_experiment(heights("absent"), spark)
    with pytest.raises(UsageError, match="no measure 'weight'"):
        run_experiment(heights(measures=[Measure("weight")]), spark)


def test_a_measure_that_some_runs_do_not_have_is_averaged_over_those_that_do(
    spark: SparkSession, functions: Path
) -> None:
    experiment = heights("gaps", repetitions_min=20, repetitions_max=20)
    table = run_experiment(experiment, spark).repetitions
    assert 0 < table.column("height").null_count < len(table)
    rows = aggregate(spark, experiment, table).collect()
    assert [(row["repetitions"], row["height"]) for row in rows] == [(20, 1.0)] * 4


# ---------------------------------------------------------------------- killed and interrupted
DRIVER = """
import sys
from pathlib import Path
from ordercast.spark.experiments import Experiment, Measure, run_experiment
from ordercast.spark.session import BRIEF, open_session

sys.path.insert(0, sys.argv[1])
experiment = Experiment("heights", {"mean": [2, 5], "kind": ["a", "b"]}, "heights:slow", [Measure("height")],
                        repetitions_min=12, repetitions_max=12)
with open_session("experiment", "local[2]", BRIEF) as spark:
    run_experiment(experiment, spark, Path(sys.argv[2]))
"""


def test_an_experiment_whose_driver_is_killed_goes_on_where_it_was(
    spark: SparkSession, functions: Path, tmp_path: Path
) -> None:
    progress = tmp_path / "progress.jsonl"
    with process_group([sys.executable, "-c", DRIVER, str(functions), str(tmp_path)]) as driver:
        wait_for(lambda: progress.exists() and progress.read_bytes().count(b"\n") > 4, "some runs are done")
        driver.kill()
        driver.wait()
        wait_for(lambda: not living(driver.pid), "Java and the workers have noticed and gone")
    done = progress.read_bytes().count(b"\n")
    assert done < 48, "it was over before it could be killed"
    experiment = heights("slow", measures=[Measure("height")], repetitions_min=12, repetitions_max=12)
    resumed = run_experiment(experiment, spark, tmp_path)
    assert resumed.runs_made == 48 - done
    assert resumed.repetitions.equals(run_experiment(experiment, spark).repetitions)


@pytest.mark.own_process
def test_a_campaign_of_twenty_thousand_runs_shows_how_far_it_is_and_can_be_interrupted(tmp_path: Path) -> None:
    """Ctrl-C reaches the whole group of processes, as it does from a terminal."""
    state = tmp_path / "state.jsonl"
    command = ["simulate", "--campaign", "20000", "--protocol", "fan-1", "--master", "local[2]", "--state", str(state)]
    master, terminal = pty.openpty()
    with (
        os.fdopen(master, "rb", buffering=0) as screen,
        process_group(
            [sys.executable, "-c", RUN_ORDERCAST, *command],
            stdout=subprocess.DEVNULL,
            stderr=terminal,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        ) as driver,
    ):
        os.set_blocking(master, False)
        shown = bytearray()

        def sees(pattern: bytes) -> bool:
            shown.extend(screen.read() or b"")
            return re.search(pattern, shown) is not None

        wait_for(lambda: state.exists() and state.read_bytes().count(b"\n") > 10, "some runs are done")
        wait_for(lambda: sees(rb"\d/20000"), "the bar says how many of how many")
        # Hours, minutes and seconds that are left, as soon as there is a speed to tell them from.
        wait_for(lambda: sees(rb"\d:\d\d:\d\d"), "the bar says how long it will take")
        os.killpg(driver.pid, signal.SIGINT)
        assert driver.wait(DEADLINE_SECONDS) == 130
        assert living(driver.pid) == []
    os.close(terminal)
    assert b"Traceback" not in shown
    done = state.read_bytes().count(b"\n")
    assert 10 < done < 20000, "what was done is kept"
