"""Berket 2000: the control hierarchy organises itself and heals, and shared losses are repaired about once (small runs,
without Spark)."""

from __future__ import annotations

from statistics import fmean
from typing import cast

import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ordercast.bench.summary import milliseconds_to_the_last
from ordercast.core import encoded_size
from ordercast.papers.artefact import Artefact
from ordercast.papers.berket import (
    hierarchy,
    hierarchy_runs,
    latency,
    latency_runs,
    membership,
    membership_runs,
    overhead,
    overhead_runs,
    repair,
    repair_runs,
    throughput,
    throughput_runs,
    wide_area,
    wide_area_runs,
)
from ordercast.protocols import find_protocol
from ordercast.spark.experiments.experiment import Point
from ordercast.wire.codec import Codec
from tests.protocols.intergroup.data_host import data
from tests.wire.cluster import make_endpoint


def rows(artefact: Artefact, runs: list[tuple[Point, dict[str, float | None]]]) -> pd.DataFrame:
    """One run of each point, as the pipeline would aggregate it."""
    found = []
    for point, measured in runs:
        row: dict[str, object] = {**point, "repetitions": 1}
        for name, value in measured.items():
            for suffix in ("", "_min", "_max"):
                row[name + suffix] = float("nan") if value is None else value
        found.append(row)
    figure = Figure()
    FigureCanvasAgg(figure)
    data = pd.DataFrame(found)
    artefact.draw(data, figure)
    return data


def verdicts(artefact: Artefact, data: pd.DataFrame) -> list[bool]:
    return [check.holds for check in artefact.checks(data)]


@pytest.fixture(scope="module")
def organised() -> pd.DataFrame:
    points: list[Point] = [
        {"story": story, "sites": sites, "regions": regions}
        for story in hierarchy_runs.STORIES
        for sites, regions in ((10, 1), (50, 5), (60, 40))
    ]
    return rows(hierarchy.ARTEFACT, [(point, hierarchy_runs.run_story(point, 1)) for point in points])


def test_control_processes_organise_themselves_and_heal(organised: pd.DataFrame) -> None:
    assert verdicts(hierarchy.ARTEFACT, organised) == [True] * 4


def test_a_verdict_about_the_hierarchy_follows_the_data(organised: pd.DataFrame) -> None:
    for column, failing in (("outside", 0), ("unsettled", 0), ("changes", 1)):
        worse = organised.copy()
        worse.loc[worse.story == "calm", f"{column}_max"] = 1.0
        assert verdicts(hierarchy.ARTEFACT, worse).index(False) == failing
    for story, failing in (("crash", 2), ("partition", 3)):
        worse = organised.copy()
        worse.loc[worse.story == story, "unsettled_max"] = 1.0
        assert verdicts(hierarchy.ARTEFACT, worse).index(False) == failing
    many = pd.concat([organised, *(_calm(organised, sites, heard) for sites, heard in ((200, 1000.0), (2000, 1290.0)))])
    assert verdicts(hierarchy.ARTEFACT, many) == [True] * 6
    many.loc[many.sites == 2000, "bytes_mean"] = 1400.0
    many.loc[many.sites == 2000, "processor_seconds"] = 200.0
    assert verdicts(hierarchy.ARTEFACT, many)[-2:] == [False, False]


def _calm(data: pd.DataFrame, sites: int, heard: float) -> pd.DataFrame:
    calm = data[data.story == "calm"].copy()
    calm["sites"], calm["bytes_mean"], calm["processor_seconds"] = sites, heard, 100.0
    return calm


def test_the_grid_has_every_size_with_every_number_of_regions() -> None:
    points = hierarchy.experiment(False).points()
    calm = {(point["sites"], point["regions"]) for point in points if point["story"] == "calm"}
    assert {(sites, regions) for sites in (10, 2000) for regions in (1, 5, 40)} <= calm
    assert {"story": "crash", "sites": 2000, "regions": 40} in points
    assert max(int(point["sites"]) for point in hierarchy.experiment(True).points()) == 200


def test_few_ask_for_a_loss_that_all_share_once_timers_have_adapted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair_runs, "SECONDS", 200.0)
    points: list[Point] = [{"receivers": 16, "regions": 1, "timers": timers} for timers in repair_runs.TIMERS]
    runs = [(point, repair_runs.run_repair(point, 1)) for point in points]
    adaptive, fixed, at_once = (repair.after_adaptation(pd.Series(measured), "requests") for _, measured in runs)
    assert adaptive < 1.5 < fixed < 8 < at_once
    repairs = [repair.after_adaptation(pd.Series(measured), "repairs") for _, measured in runs]
    assert max(repairs) < 1.5
    wide = {**points[0], "receivers": 100, "regions": 10}
    data = rows(repair.ARTEFACT, [*runs, (wide, runs[0][1])])
    assert verdicts(repair.ARTEFACT, data) == [True] * 3
    for timers, failing in (("adaptive", 0), ("at-once", 2)):
        worse = data.copy()
        for window in range(repair_runs.WINDOWS):
            worse.loc[worse.timers == timers, f"requests_{window}"] = 4.0
        assert verdicts(repair.ARTEFACT, worse).index(False) == failing


# ---------------------------------------------------------------------- 7.1.3
def test_what_crosses_the_network_without_errors_is_data_keep_alives_and_control(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overhead_runs, "START_SECONDS", 10.0)
    monkeypatch.setattr(overhead_runs, "SECONDS", 3.0)
    points: list[Point] = [
        {"processes": 3, "size": size, "rate": rate} for size in overhead.PRINTED for rate in (10.0, 100.0)
    ]
    found = rows(overhead.ARTEFACT, [(point, overhead_runs.run_overhead(point, 1)) for point in points])
    assert verdicts(overhead.ARTEFACT, found) == [True] * 5
    for column, value, failing in (
        ("overhead_percent", 50.0, 0),
        ("other_packets", 1e9, 1),
        ("control_share", 0.4, 2),
        ("control_received_per_second", 99.0, 4),
    ):
        worse = found.copy()
        worse[column] = value
        assert verdicts(overhead.ARTEFACT, worse).index(False) == failing
    worse = found.copy()
    worse.loc[worse.rate == 100.0, "keep_alive_share"] = 0.2
    assert verdicts(overhead.ARTEFACT, worse).index(False) == 3


@pytest.mark.parametrize("size", overhead.PRINTED)
def test_the_bytes_of_a_datagram_are_those_of_a_real_one(size: int) -> None:
    endpoint = make_endpoint("b", codec=Codec({"main": find_protocol("intergroup").packets}), max_datagram=65000)
    message = data("b", 5, 2_000_000_000_000, payload=bytes(size))
    endpoint.broadcast("group/g", "main", message)
    (outgoing,) = endpoint.flush()
    assert len(bytes(outgoing.buffer)) + 28 == encoded_size(message) + overhead_runs.DATAGRAM_BYTES


@pytest.fixture(scope="module")
def changed() -> pd.DataFrame:
    points: list[Point] = [
        {"change": change, "senders": senders, "receivers": receivers}
        for change in membership_runs.CHANGES
        for senders, receivers in ((4, 0), (8, 0), (16, 0), (4, 50))
    ]
    return rows(membership.ARTEFACT, [(point, _on_average(point)) for point in points])


def _on_average(point: Point) -> dict[str, float | None]:
    """Of as many runs as the artefact has, where chance has a say."""
    seeds = range(membership.REPETITIONS if point["change"] == "merge" else 1)
    runs = [membership_runs.run_change(point, seed) for seed in seeds]
    return {name: fmean(cast(float, run[name]) for run in runs) for name in membership_runs.MEASURES}


def test_a_change_of_the_sender_group_costs_what_the_senders_are(changed: pd.DataFrame) -> None:
    assert verdicts(membership.ARTEFACT, changed) == [True] * 5
    left = changed.set_index("change").members - changed.set_index("change").senders
    assert [set(left[change]) for change in membership_runs.CHANGES] == [{1.0}, {-1.0}, {-1.0}, {0.0}]


def test_a_verdict_about_changes_follows_the_data(changed: pd.DataFrame) -> None:
    for column, value, failing in (
        ("received", 1.0, 0),
        ("packets_max", 100.0, 2),
        ("views_max", 4.0, 3),
        ("change_seconds_max", 99.0, 4),
    ):
        worse = changed.copy()
        worse.loc[
            (worse.senders == 16) & (worse.change == "PAdd" if column == "packets_max" else worse.change != "merge"),
            column,
        ] = value
        assert verdicts(membership.ARTEFACT, worse).index(False) == failing


def test_the_prototypes_limits_give_its_rates_and_live_must_be_above_the_tables() -> None:
    artefact = throughput.ARTEFACT
    points: list[Point] = [{"system": "simulated", "processes": count, "size": 1} for count in (1, 2)]
    runs = [(point, throughput_runs.run_throughput(point, 1)) for point in points]
    measured = {"messages_per_second": 1000.0, "bytes_per_second": 1000.0, "lost": 0.0}
    live: list[tuple[Point, dict[str, float | None]]] = [
        ({"system": "live", "processes": count, "size": 1}, {**measured}) for count in (1, 2, 8)
    ]
    assert verdicts(artefact, rows(artefact, [*runs, *live])) == [True, True, True]
    live[1][1]["messages_per_second"] = 153.0
    live[2][1]["lost"] = 1.0
    assert verdicts(artefact, rows(artefact, [*runs, *live])) == [False, False, True]


def test_simulated_latencies_keep_equation_7_1_and_live_ones_nearly_all() -> None:
    artefact = latency.ARTEFACT
    points: list[Point] = [
        {"system": "simulated", "rate": rate, "processes": 4, "size": 1} for rate in (latency.SLOW, latency.FULL)
    ]
    runs = [(point, latency_runs.run_latency(point, 1)) for point in points]
    live: list[tuple[Point, dict[str, float | None]]] = [
        ({**point, "system": "live"}, {**values}) for point, values in runs
    ]
    assert verdicts(artefact, rows(artefact, [*runs, *live])) == [True, True, True]
    live[0][1]["within_scheduling"] = 0.98
    live[1][1]["q50_ms"] = 80.0
    assert verdicts(artefact, rows(artefact, [*runs, *live])) == [True, False, False]


def test_between_two_places_the_order_of_all_costs_a_keep_alive() -> None:
    artefact = wide_area.ARTEFACT
    point: Point = {"system": "simulated", "lossy": False, "warm_up_seconds": 2.0, "run_seconds": 20.0}
    calm = wide_area_runs.run_wide_area(point, 1)
    lossy: tuple[Point, dict[str, float | None]] = ({**point, "lossy": True}, {**calm, "once_largest_ms": 251.0})
    assert verdicts(artefact, rows(artefact, [(point, calm), lossy])) == [True, True, False]
    late: tuple[Point, dict[str, float | None]] = ({**point, "system": "live"}, {**calm, "largest_ms": 151.0})
    assert verdicts(artefact, rows(artefact, [(point, calm), late, lossy])) == [True, False, False]


def test_a_message_is_everywhere_when_the_slowest_has_it() -> None:
    reports = [{"stamps": [1, 2, 3], "latencies": [5e6, 1e6, 7e6]}, {"stamps": [2, 1], "latencies": [4e6, 2e6]}]
    assert milliseconds_to_the_last(reports) == [4.0, 5.0]
