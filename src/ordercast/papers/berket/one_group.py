"""One InterGroup group of fixed senders without errors, as in 7.1: the simulation that its experiments share."""

from __future__ import annotations

from ordercast.protocols import find_protocol
from ordercast.sim import Simulation, Workload
from ordercast.sim.networks import PointToPoint

LATENCY_SECONDS = 0.0005
"""Of the local network of 7.1."""


def process_names(count: int) -> tuple[str, ...]:
    """So many processes, in the order of their names."""
    return tuple(f"p{number:02}" for number in range(count))


def simulate_one_group(
    names: tuple[str, ...],
    workloads: list[Workload],
    *,
    processing: float,
    seconds: float,
    seed: int,
    traced: bool = True,
    **options: float,
) -> Simulation:
    """Everyone of `names` is in the group "g"; not yet executed. Without a trace, packets are counted instead."""
    protocol = find_protocol("intergroup")
    return Simulation(
        protocol,
        {"g": names},
        PointToPoint(processing=processing, latency=LATENCY_SECONDS),
        seed=seed,
        options=protocol.contract.options(views="fixed", **options),
        workloads=workloads,
        duration=seconds,
        settle=0.0,
        stable=False,
        tracing=traced,
        counting=not traced,
        check_invariants=False,
    )
