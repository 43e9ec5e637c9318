"""The classic algorithms as Spauster's chapter 4 runs them: one message to a group, or one to each of many groups, from
a source outside them, on a network without faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from ordercast.core import Options, random_stream
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation
from ordercast.sim.networks import BroadcastMedium, Network, PointToPoint
from ordercast.sim.workload import Workload
from ordercast.spark.experiments import Point

PROCESSING_SECONDS = 0.0001
"""P of 4.1."""
LATENCY_SECONDS = 0.002
"""L of 4.1."""
FRAME_SECONDS = 0.0005
"""T of 4.2."""

ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    "centralized": ("sequencer", {}),
    "two-phase": ("two-phase", {}),
    "token, L = 1": ("token", {"resilience": 1}),
    "token, L = 3": ("token", {"resilience": 3}),
    "timestamps": ("lamport", {}),
}
"""What the thesis calls it, or nearly so -> protocol and options. L: how many sites accept the token behind a message
before it is delivered (2.3)."""
NETWORKS = ("point-to-point", "broadcast")

_WARM_UP_SECONDS = 0.5
"""The token goes around a few times before anything is multicast."""
_LAST_SECONDS = 3.0


def names(count: int) -> list[str]:
    """So many sites."""
    return [f"s{number:04}" for number in range(count)]


def run_one_multicast(point: Point, seed: int) -> dict[str, float | None]:
    """N and D of one message, in a system of so many sites of which the first are the group."""
    sites = names(int(point["sites"]))
    rows = _simulate(point, seed, sites, {"g": sites[: int(point["members"])]})
    kind, time, serves = rows["kind"], rows["time"], rows["serves"]
    begin = time[kind == "multicast"][0]
    end = time[kind == "deliver"].max() if (kind == "deliver").sum() == point["members"] else np.nan
    sends = kind == "send"
    return {
        "delay": end - begin,
        "packets": float((sends & serves).sum()),
        # Those about no message in particular as well: the clocks of timestamps, the token when it only moves on.
        "packets_until_delivered": float((sends & (time >= begin) & (time <= end)).sum()),
    }


def run_load(point: Point, seed: int) -> dict[str, float | None]:
    """The load of the busiest site when one message goes to each of the groups: packets sent and received."""
    sites = names(int(point["sites"]))
    random = random_stream(seed, "groups")
    size, count = int(point["group_size"]), int(point["groups"])
    groups = {f"g{number:03}": sorted(random.sample(sites, size)) for number in range(count)}
    rows = _simulate(point, seed, sites, groups)
    packets = np.isin(rows["kind"], ("send", "receive"))
    for_messages = Counter(rows["site"][packets & rows["serves"]].tolist())
    for_all = Counter(rows["site"][packets].tolist())
    source = for_messages.pop(SOURCE, 0)
    for_all.pop(SOURCE, 0)
    load = max(for_messages.values())
    formula = _load_formula(point, groups)
    return {
        "load": load,
        "load_all": max(for_all.values()),
        "load_mean": sum(for_messages.values()) / len(sites),
        "load_of_source": source,
        "load_formula": formula,
        "load_differs": None if formula is None else abs(load - formula),
    }


def _load_formula(point: Point, groups: Mapping[str, list[str]]) -> float | None:
    """By the algorithms: in two phases a member gets, answers and gets; a centre gets one and sends the rest."""
    broadcast = point["network"] == "broadcast"
    if point["algorithm"] == "two-phase":
        return 3 * max(Counter(site for members in groups.values() for site in members).values())
    if point["algorithm"] == "centralized":
        centre = min(site for members in groups.values() for site in members)
        return sum(1 + (1 if broadcast else len(members) - (centre in members)) for members in groups.values())
    return None


SOURCE = "zz-source"
"""In no group; last by name, so that it is nobody's choice for a centre."""


def _simulate(point: Point, seed: int, sites: list[str], groups: Mapping[str, list[str]]) -> dict[str, Any]:
    protocol_name, options = ALGORITHMS[str(point["algorithm"])]
    protocol = find_protocol(protocol_name)
    chosen: Options = protocol.contract.options(**options)
    simulation = Simulation(
        protocol,
        groups,
        _network(str(point["network"])),
        sites=[*sites, SOURCE],
        seed=seed,
        options=chosen,
        workloads=[
            # One after the other, so far apart that none waits for another.
            Workload(
                sources=(SOURCE,),
                groups=(group,),
                rate=20.0,
                count=1,
                start=_WARM_UP_SECONDS + 0.1 * number,
            )
            for number, group in enumerate(groups)
        ],
        duration=_WARM_UP_SECONDS + 0.1 * len(groups) + _LAST_SECONDS,
        settle=0.0,
    ).execute()
    table = simulation.table()
    return {
        "kind": table.column("kind").to_numpy(),
        "time": table.column("time").to_numpy(),
        "site": table.column("site").to_numpy(),
        "serves": table.column("messages").is_valid().to_numpy(),
    }


def _network(kind: str) -> Network:
    if kind == "broadcast":
        return BroadcastMedium(FRAME_SECONDS)
    return PointToPoint(PROCESSING_SECONDS, LATENCY_SECONDS)
