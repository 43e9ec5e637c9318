"""Campaigns on Spark: the same outcomes as here, gone on with after an interruption, failing runs kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ordercast.campaign import Outcome, Report, Violation, run_campaign
from ordercast.campaign.keep import keep_failures
from ordercast.campaign.state import Job
from ordercast.protocols import find_protocol
from ordercast.sim.scenario import load_scenario
from ordercast.spark.experiments.campaign import SparkCampaign
from ordercast.trace import read_events, read_runs

PROTOCOLS = ("fan-1", "sequencer")


def test_a_campaign_on_spark_finds_what_one_on_this_machine_finds(spark: SparkSession) -> None:
    told: list[tuple[int, int]] = []
    there = run_campaign(
        PROTOCOLS, range(6), run=SparkCampaign(spark).run, on_progress=lambda done, total: told.append((done, total))
    )
    assert there == run_campaign(PROTOCOLS, range(6), workers=1)
    assert told == [(done, 12) for done in range(13)]


def test_a_campaign_that_was_interrupted_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    asked: list[int] = []

    def run(jobs: Sequence[Job]) -> Iterator[Outcome]:
        asked.append(len(jobs))
        return SparkCampaign(spark).run(jobs)

    def until_interrupted(jobs: Sequence[Job]) -> Iterator[Outcome]:
        yield from islice(run(jobs), 5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_campaign(PROTOCOLS, range(6), run=until_interrupted, state=state)
    report = run_campaign(PROTOCOLS, range(6), run=run, state=state)
    assert asked == [12, 7]
    assert report == run_campaign(PROTOCOLS, range(6), workers=1)
    assert not state.exists(), "a finished campaign leaves nothing to go on with"


def test_the_traces_of_failing_runs_are_kept_with_their_scenarios(tmp_path: Path) -> None:
    # No protocol fails; a run that is said to is written all the same, and is the run of that seed.
    failing = Outcome("sequencer", 4, (Violation("R1", "so it is said"),))
    report = Report((failing, Outcome("sequencer", 5)))
    assert keep_failures(report, tmp_path / "kept") == 1
    assert sorted(file.name for file in (tmp_path / "kept").iterdir()) == ["sequencer-4", "sequencer-4.toml"]
    (run,) = read_runs(tmp_path / "kept" / "sequencer-4")
    assert (run.protocol, run.seed) == ("sequencer", 4)
    scenario = load_scenario(tmp_path / "kept" / "sequencer-4.toml", find_protocol)
    again = scenario.simulation().execute().table()
    assert len(again) == len(read_events(tmp_path / "kept" / "sequencer-4"))
    assert keep_failures(report, tmp_path / "kept") == 1, "a second time does not complain"
