"""The runs of a campaign on Spark's workers: seeds go out, outcomes come back. A trace is worth less than its seed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec
from pyspark.sql import SparkSession

from ordercast.campaign import Outcome, Profile, run_seed
from ordercast.campaign.state import Job
from ordercast.protocols import find_protocol
from ordercast.spark.experiments.plan import pack
from ordercast.spark.experiments.scatter import scatter

SAMPLE_SEEDS = 2
"""Of each protocol, to learn how long its runs take: they differ by a factor of ten between protocols, and by less
between the seeds of one."""


class _Task(msgspec.Struct, frozen=True):
    profile: Profile
    jobs: list[Job]


class _Answer(msgspec.Struct, frozen=True):
    outcomes: list[Outcome]
    seconds: dict[str, float]
    """Protocol -> what its runs in this task took."""


class SparkCampaign:
    """Runs jobs of a campaign on a session's workers."""

    def __init__(self, spark: SparkSession, profile: Profile = "usual") -> None:
        self._spark = spark
        self._profile = profile
        self._seconds: dict[str, float] = {}
        self._runs: dict[str, int] = {}

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """The outcomes of all jobs, as they come."""
        sample = self._sample(jobs)
        sampled = set(sample)
        yield from self._run(sample)
        yield from self._run([job for job in jobs if job not in sampled])

    def _sample(self, jobs: Sequence[Job]) -> list[Job]:
        taken: dict[str, list[Job]] = {}
        for job in jobs:
            mine = taken.setdefault(job[0], [])
            if len(mine) < SAMPLE_SEEDS:
                mine.append(job)
        return [job for mine in taken.values() for job in mine]

    def _run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        parallelism = self._spark.sparkContext.defaultParallelism
        groups = pack([self._estimate(protocol) for protocol, _ in jobs], parallelism)
        tasks = [msgspec.json.encode(_Task(self._profile, [jobs[place] for place in group])) for group in groups]
        for answer in scatter(self._spark, f"{__name__}:work", tasks, "campaign"):
            done = msgspec.json.decode(answer, type=_Answer)
            for outcome in done.outcomes:
                self._runs[outcome.protocol] = self._runs.get(outcome.protocol, 0) + 1
                yield outcome
            for protocol, seconds in done.seconds.items():
                self._seconds[protocol] = self._seconds.get(protocol, 0.0) + seconds

    def _estimate(self, protocol: str) -> float:
        """Seconds of a run; before there is any, what most protocols take."""
        runs = self._runs.get(protocol, 0)
        return self._seconds[protocol] / runs if runs else 0.05


def work(task: bytes) -> bytes:
    """On a worker: run the seeds of a task."""
    outcomes: list[Outcome] = []
    seconds: dict[str, float] = {}
    todo = msgspec.json.decode(task, type=_Task)
    for protocol, seed in todo.jobs:
        began = time.perf_counter()
        outcomes.append(run_seed(find_protocol(protocol), seed, todo.profile).outcome)
        seconds[protocol] = seconds.get(protocol, 0.0) + time.perf_counter() - began
    return msgspec.json.encode(_Answer(outcomes, seconds))
