"""Two places with three processes each, far apart: no order beside the order of all, simulated and live."""

from __future__ import annotations

import asyncio
import struct
import time
from bisect import bisect
from contextlib import AsyncExitStack
from functools import partial
from math import inf
from random import Random

import ordercast
from ordercast.chaos.proxy import CALM, Proxy, Terrain, Weather
from ordercast.core import SiteId
from ordercast.net.ports import free_ports
from ordercast.node.deliveries import Delivery
from ordercast.papers.artefact import LiveRun
from ordercast.papers.berket.latencies import MEASURES as SUMMARY
from ordercast.papers.berket.latencies import summary
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation, Workload
from ordercast.sim.change import Change
from ordercast.sim.networks import WideArea
from ordercast.spark.experiments import Point

PLACES = {"anl": ("anl1", "anl2", "anl3"), "lbnl": ("lbnl1", "lbnl2", "lbnl3")}
NAMES = tuple(name for names in PLACES.values() for name in names)
UNORDERED = tuple(names[-1] for names in PLACES.values())
"""In each place one process has no order, the others have the order of all."""
NEAR_SECONDS, FAR_SECONDS, JITTER_SECONDS = 0.0005, 0.03, 0.0599
"""The link takes up to 90 ms, with what a packet costs whoever sends and receives it. How little it takes is not
printed; but repairs took 180 ms at the most, and a request alone waits for up to four distances at first."""
LOSS = 0.01
KEEP_ALIVE_SECONDS = 0.05
WARM_UP_RATE = 50.0
"""Before it counts, so that there are as many losses in a minute as in an hour of the night that the thesis measured:
timers begin above what the link needs, and each loss lets them adapt by a twentieth or a tenth of a distance."""
REST_SECONDS = 2.0
"""After that, until all is delivered."""
RATE = 1.0
MEASURES = (*SUMMARY, "unordered_largest_ms", "once_largest_ms", "within_140", "within_250", "messages")
_STAMP = struct.Struct("=d")


def _place(name: SiteId) -> str:
    return next(place for place, names in PLACES.items() if name in names)


def _summed_up(ordered: list[float], unordered: list[float], once: list[float]) -> dict[str, float | None]:
    """`once`: those of the ordered ones that waited for one loss of a sender at the most, as far as that is known."""
    if not ordered or not unordered:
        return dict.fromkeys(MEASURES)
    return {
        **summary(ordered),
        "unordered_largest_ms": max(unordered),
        "once_largest_ms": max(once, default=0.0),
        "within_140": sum(each <= 140 for each in ordered) / len(ordered),
        "within_250": sum(each <= 250 for each in ordered) / len(ordered),
        "messages": float(len(ordered)),
    }


def run_wide_area(point: Point, seed: int) -> dict[str, float | None]:
    """So many simulated seconds behind a warm-up; what one place delivers of the other."""
    warm_up, seconds = float(point["warm_up_seconds"]), float(point["run_seconds"])
    start = warm_up + REST_SECONDS
    protocol = find_protocol("intergroup")
    far = {"anl": {"anl": NEAR_SECONDS, "lbnl": FAR_SECONDS}, "lbnl": {"lbnl": NEAR_SECONDS}}
    simulation = Simulation(
        protocol,
        {"g": NAMES},
        WideArea(PLACES, far, jitter=JITTER_SECONDS, loss=LOSS if point["lossy"] else 0.0, calm_within=True),
        seed=seed,
        options=protocol.contract.options(
            views="fixed", keep_alive_seconds=KEEP_ALIVE_SECONDS, distance_seconds_unknown=FAR_SECONDS
        ),
        changes=[Change(kind="service", at=0.0, sites=UNORDERED, group="g", service="unreliable")],
        workloads=[
            Workload(sources=NAMES, groups=("g",), rate=WARM_UP_RATE, count=int(WARM_UP_RATE * warm_up)),
            Workload(sources=NAMES, groups=("g",), rate=RATE, start=start),
        ],
        duration=start + seconds + REST_SECONDS,
        settle=0.0,
        stable=False,
        check_invariants=False,
    ).execute()
    rows = simulation.table().select(["kind", "site", "peer", "source", "message", "time"]).to_pylist()
    begun = {
        row["message"]: row["time"]
        for row in rows
        if row["kind"] == "multicast" and start <= row["time"] < start + seconds
    }
    drops: dict[SiteId, dict[SiteId, list[float]]] = {name: {} for name in NAMES}
    found: dict[bool, list[float]] = {True: [], False: []}
    once = []
    for row in rows:
        if row["kind"] == "drop":
            drops[row["site"]].setdefault(row["peer"], []).append(row["time"])
        elif row["kind"] == "deliver" and row["message"] in begun and _place(row["site"]) != _place(row["source"]):
            took = row["time"] - begun[row["message"]]
            found[row["site"] in UNORDERED].append(1000 * took)
            # What was lost before the message was multicast, and was still under way then, holds it up, too.
            since = begun[row["message"]] - FAR_SECONDS - JITTER_SECONDS
            losses = [len(times) - bisect(times, since) for times in drops[row["site"]].values()]
            if row["site"] not in UNORDERED and max(losses, default=0) <= 1:
                once.append(1000 * took)
    return _summed_up(found[False], found[True], once)


def measure_live(points: list[Point]) -> list[LiveRun]:
    """The same on sockets, through a relay that keeps datagrams between the places for as long as the link does."""
    return [
        (
            point,
            asyncio.run(_live(float(point["warm_up_seconds"]), float(point["run_seconds"]), bool(point["lossy"]))),
        )
        for point in points
    ]


async def _live(warm_up: float, seconds: float, lossy: bool) -> dict[str, float | None]:
    real = {name: ("127.0.0.1", port) for name, port in zip(NAMES, free_ports(len(NAMES)), strict=True)}
    terrain = Terrain(tuple(frozenset(names) for names in PLACES.values()), FAR_SECONDS, calm_within=True)
    relay = Proxy(real, Random("berket wide area"), terrain)
    found: dict[bool, list[float]] = {True: [], False: []}
    begin = inf

    def take(name: SiteId, delivery: Delivery) -> None:
        sent = _STAMP.unpack_from(delivery.payload)[0]
        if sent >= begin and _place(name) != _place(delivery.source):
            found[name in UNORDERED].append(1000 * (time.monotonic() - sent))

    try:
        async with AsyncExitStack() as stack:
            opening = [
                stack.enter_async_context(ordercast.open(_configuration(name, relay, real), process=name))
                for name in NAMES
            ]
            nodes = dict(zip(NAMES, await asyncio.gather(*opening), strict=True))
            for name, node in nodes.items():
                group = await node.join("g", service="unreliable" if name in UNORDERED else "group-timestamp")
                group.on_delivery(partial(take, name))
            relay.weather = Weather(delay_seconds=JITTER_SECONDS, loss=LOSS if lossy else 0.0)
            for rate, lasts in ((WARM_UP_RATE, warm_up), (RATE, seconds)):
                until = time.monotonic() + lasts
                if rate == RATE:
                    begin = time.monotonic()
                await asyncio.gather(*(_send(node, place, rate, until) for place, node in enumerate(nodes.values())))
                await asyncio.sleep(REST_SECONDS)
            relay.weather = CALM
    finally:
        relay.close()
    # What the relay has lost on the way to whom is not noted.
    return _summed_up(found[False], found[True], found[False])


async def _send(node: ordercast.Node, place: int, rate: float, end: float) -> None:
    """So many messages a second, one process after the other."""
    await asyncio.sleep(place / len(NAMES) / rate)
    while time.monotonic() < end:
        await node.multicast(_STAMP.pack(time.monotonic()), ["g"])
        await asyncio.sleep(1 / rate)


def _configuration(name: SiteId, relay: Proxy, real: dict[SiteId, tuple[str, int]]) -> dict[str, object]:
    addresses = {**relay.addresses_for(name), name: real[name]}
    return {
        "cluster": "wide-area",
        "protocol": "intergroup",
        "insecure": True,
        "max_datagram": 1450,
        "processes": {each: f"{host}:{port}" for each, (host, port) in addresses.items()},
        "groups": {"g": list(NAMES)},
        "options": {
            "keep_alive_seconds": KEEP_ALIVE_SECONDS,
            "answer_senders_max": 0,
            "distance_seconds_unknown": FAR_SECONDS,
        },
    }
