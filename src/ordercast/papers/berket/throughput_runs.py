"""One group in which everyone sends as fast as it can: simulated with the prototype's limits, and live."""

from __future__ import annotations

from ordercast.bench.load import Load
from ordercast.bench.run import measure
from ordercast.papers.artefact import LiveRun
from ordercast.papers.berket.one_group import process_names, simulate_one_group
from ordercast.sim import Workload
from ordercast.spark.experiments import Point

START_SECONDS = 5.0
SECONDS = 10.0
SENDS_PER_SECOND = 100.0
"""The prototype waits ten milliseconds before each message (7.1.1)."""
PROCESSING_SECONDS = 1 / 900
"""The prototype processes 900 messages a second (7.1.1)."""

MEASURES = ("messages_per_second", "bytes_per_second", "lost")


def run_throughput(point: Point, seed: int) -> dict[str, float | None]:
    """Messages a second that the slowest process delivers, of so many that send at the prototype's rate."""
    count, size = int(point["processes"]), int(point["size"])
    names = process_names(count)
    simulation = simulate_one_group(
        names,
        [Workload(sources=names, groups=("g",), rate=SENDS_PER_SECOND, arrivals="regular", size=size)],
        processing=PROCESSING_SECONDS,
        seconds=START_SECONDS + SECONDS,
        seed=seed,
    ).execute()
    delivered = dict.fromkeys(names, 0)
    for row in simulation.table().select(["kind", "site", "time"]).to_pylist():
        if row["kind"] == "deliver" and row["time"] >= START_SECONDS:
            delivered[row["site"]] += 1
    rate = min(delivered.values()) / SECONDS
    return {"messages_per_second": rate, "bytes_per_second": rate * size, "lost": 0.0}


def measure_live(points: list[Point], seconds: float) -> list[LiveRun]:
    """The same on sockets, one cluster after the other, each process one of its own: as fast as this machine can."""
    found: list[LiveRun] = []
    for point in points:
        size = int(point["size"])
        load = Load(protocol="intergroup", nodes=int(point["processes"]), size=size, seconds=seconds)
        result = measure(load)
        rate = float(result["messages_per_second"])
        values = {"messages_per_second": rate, "bytes_per_second": rate * size, "lost": float(result["lost"])}
        found.append((point, values))
    return found
