"""What the tests of three steps share: groups, a site by hand, and runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ordercast.core import MessageId, Multicast
from ordercast.protocols.parts.multicast import Data
from ordercast.protocols.three_step import ThreeStep, ThreeStepOptions
from ordercast.protocols.three_step.packets import Proposal, Propose
from ordercast.sim import Simulation
from ordercast.sim.faults import Fault
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import Hand

L = 0.01
ABC: dict[str, tuple[str, ...]] = {"g": ("a", "b", "c")}
PAIRWISE: dict[str, tuple[str, ...]] = {"g": ("1", "2", "3"), "h": ("3", "4", "5"), "k": ("5", "6", "1")}


def groups_of(count: int, size: int) -> dict[str, tuple[str, ...]]:
    return {f"g{g}": tuple(f"s{g}{number}" for number in range(size)) for g in range(count)}


def hand(site: str, groups: dict[str, tuple[str, ...]] | None = None, incarnation: int = 0) -> Hand:
    return Hand(ThreeStep, site, groups or ABC, ("a", "b", "c", "x"), None, incarnation)


def message(source: str, number: int) -> MessageId:
    return MessageId(source, 0, number)


def data(source: str, number: int, *groups: str) -> Data:
    return Data(0, Multicast(message(source, number), groups or ("g",)), (0, 1))


def propose(epoch: int, *proposals: tuple[int, MessageId, int], cells: tuple[int, ...] = (0,)) -> Propose:
    return Propose(epoch, cells, tuple(Proposal(*proposal) for proposal in proposals))


def simulate(
    groups: dict[str, tuple[str, ...]],
    faults: list[Fault],
    options: ThreeStepOptions | None = None,
    *,
    sources: tuple[str, ...] = ("x",),
    choose: int = 0,
    rate: float = 8.0,
    count: int = 40,
    seed: int = 0,
    duration: float = 6.0,
    settle: float = 20.0,
) -> Simulation:
    return Simulation(
        ThreeStep,
        groups,
        PointToPoint(processing=0.0, latency=L),
        seed=seed,
        options=options,
        faults=faults,
        workloads=[
            Workload(
                sources=sources,
                groups=tuple(groups),
                choose=choose or len(groups),
                rate=rate,
                count=count,
                arrivals="regular",
            )
        ],
        duration=duration,
        settle=settle,
    )


def rows_of(simulation: Simulation, kind: str) -> list[dict[str, Any]]:
    return [row for row in simulation.table().to_pylist() if row["kind"] == kind]


def steps(simulation: Simulation) -> dict[str, float]:
    """Site -> message delays until it has delivered the first message."""
    begun = min(rows_of(simulation, "multicast"), key=lambda row: row["time"])
    return {
        row["site"]: round((row["time"] - begun["time"]) / L, 3)
        for row in rows_of(simulation, "deliver")
        if row["message"] == begun["message"]
    }


def packets(simulation: Simulation) -> Counter[str]:
    """How many packets served a message, by type."""
    return Counter(row["packet"] for row in rows_of(simulation, "send") if row["messages"])
