"""How sure measures are: t over runs or slices, the bootstrap for quantiles, exact and approximate quantiles."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it
from scipy import stats

from ordercast.measure.bootstrap import bootstrap_quantiles
from ordercast.measure.grouping import SLICES, Grouping
from ordercast.measure.intervals import ratio_interval
from ordercast.measure.measures import COLUMNS, QUANTILES
from ordercast.spark.measure import intervals
from ordercast.spark.measure.intervals import sample
from ordercast.spark.measure.prepare import prepare
from ordercast.spark.measure.tables import SparkMeasures, latency_table, rows_of
from ordercast.spark.tables import open_trace, read_events
from ordercast.trace import Run, write_trace
from tests.check.build import events

RUNS = {"few": 3, "many": 12}
MESSAGES = 60


def random_run(protocol: str, number: int) -> tuple[Run, Any]:
    """Messages to one site, with latencies that differ from run to run and from message to message."""
    random = Random(f"{protocol} {number}")
    name = f"{protocol}-{number:02d}"
    base = random.gauss(1.0, 0.05)
    rows = []
    for message in range(MESSAGES):
        time = message + random.random() / 2
        rows.append(f"@{time} a multicast m{message} g")
        rows.append(f"@{time + base + random.expovariate(10)} b deliver m{message}")
    return Run(name, protocol=protocol, groups={"g": ["b"]}, ended_at=100.0), events("\n".join(rows), name)


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Latencies of all runs: by protocol, by run, and by protocol with approximate quantiles and bounded samples."""
    folder: Path = tmp_path_factory.mktemp("intervals") / "trace"
    write_trace(folder, [random_run(protocol, number) for protocol, runs in RUNS.items() for number in range(runs)])
    trace = open_trace(spark, folder)
    with prepare(read_events(spark, trace, columns=COLUMNS), list(trace.runs.values())) as prepared:
        measures = SparkMeasures(prepared)
        by_protocol, exact = measures.latency(Grouping("protocol"))
        assert exact
        by_run, _ = measures.latency(Grouping("run"))
        table, exact = latency_table(prepared, Grouping("protocol"), exact_max=100)
        assert not exact
        return {
            "protocol": {(row["protocol"], row["at"]): row for row in by_protocol},
            "run": {(row["run"], row["at"]): row for row in by_run},
            "approximate": {
                (row["protocol"], row["at"]): row for row in rows_of(table, ["protocol", "at"], Grouping("protocol"))
            },
        }


def test_with_units_of_one_size_the_interval_is_that_of_the_mean_of_means() -> None:
    means = np.array([1.0, 2.0, 4.0, 3.0])
    ratio, low, high = ratio_interval(10 * means, np.full(4, 10.0))
    assert ratio == 2.5
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 3, loc=2.5, scale=stats.sem(means)))


def test_one_unit_has_no_interval_and_none_has_no_ratio_and_empty_units_do_not_count() -> None:
    assert ratio_interval(np.array([6.0]), np.array([2.0]))[0] == 3.0
    assert np.isnan(ratio_interval(np.array([6.0]), np.array([2.0]))[1:]).all()
    assert np.isnan(ratio_interval(np.array([1.0]), np.array([0.0]))).all()
    given = ratio_interval(np.array([6.0, 8.0]), np.array([2.0, 2.0]))
    assert ratio_interval(np.array([6.0, 8.0, 0.0]), np.array([2.0, 2.0, 0.0])) == given


def test_what_is_never_negative_has_no_negative_interval() -> None:
    assert ratio_interval(np.array([0.0, 1.0, 0.0]), np.ones(3))[1] == 0.0
    assert ratio_interval(np.array([-1.0, 1.0, 0.0]), np.ones(3))[1] < 0.0


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    covered = 0
    for _ in range(400):
        sizes = random.integers(20, 60, 15)
        sums = np.array([random.exponential(2.0, size).sum() for size in sizes])
        _, low, high = ratio_interval(sums, sizes.astype(float))
        covered += low <= 2.0 <= high
    assert 0.92 <= covered / 400 <= 0.98


def test_the_bootstrap_is_close_to_the_truth_and_always_the_same() -> None:
    random = np.random.default_rng(2)
    values, units = random.exponential(1.0, 4000), np.arange(4000) % 40
    ((low, high),) = bootstrap_quantiles(values, units, [0.5], seed=3)
    assert low < np.log(2) < high
    assert high - low < 0.1
    assert bootstrap_quantiles(values, units, [0.5], seed=3) == [(low, high)]


def test_units_are_drawn_whole() -> None:
    # Ten runs of a hundred equal values each say no more than ten values.
    values, units = np.repeat(np.arange(10.0), 100), np.repeat(np.arange(10), 100)
    ((low, high),) = bootstrap_quantiles(values, units, [0.5], seed=1)
    assert high - low >= 3
    assert np.isnan(bootstrap_quantiles(values, np.zeros(1000, int), [0.5], seed=1)).all()


def test_more_runs_make_intervals_narrower(found: dict[str, Any]) -> None:
    for at in ("each", "all"):
        few, many = found["protocol"]["few", at], found["protocol"]["many", at]
        assert (few["units"], few["unit_count"]) == ("runs", 3)
        assert (many["units"], many["unit_count"]) == ("runs", 12)
        for name in ("mean", "p50"):
            widths = [row[f"{name}_high"] - row[f"{name}_low"] for row in (few, many)]
            if name == "mean":
                assert widths[1] < widths[0] / 2
            assert many[f"{name}_low"] <= many[name] <= many[f"{name}_high"]
        assert many["mean_low"] < 1.1 < many["mean_high"]


def test_within_one_run_slices_of_it_are_the_units(found: dict[str, Any]) -> None:
    for row in found["run"].values():
        assert (row["runs"], row["units"], row["unit_count"]) == (1, "slices", SLICES)
        assert 0 < row["mean_high"] - row["mean_low"] < 0.1


def test_approximate_quantiles_are_close_to_the_exact_ones(found: dict[str, Any]) -> None:
    for key, exact in found["protocol"].items():
        approximate = found["approximate"][key]
        assert approximate["count"] == exact["count"]
        for name in QUANTILES:
            # With so few values the approximation is the value next to the exact, interpolated one.
            assert approximate[name] == pytest.approx(exact[name], rel=0.05)


def test_a_sample_is_bounded_even_and_always_the_same(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "SAMPLE_MAX", 500)
    rows = spark.range(20_000).select((F.col("id") % 2).alias("key"), "id")
    sizes = rows.groupBy("key").agg(F.count("*").alias("size"))
    taken = [row.id for row in sample(rows, ["key"], sizes, ["id"]).collect()]
    assert 800 < len(taken) < 1200
    assert 0.4 < sum(number % 2 for number in taken) / len(taken) < 0.6
    assert 0.4 < sum(number < 10_000 for number in taken) / len(taken) < 0.6
    again = sample(rows.repartition(3), ["key"], sizes, ["id"]).collect()
    assert sorted(row.id for row in again) == sorted(taken)
