"""What the tests of SCALATOM share: groups, packets by hand, and runs."""

from __future__ import annotations

from typing import Any

from ordercast.core import MessageId, Multicast
from ordercast.core.effects import Effect
from ordercast.protocols.parts.consensus_packets import Decide, Value
from ordercast.protocols.parts.multicast import Data
from ordercast.protocols.scalatom import Scalatom, ScalatomOptions
from ordercast.protocols.scalatom.packets import Stamp, Stamps
from ordercast.sim import Simulation
from ordercast.sim.faults import Fault
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import Hand, sent

PAIRWISE: dict[str, tuple[str, ...]] = {"g": ("a", "b", "c"), "h": ("c", "d", "e"), "k": ("e", "f", "a")}
THREE: dict[str, tuple[str, ...]] = {"g": ("a", "b", "c"), "h": ("d", "e", "f"), "k": ("p", "q", "r")}


def hand(site: str, groups: dict[str, tuple[str, ...]] | None = None, incarnation: int = 0) -> Hand:
    return Hand(Scalatom, site, groups or {"g": ("a", "b", "c")}, ("a", "b", "c", "x"), None, incarnation)


def message(source: str, number: int) -> MessageId:
    return MessageId(source, 0, number)


def data(number: int, source: str, place: int, *groups: str) -> Data:
    return Data(number, Multicast(message(source, place), groups or ("g",)), (0, 1))


def stamps(number: int, *entries: tuple[MessageId, int, int], count: int = 0, promise: int = 0) -> Stamps:
    return Stamps(number, (0,), tuple(Stamp(*entry) for entry in entries), count, promise)


def simulate(
    groups: dict[str, tuple[str, ...]],
    faults: list[Fault],
    options: ScalatomOptions | None = None,
    *,
    latency: float = 0.005,
    sources: tuple[str, ...] = ("x", "a"),
    choose: int = 2,
    settle: float = 20.0,
) -> Simulation:
    return Simulation(
        Scalatom,
        groups,
        PointToPoint(latency=latency),
        options=options,
        faults=faults,
        workloads=[Workload(sources=sources, groups=tuple(groups), choose=choose, rate=8.0, count=40)],
        duration=6.0,
        settle=settle,
    )


def rows_of(simulation: Simulation, kind: str) -> list[dict[str, Any]]:
    return [row for row in simulation.table().to_pylist() if row["kind"] == kind]


def deliver_first(a: Hand) -> list[Effect]:
    """b's decision reaches a site of the group: x's first message has its place, and the site delivers it."""
    x = message("x", 1)
    a.receive("x", data(1, "x", 1))
    a.receive("b", stamps(1, (x, 1, 7), count=1, promise=9))
    return a.receive("b", Decide(2, (1, 0), Value("b", ((x, 7),))))


def kinds(effects: list[Effect]) -> list[str]:
    return [type(packet).__name__ for _, packet in sent(effects)]
