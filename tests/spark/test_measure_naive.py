"""Measures on Spark, against a plain computation row by row: of simulated runs with faults, and of random traces."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ordercast.measure import Grouping, Measured, measure_here
from ordercast.protocols import find_protocol
from ordercast.sim.scenario import load_scenario
from ordercast.spark.measure.folder import measure_folder
from ordercast.trace import EVENTS, Run
from tests.naive.generate import PROFILES, generate
from tests.spark.plans import compiled
from tests.spark.traces import Traced, write_scattered

SCENARIOS = ("sequencer-crash", "sequencer-loss", "fan-3-crash", "fan-2-loss", "broadcast", "token-loss")
RANDOM_TRACES = 6
"""Of each profile."""


def simulated() -> list[Traced]:
    made = []
    for name in SCENARIOS:
        simulation = load_scenario(name, find_protocol).simulation(seed=7)
        simulation.execute()
        made.append((simulation.header(), simulation.table()))
    return made


def random_traces() -> list[Traced]:
    made = []
    for profile in PROFILES:
        for seed in range(RANDOM_TRACES):
            run, rows = generate(profile, seed)
            described = msgspec.convert(run, Run)
            described.run = f"{profile}-{seed}"
            made.append((described, pa.Table.from_pylist([{**row, "run": described.run} for row in rows], EVENTS)))
    return made


@pytest.fixture(scope="module")
def traced() -> list[Traced]:
    return [*simulated(), *random_traces()]


@pytest.fixture(scope="module")
def trace(traced: list[Traced], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scattered(tmp_path_factory.mktemp("naive") / "trace", traced, files=2)


@pytest.fixture(scope="module")
def on_spark(spark: SparkSession, trace: Path) -> Measured:
    with compiled(spark):
        return measure_folder(spark, trace, Grouping("run"))


@pytest.fixture(scope="module", params=["here", "spark"])
def measured(request: pytest.FixtureRequest, trace: Path) -> Measured:
    return measure_here(trace, Grouping("run")) if request.param == "here" else request.getfixturevalue("on_spark")


class Naive:
    """What can be said of one run, by going through its rows."""

    def __init__(self, run: Run, table: pa.Table) -> None:
        self.run = run
        self.rows = sorted(table.to_pylist(), key=lambda row: (row["site"], row["seq"]))
        self.multicast: dict[str, dict[str, Any]] = {}
        for row in sorted(self.of("multicast"), key=lambda row: (row["time"], row["site"], row["seq"])):
            self.multicast.setdefault(row["message"], row)
        self.first: dict[tuple[str, str], dict[str, Any]] = {}
        for row in self.of("deliver"):
            self.first.setdefault((row["message"], row["site"]), row)

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["kind"] in kinds]

    def each(self) -> list[float]:
        return [
            row["time"] - self.multicast[message]["time"]
            for (message, _), row in self.first.items()
            if message in self.multicast
        ]

    def all(self) -> list[float]:
        sites = {row["site"] for row in self.rows} | {site for members in self.run.groups.values() for site in members}
        found = []
        for message, row in self.multicast.items():
            owed = {site for site in sites | set(row["destinations"] or []) if self.is_owed(site, row)}
            got = {site: first["time"] for (name, site), first in self.first.items() if name == message}
            if got and all(site in got or not self.is_up(site) for site in owed):
                found.append(max(got.values()) - row["time"])
        return found

    def is_owed(self, site: str, multicast: dict[str, Any]) -> bool:
        if multicast["destinations"]:
            return site in multicast["destinations"]
        for group in multicast["groups"] or []:
            moves = [row for row in self.of("join", "leave") if row["site"] == site and group in (row["groups"] or [])]
            inside = site in self.run.groups.get(group, [])
            for row in moves:
                if row["time"] <= multicast["time"]:
                    inside = row["kind"] == "join"
            if inside and not any(row["kind"] == "leave" and row["time"] > multicast["time"] for row in moves):
                return True
        return False

    def is_up(self, site: str) -> bool:
        last = [row["kind"] for row in self.of("fail", "recover") if row["site"] == site]
        return not last or last[-1] == "recover"

    def application_messages(self) -> tuple[int, int]:
        def count(row: dict[str, Any]) -> int:
            return row["count"] or (self.multicast.get(row["message"]) or {}).get("count") or 1

        return sum(map(count, self.multicast.values())), sum(map(count, self.first.values()))

    def busy_seconds(self) -> float | None:
        if not self.multicast:
            return None
        begin = min(row["time"] for row in self.multicast.values())
        return max(row["time"] for row in (*self.multicast.values(), *self.first.values())) - begin

    def packets(self) -> dict[tuple[str, bool], tuple[int, int]]:
        sizes = defaultdict(list)
        for row in self.of("send"):
            sizes[row["packet"] or "", row["messages"] is None].append(row["size"] or 0)
        return {kind: (len(values), sum(values)) for kind, values in sizes.items()}

    def retransmissions(self) -> dict[str, int]:
        heard = defaultdict(set)
        for row in self.of("receive", "drop"):
            heard[row["packet_id"]].add(row["site"])
        seen: set[tuple[Any, ...]] = set()
        repeated: Counter[str] = Counter()
        for row in self.of("send"):
            if row["messages"] is None:
                continue
            packet = row["packet"] or ""
            receivers = {row["peer"]} if row["peer"] else {None, *heard[row["packet_id"]]}
            carried = {(row["site"], to, packet, message) for to in receivers for message in row["messages"]}
            repeated[packet] += bool(carried & seen)
            seen |= carried
        return dict(repeated)


def test_latencies_agree(traced: list[Traced], measured: Measured) -> None:
    found = {(row["run"], row["at"]): row for row in measured.rows["latency"]}
    looked_at: Counter[str] = Counter()
    for run, table in traced:
        naive = Naive(run, table)
        for at, wanted in (("each", naive.each()), ("all", naive.all())):
            if not wanted:
                assert (run.run, at) not in found
                continue
            row = found[run.run, at]
            looked_at[at] += row["count"]
            assert row["count"] == len(wanted), (run.run, at)
            assert row["mean"] == pytest.approx(fmean(wanted))
            assert (row["min"], row["max"]) == pytest.approx((min(wanted), max(wanted)))
            for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
                assert row[name] == pytest.approx(np.quantile(wanted, part))
            assert row["negative"] == sum(latency < 0 for latency in wanted)
            if row["mean_low"] is not None:
                assert row["mean_low"] <= row["mean"] <= row["mean_high"]
    assert min(looked_at["each"], looked_at["all"]) > 1000


def test_throughput_agrees(traced: list[Traced], measured: Measured) -> None:
    found = {row["run"]: row for row in measured.rows["throughput"]}
    for run, table in traced:
        naive = Naive(run, table)
        seconds = naive.busy_seconds()
        if seconds is None:
            continue
        row = found[run.run]
        messages, deliveries = naive.application_messages()
        assert (row["multicasts"], row["messages"], row["deliveries"]) == (len(naive.multicast), messages, deliveries)
        assert row["seconds"] == pytest.approx(seconds)
        if seconds:
            assert row["messages_per_second"] == pytest.approx(messages / seconds)


def test_packets_load_and_drops_agree(traced: list[Traced], measured: Measured) -> None:
    packets: dict[str, dict[Any, Any]] = defaultdict(dict)
    for row in measured.rows["packets"]:
        packets[row["run"]][row["packet"], row["background"]] = (row["packets"], row["bytes"])
    load = {(row["run"], row["site"]): row["load"] for row in measured.rows["load"]}
    drops = {(row["run"], row["reason"]): row["packets"] for row in measured.rows["drops"]}
    for run, table in traced:
        naive = Naive(run, table)
        assert packets[run.run] == naive.packets()
        counted = Counter((run.run, row["site"]) for row in naive.of("send", "receive"))
        assert counted == {key: value for key, value in load.items() if key[0] == run.run}
        counted = Counter((run.run, row["reason"] or "unknown") for row in naive.of("drop"))
        assert counted == {key: value for key, value in drops.items() if key[0] == run.run}


def test_retransmissions_agree(traced: list[Traced], measured: Measured) -> None:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for row in measured.rows["retransmissions"]:
        found[row["run"]][row["packet"]] = row["packets"]
    total = 0
    for run, table in traced:
        wanted = Naive(run, table).retransmissions()
        assert found[run.run] == wanted, run.run
        total += sum(wanted.values())
    assert total > 100


@pytest.mark.parametrize("grouping", [Grouping("run"), Grouping("protocol"), Grouping("protocol", 0.25)], ids=str)
def test_this_process_and_spark_measure_the_same(
    spark: SparkSession, trace: Path, on_spark: Measured, grouping: Grouping
) -> None:
    with compiled(spark):
        there = on_spark if grouping == Grouping("run") else measure_folder(spark, trace, grouping)
    here = measure_here(trace, grouping)
    assert (here.exact, here.runs, here.events) == (there.exact, there.runs, there.events)
    assert list(here.rows) == list(there.rows)
    for name, rows in there.rows.items():
        assert len(here.rows[name]) == len(rows), name
        for mine, other in zip(here.rows[name], rows, strict=True):
            assert set(mine) == set(other), name
            for key, value in mine.items():
                # Sums of floating-point numbers depend on the order in which they are added.
                wanted = pytest.approx(other[key], rel=1e-9, abs=1e-12) if isinstance(value, float) else other[key]
                assert value == wanted, (name, key, mine, other)
