"""What test_cluster.py runs as a user would, in its own process: `python cluster_driver.py MASTER FOLDER`."""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

import ordercast
from ordercast.cli import main
from ordercast.papers.registry import find_artefact
from ordercast.papers.reproduce import reproduce
from ordercast.papers.spauster import classic_delay
from ordercast.spark.experiments import Experiment, Measure, run_experiment
from ordercast.spark.session import BRIEF, open_session


def run(master: str, folder: Path) -> None:
    """Everything that a cluster is for."""
    with open_session(
        "cluster", master, {**BRIEF, "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    ) as spark:
        run_experiment(small_experiment(), spark, folder / "experiment")
        (folder / "workers.json").write_text(json.dumps(look_at_workers(spark)))
        artefact = replace(find_artefact("spauster-classic-delay"), experiment=lambda fast: small_experiment())
        reproduce(artefact, spark, folder / "results")
        campaign = ["simulate", "--campaign", "3", "--protocol", "sequencer"]
        command(folder, "campaign", [*campaign, "--master", master, "--json"])
        trace = str(folder / "trace")
        command(folder, "simulate", ["simulate", "sequencer-crash", "--trace", trace, "--json"])
        command(folder, "verify", ["verify", trace, "--master", master, "--json"])


def small_experiment() -> Experiment:
    """A few points of spauster-classic-delay, to a precision that takes several rounds."""
    return replace(
        classic_delay.experiment(True),
        grid={
            "network": ("point-to-point", "broadcast"),
            "algorithm": ("centralized", "two-phase", "token, L = 1", "token, L = 3", "timestamps"),
            "members": (2, 5),
            "sites": (8,),
        },
        measures=[
            Measure("delay", relative=0.02),
            Measure("packets"),
            Measure("packets_until_delivered", relative=0.02),
        ],
        repetitions_max=6,
    )


def look_at_workers(spark: SparkSession) -> list[list[str]]:
    """Which executor ran it, and where it has the package from, for some tasks."""
    return spark.sparkContext.parallelize(range(16), 16).map(_look).collect()


def _look(_: int) -> list[str]:
    return [os.getcwd(), ordercast.__file__]


def command(folder: Path, name: str, words: list[str]) -> None:
    """Run a command line in this process; it shares the session."""
    with (folder / f"{name}.json").open("w") as output, redirect_stdout(output):
        code = main(words)
    (folder / f"{name}.code").write_text(str(code))


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]))
