"""What batches are worth: SCALATOM's throughput with one consensus for each message and with one for many, simulated.

    python benchmarks/scalatom.py [--seconds S] [--json]

Every site needs P = 50 µs of processor time to send a packet, and a packet is 0.5 ms under way. Sources outside the
groups multicast as fast as their credit allows, with the window that suits best. Throughput is what every destination
has delivered, in simulated time; latency is from the multicast to the last delivery, at a tenth of that load.
"""

from __future__ import annotations

import argparse
import json
import sys
from statistics import median
from typing import Any

from ordercast.core.effects import Deliver, Replay
from ordercast.protocols.scalatom import Scalatom, ScalatomOptions
from ordercast.sim import Simulation, Workload
from ordercast.sim.networks import PointToPoint

PROCESSING, LATENCY = 0.00005, 0.0005
SOURCES = ("x", "y", "z")
WINDOWS = (8, 64, 512)
OFFERED = 50_000.0
"""Multicasts a second: more than any of them can order."""
ARRANGEMENTS: dict[str, tuple[dict[str, tuple[str, ...]], int]] = {
    "one group of 3": ({"g": ("a", "b", "c")}, 1),
    "two groups of 3, to both": ({"g": ("a", "b", "c"), "h": ("d", "e", "f")}, 2),
    "three groups of 3, to any two": ({"g": ("a", "b", "c"), "h": ("d", "e", "f"), "i": ("p", "q", "r")}, 2),
}
"""Name -> groups, and to how many of them each message goes."""


def simulate(
    arrangement: str, batch: int, window: int, rate: float, seconds: float, tracing: bool
) -> tuple[Simulation, float]:
    """A run, and the messages a second that every destination has delivered."""
    groups, choose = ARRANGEMENTS[arrangement]
    delivered: dict[str, set[str]] = {}

    def count(site: str, time: float, effect: Deliver | Replay) -> None:
        if seconds / 2 < time <= seconds:
            delivered.setdefault(str(effect.multicast.message), set()).add(site)

    simulation = Simulation(
        Scalatom,
        groups,
        PointToPoint(processing=PROCESSING, latency=LATENCY),
        options=ScalatomOptions(batch_messages_max=batch, window=window),
        workloads=[Workload(sources=SOURCES, groups=tuple(groups), choose=choose, rate=rate / len(SOURCES))],
        duration=seconds,
        settle=0.0,
        tracing=tracing,
        check_invariants=False,
        application=count,
    ).execute()
    members = {message: len(sites) for message, sites in delivered.items()}
    addressed = choose * 3
    return simulation, sum(count == addressed for count in members.values()) / (seconds / 2)


def latency_of(simulation: Simulation) -> float:
    """The median over messages of the time until the last delivery, in milliseconds."""
    begun: dict[str, float] = {}
    last: dict[str, float] = {}
    for row in simulation.table().select(["kind", "time", "message"]).to_pylist():
        if row["kind"] == "multicast":
            begun[row["message"]] = row["time"]
        elif row["kind"] == "deliver":
            last[row["message"]] = max(row["time"], last.get(row["message"], 0.0))
    return 1000 * median(last[message] - begun[message] for message in last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="of simulated load")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    for arrangement in ARRANGEMENTS:
        for batch in (1, 64):
            print(f"{arrangement}, batches of up to {batch} …", file=sys.stderr)
            throughput, window = max(
                (simulate(arrangement, batch, window, OFFERED, arguments.seconds, tracing=False)[1], window)
                for window in WINDOWS
            )
            calm, _ = simulate(arrangement, batch, window, max(10.0, throughput / 10), arguments.seconds, tracing=True)
            results.append(
                {
                    "arrangement": arrangement,
                    "batch_messages_max": batch,
                    "window": window,
                    "messages_per_second": round(throughput),
                    "latency_ms": round(latency_of(calm), 2),
                }
            )
    if arguments.json:
        print(json.dumps(results))
        return
    print(f"{'arrangement':<32} {'batch':>6} {'window':>7} {'messages/s':>11} {'latency ms':>11}")
    for row in results:
        print(
            f"{row['arrangement']:<32} {row['batch_messages_max']:>6} {row['window']:>7}"
            f" {row['messages_per_second']:>11,} {row['latency_ms']:>11}"
        )


if __name__ == "__main__":
    main()
