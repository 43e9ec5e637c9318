"""How fast is the simulator? Handler calls a second, next to a bare heapq loop and to simpy doing as many events.

    python benchmarks/simulator.py [--messages N] [--repeat N] [--json]

The bare loop pops an event, calls a function, and pushes the next one, with as many events waiting as the simulation
has on average: what any event-driven simulator must do. Every figure is the best of `--repeat` rounds in which all
contestants take turns.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Generator
from heapq import heappop, heappush
from itertools import count, cycle
from random import Random

import simpy

from ordercast.protocols import find_protocol
from ordercast.protocols.fan import FanOptions
from ordercast.sim import Simulation, Workload
from ordercast.sim.networks import PointToPoint

SITES = tuple(f"s{number}" for number in range(8))
WAITING = 64
"""Events in the queue of the bare loop and of simpy: about what the simulated protocols keep there."""
RATE = 2000.0
"""Multicasts a simulated second."""
EVENTS = 500_000
"""Events of the bare loop and of simpy."""
TARGETS = {"tracing": 0.05, "no tracing": 0.08}
"""Mode -> the share of the bare loop's events that the simulator handles at the least, with a simple protocol."""
OF_SEQUENCER = {"intergroup": 0.5}
"""Protocols that do more at each event -> the share of the sequencer's events, in the same mode, at the least."""


def random_delays() -> list[float]:
    """Delays as a network and timers make them: not all alike, so that events go everywhere in the queue."""
    random = Random(1)
    return [random.expovariate(1.0) for _ in range(4096)]


def bare_loop(events: int) -> None:
    """Pop an event, call its function, push the next one."""
    queue: list[tuple[float, int, Callable[..., None], tuple[int]]] = []
    order = count().__next__
    delays = cycle(random_delays())
    now = 0.0

    def handler(number: int) -> None:
        heappush(queue, (now + next(delays), order(), handler, (number,)))

    for number in range(WAITING):
        handler(number)
    for _ in range(events):
        now, _, function, arguments = heappop(queue)
        function(*arguments)


def simpy_loop(events: int) -> None:
    """As many events by simpy's processes."""
    environment = simpy.Environment()

    delays = cycle(random_delays())

    def process(rounds: int) -> Generator[simpy.Event, None, None]:
        for _ in range(rounds):
            yield environment.timeout(next(delays))

    for _ in range(WAITING):
        environment.process(process(events // WAITING))
    environment.run()


def simulate(protocol: str, messages: int, tracing: bool) -> int:
    """A fault-free run of eight sites; the number of handler calls."""
    core = find_protocol(protocol)
    sources = SITES[:1] if protocol.startswith("fan") else SITES
    options = FanOptions(sources=sources) if protocol.startswith("fan") else None
    simulation = Simulation(
        core,
        {"g": SITES},
        PointToPoint(processing=0.000001, latency=0.001),
        options=options,
        workloads=[
            Workload(sources=sources, groups=("g",), rate=2000.0 / len(sources), count=messages // len(sources))
        ],
        duration=messages / 2000.0 * 1.5,
        settle=1.0,
        tracing=tracing,
        check_invariants=False,
    ).execute()
    if tracing:
        simulation.table()
    return simulation.handler_calls


def timed(function: Callable[[], object]) -> tuple[float, object]:
    """Seconds of processor time (of all threads) that a call takes, and what it returns."""
    gc.collect()  # what the one before has left is not for this one to clear away
    begin = time.process_time()
    result = function()
    return time.process_time() - begin, result


def _target(name: str, mode: str, best: dict[tuple[str, str], float]) -> float:
    """Events a second at the least."""
    if name in OF_SEQUENCER:
        return OF_SEQUENCER[name] * best["sequencer", mode]
    return TARGETS[mode] * best["bare heapq loop", ""]


def main() -> int:
    """Run everything, print a table or JSON; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=8000, help="multicasts per simulated run")
    parser.add_argument("--repeat", type=int, default=3, help="rounds; the best of each counts")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    arguments = parser.parse_args()
    best: dict[tuple[str, str], float] = {}
    for _ in range(arguments.repeat):
        for protocol in ("fan-3", "sequencer", *OF_SEQUENCER):
            for mode in TARGETS:
                seconds, calls = timed(lambda p=protocol, m=mode: simulate(p, arguments.messages, m == "tracing"))
                rate = calls / seconds
                best[protocol, mode] = max(best.get((protocol, mode), 0.0), rate)
        for name, loop in (("bare heapq loop", bare_loop), ("simpy", simpy_loop)):
            seconds, _ = timed(lambda run=loop: run(EVENTS))
            best[name, ""] = max(best.get((name, ""), 0.0), EVENTS / seconds)
    bare, peer = best["bare heapq loop", ""], best["simpy", ""]
    rows = [
        {
            "what": name,
            "mode": mode,
            "events_per_second": round(rate),
            "of_bare_loop": round(rate / bare, 4),
            "of_simpy": round(rate / peer, 4),
            "target_of_bare_loop": round(_target(name, mode, best) / bare, 4) if mode else None,
        }
        for (name, mode), rate in best.items()
    ]
    missed = [row for row in rows if row["target_of_bare_loop"] and row["of_bare_loop"] < row["target_of_bare_loop"]]
    if arguments.json:
        print(json.dumps({"rows": rows, "missed": len(missed)}))
    else:
        print(f"{'':24}{'events/s':>12}{'of bare loop':>14}{'of simpy':>10}{'target':>8}")
        for row in rows:
            target = f"{row['target_of_bare_loop']:.3f}" if row["target_of_bare_loop"] else ""
            print(
                f"{row['what'] + ' ' + row['mode']:24}{row['events_per_second']:12,}"
                f"{row['of_bare_loop']:14.3f}{row['of_simpy']:10.3f}{target:>8}"
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
