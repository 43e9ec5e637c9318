"""One group in which everyone sends at a rate: how long it takes until everybody has delivered, simulated and live."""

from __future__ import annotations

from random import Random

from ordercast.bench.load import Load
from ordercast.bench.run import run_load
from ordercast.bench.summary import milliseconds_to_the_last
from ordercast.papers.artefact import LiveRun
from ordercast.papers.berket.latencies import MEASURES as SUMMARY
from ordercast.papers.berket.latencies import simulated, summary
from ordercast.papers.berket.one_group import LATENCY_SECONDS, process_names, simulate_one_group
from ordercast.sim import Workload
from ordercast.spark.experiments import Point

START_SECONDS = 5.0
SECONDS = 20.0
PROCESSING_SECONDS = 0.00005
KEEP_ALIVE_SECONDS = 0.075
"""The most that the prototype waited (7.1.2)."""

MEASURES = (*SUMMARY, "bound_ms", "within_bound", "within_scheduling")
SCHEDULING_MS = 10.0
"""What the scheduling of the machine may add, live."""


def _held(milliseconds: list[float], bound: float) -> dict[str, float | None]:
    """The latencies, and which share of them is within Equation 7.1, and within that and the scheduling."""
    if not milliseconds:
        return dict.fromkeys(MEASURES)
    within = sum(each <= bound for each in milliseconds) / len(milliseconds)
    later = sum(each <= bound + SCHEDULING_MS for each in milliseconds) / len(milliseconds)
    return {**summary(milliseconds), "bound_ms": bound, "within_bound": within, "within_scheduling": later}


def run_latency(point: Point, seed: int) -> dict[str, float | None]:
    """So many processes, each of which multicasts at a rate."""
    count, rate = int(point["processes"]), float(point["rate"])
    names = process_names(count)
    random = Random(f"berket latency {seed}")
    simulation = simulate_one_group(
        names,
        # Each from a moment of its own: what all send at once needs no Keep Alive.
        [
            Workload(
                sources=(name,),
                groups=("g",),
                rate=rate,
                arrivals="regular",
                size=int(point["size"]),
                start=random.uniform(0.0, 1 / rate),
            )
            for name in names
        ],
        processing=PROCESSING_SECONDS,
        seconds=START_SECONDS + SECONDS + 1.0,
        seed=seed,
        keep_alive_seconds=KEEP_ALIVE_SECONDS,
    ).execute()
    found = simulated(simulation, START_SECONDS, START_SECONDS + SECONDS, "group-timestamp", to_the_last=True)
    # A process sends copies one after the other, and takes packets one after the other: all that come at once.
    distance = LATENCY_SECONDS + 4 * count * PROCESSING_SECONDS
    return _held(found, 1000 * (distance + KEEP_ALIVE_SECONDS))


def measure_live(points: list[Point], seconds: float) -> list[LiveRun]:
    """The same on sockets, one cluster after the other, each process one of its own."""
    found: list[LiveRun] = []
    for point in points:
        count = int(point["processes"])
        load = Load(
            protocol="intergroup",
            nodes=count,
            size=int(point["size"]),
            seconds=seconds,
            rate=float(point["rate"]) * count,
            # As in the thesis, nobody answers at once.
            options=("answer_senders_max = 0", f"keep_alive_seconds = {KEEP_ALIVE_SECONDS}"),
        )
        reports, _ = run_load(load)
        found.append((point, _held(milliseconds_to_the_last(reports), 1000 * KEEP_ALIVE_SECONDS)))
    return found
