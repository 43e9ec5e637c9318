"""What batches are worth: SCALATOM's throughput with one consensus for each message, and with one for many, simulated
and live, in one table.

    python benchmarks/scalatom.py [--only simulated|live] [--seconds S] [--live-seconds S] [--rounds N] [--json]

Simulated: every site needs P = 50 µs of processor time to send a packet, and a packet is 0.5 ms under way. Sources
outside the groups multicast as fast as their credit allows, with the window that suits best. Throughput is what every
destination has delivered, in simulated time; latency is from the multicast to the last delivery, at a tenth of that
load.

Live: three processes on this machine, through `ordercast bench`: all of them send, sealed, and throughput is what the
slowest has delivered. A node bundles what waits for credit, so one multicast of the protocol is many short messages;
messages of more than half a bundle go alone. The median of some rounds in turn; latency is what half of the messages
take at full speed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from ordercast.core.effects import Deliver, Replay
from ordercast.protocols.scalatom import Scalatom, ScalatomOptions
from ordercast.sim import Simulation, Workload
from ordercast.sim.networks import PointToPoint

BATCHES = (1, 64)
"""One consensus for each message, and the protocol's default."""
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
LIVE = {"one group of 3, 33,000 bytes": 33_000, "one group of 3, 100 bytes in bundles": 100}
"""Name -> bytes of a message."""
ORDERCAST = str(Path(sys.executable).parent / "ordercast")

Measured = tuple[float, float]
"""Messages a second, and milliseconds."""


# ---------------------------------------------------------------------- simulated
def simulate(
    arrangement: str, batch: int, window: int, rate: float, seconds: float, tracing: bool
) -> tuple[Simulation, float]:
    """A run, and the messages a second that every destination has delivered."""
    groups, choose = ARRANGEMENTS[arrangement]
    delivered: dict[str, set[str]] = {}

    def count(site: str, time: float, effect: Deliver | Replay) -> None:
        if seconds / 2 < time <= seconds:
            delivered.setdefault(str(effect.multicast.id), set()).add(site)

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


def measure_simulated(arrangement: str, batch: int, seconds: float) -> Measured:
    """With the window that suits best."""
    throughput, window = max(
        (simulate(arrangement, batch, window, OFFERED, seconds, tracing=False)[1], window) for window in WINDOWS
    )
    calm, _ = simulate(arrangement, batch, window, max(10.0, throughput / 10), seconds, tracing=True)
    return throughput, latency_of(calm)


# ---------------------------------------------------------------------- live
def measure_live(size: int, batch: int, seconds: float) -> Measured:
    """Three processes, for that long."""
    words = [ORDERCAST, "bench", "--protocol", "scalatom", "--nodes", "3", "--size", str(size)]
    words += ["--seconds", str(seconds), "--option", f"batch_messages_max={batch}", "--json"]
    result = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    if result["lost"]:
        raise SystemExit(f"{' '.join(words)}: {result['lost']} messages are lost")
    return result["messages_per_second"], result["p50_ms"]


def measure_live_in_turn(size: int, rounds: int, seconds: float) -> list[Measured]:
    """For each size of batch the median of some rounds: what else the machine does meanwhile meets both."""
    found: dict[int, list[Measured]] = {batch: [] for batch in BATCHES}
    for _ in range(rounds):
        for batch in BATCHES:
            found[batch].append(measure_live(size, batch, seconds))
    return [(median(t for t, _ in found[batch]), median(ms for _, ms in found[batch])) for batch in BATCHES]


# ---------------------------------------------------------------------- the table
def row_of(where: str, arrangement: str, alone: Measured, batched: Measured) -> dict[str, Any]:
    """A line of the table."""
    return {
        "where": where,
        "arrangement": arrangement,
        "alone_messages_per_second": round(alone[0]),
        "batched_messages_per_second": round(batched[0]),
        "ratio": round(batched[0] / alone[0], 2),
        "alone_latency_ms": round(alone[1], 2),
        "batched_latency_ms": round(batched[1], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("simulated", "live"))
    parser.add_argument("--seconds", type=float, default=0.4, help="of simulated load")
    parser.add_argument("--live-seconds", type=float, default=3.0, help="of each live run")
    parser.add_argument("--rounds", type=int, default=3, help="live runs of each kind")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if arguments.only != "live":
        for name in ARRANGEMENTS:
            print(f"simulated: {name} …", file=sys.stderr)
            alone, batched = (measure_simulated(name, batch, arguments.seconds) for batch in BATCHES)
            rows.append(row_of("simulated", name, alone, batched))
    if arguments.only != "simulated":
        for name, size in LIVE.items():
            print(f"live: {name} …", file=sys.stderr)
            alone, batched = measure_live_in_turn(size, arguments.rounds, arguments.live_seconds)
            rows.append(row_of("live", name, alone, batched))
    if arguments.json:
        print(json.dumps(rows))
        return
    print(f"{'':<10} {'':<38} {'one consensus':>14} {'batches of':>12} {'':>6} {'latency ms':>15}")
    print(f"{'':<10} {'':<38} {'a message':>14} {'up to 64':>12} {'ratio':>6} {'alone / batches':>15}")
    for row in rows:
        latencies = f"{row['alone_latency_ms']} / {row['batched_latency_ms']}"
        print(
            f"{row['where']:<10} {row['arrangement']:<38} {row['alone_messages_per_second']:>12,}/s"
            f" {row['batched_messages_per_second']:>10,}/s {row['ratio']:>6} {latencies:>15}"
        )


if __name__ == "__main__":
    main()
