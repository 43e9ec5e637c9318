"""A standalone cluster of one master and two workers, all processes of this machine: everything runs on it, and gives
what it gives here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ordercast.spark.experiments import run_experiment
from ordercast.spark.java import prepare_environment
from tests.spark.cluster_driver import small_experiment
from tests.spark.processes import DEADLINE_SECONDS, process_group, wait_for

DRIVER = Path(__file__).with_name("cluster_driver.py")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a cluster that has two workers with a processor each."""
    folder = tmp_path_factory.mktemp("cluster")
    home = Path(pyspark.__file__).parent
    before = dict(os.environ)
    prepare_environment()
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["SPARK_DAEMON_JAVA_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    os.environ.clear()
    os.environ.update(before)
    # What a machine of the cluster does not have: the package comes with the session.
    environment.pop("PYTHONPATH", None)

    def start(stack: ExitStack, name: str, kind: str, *words: str) -> Path:
        log = folder / f"{name}.log"
        output = stack.enter_context(log.open("wb"))
        deploy = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        host = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        stack.enter_context(
            process_group([*deploy, *host, *words], stdout=output, stderr=output, env=environment, cwd=folder)
        )
        return log

    def finds(log: Path, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, log.read_text(errors="replace"))

    address = r"Starting Spark master at (spark://127\.0\.0\.1:\d+)"
    with ExitStack() as stack:
        log = start(stack, "master", "master.Master")
        wait_for(lambda: finds(log, address), "the master says where it is")
        found = finds(log, address)
        assert found is not None
        room = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"))
        workers = [start(stack, f"worker-{number}", "worker.Worker", *room, found[1]) for number in (1, 2)]
        registered = "Successfully registered with master"
        wait_for(lambda: all(finds(worker, registered) for worker in workers), "the workers register")
        yield found[1]


@pytest.fixture(scope="module")
def on_cluster(master: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the driver left when it had run everything there."""
    folder = tmp_path_factory.mktemp("on-cluster")
    result = subprocess.run(
        [sys.executable, str(DRIVER), master, str(folder)], capture_output=True, text=True, timeout=DEADLINE_SECONDS
    )
    assert result.returncode == 0, result.stderr
    return folder


def test_the_workers_have_the_package_from_the_session(on_cluster: Path) -> None:
    seen = json.loads((on_cluster / "workers.json").read_text())
    assert len({directory for directory, _ in seen}) == 2, "both workers have worked"
    assert all("ordercast.zip" in file for _, file in seen)


def test_an_experiment_gives_the_same_tables_on_one_processor_on_two_and_on_the_cluster(
    on_cluster: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark.sparkContext.defaultParallelism == 2
    run_experiment(small_experiment(), spark, tmp_path / "two")
    # One processor gets other tasks than two, and one after the other.
    monkeypatch.setattr(SparkContext, "defaultParallelism", 1)
    run_experiment(small_experiment(), spark, tmp_path / "one")
    for table in ("repetitions.parquet", "points.parquet"):
        there = pq.read_table(on_cluster / "experiment" / table)
        assert len(there) > 0
        for here in ("one", "two"):
            assert pq.read_table(tmp_path / here / table).equals(there), (here, table)


def test_a_campaign_runs_on_the_cluster(on_cluster: Path) -> None:
    document, code = answer(on_cluster, "campaign")
    assert (document["violations"], code) == ([], 0)
    assert document["runs"] == 3


def test_a_reproduction_runs_on_the_cluster(on_cluster: Path) -> None:
    folder = on_cluster / "results" / "spauster-classic-delay"
    assert json.loads((folder / "verdict.json").read_text())["verdict"] == "agrees"
    assert sorted(file.name for file in folder.iterdir()) == sorted(
        ["README.md", "data.csv", "data.parquet", "figure.png", "verdict.json"]
    )


def test_a_trace_is_verified_on_the_cluster(on_cluster: Path) -> None:
    document, code = answer(on_cluster, "verify")
    assert (document["violated_claims"], code) == (0, 0)
    (verdicts,) = document["runs"].values()
    assert verdicts["multiple-group-order"]["verdict"] == "holds"


def answer(folder: Path, name: str) -> tuple[dict[str, Any], int]:
    return json.loads((folder / f"{name}.json").read_text()), int((folder / f"{name}.code").read_text())
