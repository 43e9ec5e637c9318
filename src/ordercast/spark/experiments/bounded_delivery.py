"""How long Protocols 1 to 5 (Spauster 1991, 6.4 and 7.2) really take, in the terms in which their bounds are stated.

The least Δ for which P2 holds in a run is the worst delivery that P2 speaks of: with a larger Δ fewer deliveries are
owed, for sites and network must hold out longer, and each has more time. So it can be found by halving.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from ordercast.check.facts import Facts
from ordercast.check.judges.bounded import judge_bounded
from ordercast.core import Bounds, Protocol
from ordercast.protocols import find_protocol
from ordercast.sim.faults import AnyFault, Crash, Cut, Delay, Loss
from ordercast.sim.network_table import PointToPointTable
from ordercast.sim.scenario import Scenario
from ordercast.sim.workload import Workload
from ordercast.spark.experiments.experiment import Point

HALVINGS = 12
"""Known to 1/4096 of the bound."""
OVERRUN_MAX = 4.0
"""A delivery that takes longer than so many times the bound is as good as none."""
DURATION = 12.0
FRAGMENT_PACKETS = 16
"""φP of Protocol 5 in packets: it has to be known before a run."""
MESSAGES_OF_AN_ANSWER = 64
"""So many messages Protocol 4 sends again for one request; with more, several answers would be in its bound."""


def run_bounds(point: Point, seed: int) -> dict[str, float | None]:
    """What the properties promise for this run, and what they would have had to promise."""
    scenario = make_scenario(point, seed)
    simulation = scenario.simulation().execute()
    # The tightest phi_p that the sites of this run have kept, not the generous one of the simulator's header.
    phi_p = max(site.processor.slowest_seconds for site in simulation.sites.values())
    bounds = msgspec.structs.replace(simulation.bounds(), phi_p=phi_p, phi_n=float(point["phi_n"]))
    promised = scenario.protocol.contract.promised(bounds, scenario.protocol_options())
    facts = Facts(simulation.header(), simulation.table())
    values: dict[str, float | None] = {"phi_p": phi_p}
    for name in ("P2", "Q1", "Q2", "P4", "Q3"):
        bound = promised.get(name)
        short = name.lower()
        values[f"{short}_bound"] = bound
        worst = None if bound is None else _least(facts, name, bound)
        values[f"{short}_worst"] = worst
        values[f"{short}_share"] = None if worst is None or bound is None else min(worst / bound, OVERRUN_MAX)
    for name in ("P2", "Q2", "P4", "Q3"):
        bound, worst = promised.get(name), values[f"{name.lower()}_worst"]
        share = None
        if bound is not None and worst is not None:
            share = min(worst / _printed(scenario, name, bound, bounds), OVERRUN_MAX)
        values[f"{name.lower()}_share_of_printed"] = share
    return values


def _printed(scenario: Scenario, name: str, bound: float, bounds: Bounds) -> float:
    """What the thesis prints where it differs from what is promised."""
    one_way = bounds.phi_p + bounds.phi_n
    if scenario.protocol.contract.name == "tree-5":
        # P2 lacks the way down the last tree; P4 is one packet and its handling.
        return one_way if name == "P4" else bound - (bounds.sites - 1) * one_way
    # delta + 3 phi_P + 3 phi_N for Protocols 3 and 4: one phi_P less.
    return bound if name == "P2" else bound - bounds.phi_p


def _least(facts: Facts, name: str, bound: float) -> float:
    """The least bound that holds in the run; infinite when not even several times the promised one does."""
    judge = judge_bounded(name)
    run = facts.run

    def holds(seconds: float) -> bool:
        facts.run = msgspec.structs.replace(run, bounds={**run.bounds, "promised": {name: seconds}})
        return not judge(facts).witnesses

    low, high = (0.0, bound) if holds(bound) else (bound, OVERRUN_MAX * bound)
    if high > bound and not holds(high):
        return math.inf
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def make_scenario(point: Point, seed: int) -> Scenario:
    """A source, four destinations; packets take from half of phi_n to all of it, and overtake each other. With Protocol
    4 they are a tree, and its messages are few enough that one answer brings all that is missing.

    Protocol 1 has no communication failures; the others lose packets at random, and lose the link to a site for a
    while. In each run a site crashes and comes back.
    """
    protocol = find_protocol(str(point["protocol"]))
    phi_n, processing = float(point["phi_n"]), float(point["processing"])
    destinations = ("a", "b", "c", "d")
    options = _options(protocol, float(point["delta"]), phi_n, processing)
    is_tree = protocol.contract.name == "propagation-graph"
    messages = MESSAGES_OF_AN_ANSWER if is_tree else None
    faults: list[AnyFault] = [
        Delay(from_=0.0, to=None, seconds=phi_n / 2),
        Crash(from_=3.0, to=5.0, sites=("d",)),
        *([Crash(from_=5.5, to=6.5, sites=("c",))] if is_tree else []),
    ]
    if protocol.contract.successive_deaths:
        faults = [faults[0], *_deaths(protocol.contract.options(**options))]
    if "loss" in protocol.contract.faults:
        # Before the delays, for the first rule that speaks decides.
        faults[:0] = [
            Cut(from_=7.0, to=9.0, sites=("c",) if is_tree else ("s",), peers=("a",) if is_tree else ("c",)),
            *([Loss(from_=0.0, to=None, rate=float(point["loss"]))] if point["loss"] else []),
        ]
    return Scenario(
        protocol=protocol,
        name="bounds",
        seed=seed,
        groups={"g": destinations},
        extra_sites=("s",),
        network=PointToPointTable(processing=processing, latency=phi_n / 2, phi_n=phi_n),
        duration=DURATION,
        settle=5.0,
        options=options,
        workloads=(Workload(sources=("s",), groups=("g",), rate=10.0, count=messages),),
        faults=tuple(faults),
    )


def _deaths(options: Any) -> list[AnyFault]:
    """Two roots die, the second as early as [A8] lets it; the first in the middle of what it sends."""
    second = 3.0 + options.delta + options.succession_seconds
    return [
        Crash(from_=3.0, sites=("a",), forever=True, after_packets=1),
        Crash(from_=second, sites=("b",), forever=True),
    ]


def _options(protocol: type[Protocol], delta: float, phi_n: float, processing: float) -> dict[str, Any]:
    """δ, where there is one: of Protocol 4 it is two looks, and of Protocol 5 that much above what jitter can do."""
    if protocol.contract.name == "tree-5":
        phi_p = FRAGMENT_PACKETS * processing
        return {"phi_n": phi_n, "phi_p": phi_p, "delta": phi_n + 2 * phi_p + delta}
    if protocol.contract.name == "propagation-graph":
        return {"retransmit_seconds": delta / 2, "blocked_seconds": 5 * delta, "prefer": ["c"]}
    return {"delta": delta} if "delta" in protocol.contract.options.__struct_fields__ else {}
