"""How long a delivery takes at the most without errors (Berket 2000, Equations 7.1 and 7.2): every delivery of random
runs.

ORDERCAST_LATENCY_RUNS sets how many runs each bound is held against, 12 unless told otherwise.
"""

from __future__ import annotations

import os
from random import Random
from typing import NamedTuple

import pytest

from ordercast.core import SiteId
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation, Workload
from ordercast.sim.change import Change
from ordercast.sim.faults import Skew
from ordercast.sim.networks import WideArea

RUNS = int(os.environ.get("ORDERCAST_LATENCY_RUNS", "12"))
PROCESSING_SECONDS = 0.000_01
WORK_SECONDS = 0.001
"""More than all that a site has to do, and to send, before its next Keep Alive leaves."""
SECONDS = 6.0


class Case(NamedTuple):
    """A random run without errors, and what it consists of."""

    simulation: Simulation
    distance_max: float
    keep_alive: float


def random_case(seed: int, lagging: bool = False, unreliable: bool = False) -> Case:
    """Two to six sites, one or two groups, regions near and far, Keep Alives from 10 to 200 ms, senders from busy to
    nearly silent; of each region two, with different services, where both are wanted."""
    random = Random(f"latency {seed}")
    sites = tuple("abcdef"[: random.choice((4, 6) if unreliable else (2, 3, 4, 5, 6))])
    names = ("north", "south", "west")[: random.randint(1, min(3, len(sites) // 2))]
    regions = {name: sites[place :: len(names)] for place, name in enumerate(names)}
    latency = {
        one: {other: round(random.uniform(0.001, 0.01 if one == other else 0.15), 4) for other in names[place:]}
        for place, one in enumerate(names)
    }
    # Without jitter where two receivers are compared: one of them must see what the other one sees.
    jitter = 0.0 if unreliable else round(random.uniform(0.0, 0.03), 4)
    network = WideArea(regions, latency, jitter=jitter, processing=PROCESSING_SECONDS)
    groups = {"g": sites, **({"h": sites[:2]} if random.random() < 0.5 else {})}
    keep_alive = round(random.uniform(0.01, 0.2), 3)
    lags = random.sample(sites, random.randint(1, len(sites) - 1)) if lagging else []
    changes = [Change(kind="service", at=0.0, sites=_second_of_each(regions), group="g", service="unreliable")]
    protocol = find_protocol("intergroup")
    simulation = Simulation(
        protocol,
        groups,
        network,
        seed=seed,
        options=protocol.contract.options(keep_alive_seconds=keep_alive),
        faults=[Skew(from_=0.0, sites=(site,), jump=-random.uniform(0.01, 5.0)) for site in lags],
        changes=changes if unreliable else [],
        workloads=[
            Workload(sources=sites, groups=("g",), rate=random.choice((0.5, 5.0, 50.0)), size=random.choice((0, 1000))),
            *([Workload(sources=sites[:2], groups=("h",), rate=2.0)] if "h" in groups else []),
        ],
        duration=SECONDS,
        settle=0.0,
        check_invariants=False,
    ).execute()
    return Case(simulation, network.latency_max(), keep_alive)


def _second_of_each(regions: dict[str, tuple[SiteId, ...]]) -> tuple[SiteId, ...]:
    return tuple(sorted(members[1] for members in regions.values()))


def latencies(case: Case, service: str) -> list[float]:
    """Of every delivery with a service, the seconds since its multicast; what is not delivered a while before the end
    counts as delivered at the end."""
    rows = case.simulation.table().select(["kind", "site", "message", "time", "service", "groups"]).to_pylist()
    begun = {row["message"]: row["time"] for row in rows if row["kind"] == "multicast"}
    group_of = {row["message"]: row["groups"][0] for row in rows if row["kind"] == "multicast"}
    found: dict[tuple[str, str], float] = {}
    receivers: dict[str, set[str]] = {}
    for row in rows:
        if row["kind"] == "deliver" and row["service"] == service:
            found[row["site"], row["message"]] = row["time"] - begun[row["message"]]
            receivers.setdefault(row["groups"][0], set()).add(row["site"])
    for message, time in begun.items():
        for site in receivers.get(group_of[message], ()) if time < SECONDS - 1.0 else ():
            found.setdefault((site, message), SECONDS - time)
    return list(found.values())


@pytest.mark.parametrize("seed", range(RUNS))
def test_with_even_clocks_a_delivery_takes_one_distance_and_a_keep_alive_at_the_most(seed: int) -> None:
    """Equation 7.1."""
    case = random_case(seed)
    found = latencies(case, "group-timestamp")
    assert found
    assert max(found) <= case.distance_max + case.keep_alive + WORK_SECONDS


@pytest.mark.parametrize("seed", range(RUNS))
def test_with_clocks_that_lag_it_takes_two_distances_and_a_keep_alive_at_the_most(seed: int) -> None:
    """A sender whose clock is behind says something later than a message only when it has received it."""
    case = random_case(seed, lagging=True)
    found = latencies(case, "group-timestamp")
    assert found
    assert max(found) <= 2 * case.distance_max + case.keep_alive + WORK_SECONDS


@pytest.mark.parametrize("seed", range(RUNS))
def test_the_order_of_all_costs_a_keep_alive_more_than_no_order(seed: int) -> None:
    """Equation 7.2, with receivers of both services in one run."""
    case = random_case(seed, unreliable=True)
    unordered, ordered = latencies(case, "unreliable"), latencies(case, "group-timestamp")
    assert unordered
    assert ordered
    assert max(ordered) <= max(unordered) + case.keep_alive + WORK_SECONDS
