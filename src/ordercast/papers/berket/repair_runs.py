"""Receivers that share every loss: how many of them ask, and how many repairs that makes, with timers that adapt and
timers that do not."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ordercast.core import Context, Protocol, SiteId
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation, Workload
from ordercast.sim.flight import Flight
from ordercast.sim.networks import WideArea
from ordercast.spark.experiments import Point

WINDOWS = 10
"""Into so many parts a run is divided, to see what changes."""
SECONDS = 400.0
START_SECONDS = 10.0
"""The control hierarchy knows the distances by then."""
RATE = 20.0
LOSS = 0.1
SOURCE = "source"
DISTANCE_SECONDS = 0.02
JITTER_SECONDS = 0.002

TIMERS = ("adaptive", "fixed", "at-once")
"""As Figures 3.1 and 3.2 say; as at the start, for ever; and without any wait, so that nobody hears another one
first."""

PER_LOSS = ("requests", "repairs")
MEASURES = (
    "high_request",
    *(f"{name}_{window}" for name in ("losses", *PER_LOSS) for window in range(WINDOWS)),
)


class SharedLoss(WideArea):
    """What the source sends is lost right there, for everyone."""

    def __init__(self, receivers: tuple[SiteId, ...], regions: int, loss: float) -> None:
        placed = {"home": (SOURCE,), **{f"r{region}": receivers[region::regions] for region in range(regions)}}
        latency = {one: dict.fromkeys(placed, DISTANCE_SECONDS) for one in placed}
        super().__init__(placed, latency, jitter=JITTER_SECONDS, loss=0.0)
        self.loses = True
        self.lost: Counter[int] = Counter()
        """Window -> messages that were lost in it, or lost again."""
        self._share = loss
        self._number = 0
        self._is_lost = False

    def carry(self, flight: Flight, time: float) -> None:
        """One draw for each packet of the source."""
        if flight.origin == SOURCE and self.queue.now > START_SECONDS:
            if flight.number != self._number:
                self._number = flight.number
                self._is_lost = self._random() < self._share
                if self._is_lost and type(flight.envelope.packet).__name__ in ("Data", "Retransmission"):
                    self.lost[window_of(self.queue.now)] += 1
            if self._is_lost:
                self.lose(flight, time, "loss")
                return
        super().carry(flight, time)


def window_of(time: float) -> int:
    """In which part of the run it is."""
    return min(WINDOWS - 1, int((time - START_SECONDS) / (SECONDS - START_SECONDS) * WINDOWS))


def with_timers(timers: str) -> type[Protocol]:
    """InterGroup with timers that do not adapt, or that run out at once the first time."""
    protocol = find_protocol("intergroup")
    if timers == "adaptive":
        return protocol

    def begin(self: Any, context: Context) -> None:
        protocol.__init__(self, context)
        for parameters in (self.repair.requests, self.repair.repairs):
            # As they are at the start, whatever happens.
            for adapts in ("before_timer", "after_request", "after_repair", "after_cancellation"):
                if hasattr(parameters, adapts):
                    setattr(parameters, adapts, lambda *_measured: None)
        if timers == "at-once":
            draw = self.repair.requests.draw
            self.repair.requests.draw = lambda random, distance, attempt, limit: (
                draw(random, distance, attempt, limit) if attempt else 0.0
            )

    return type(protocol.__name__, (protocol,), {"__init__": begin, "__slots__": ()})


def run_repair(point: Point, seed: int) -> dict[str, float | None]:
    """One sender, and receivers that take all of its messages reliably."""
    count, regions = int(point["receivers"]), int(point["regions"])
    receivers = tuple(f"p{number:03}" for number in range(count))
    network = SharedLoss(receivers, regions, LOSS)
    protocol = with_timers(str(point["timers"]))
    simulation = Simulation(
        protocol,
        {"g": (SOURCE, *receivers)},
        network,
        seed=seed,
        options=protocol.contract.options(
            views="fixed", senders=(SOURCE,), service="reliable-source", request_seconds_max=30.0
        ),
        workloads=[Workload(sources=(SOURCE,), groups=("g",), rate=RATE, arrivals="regular", size=100)],
        duration=SECONDS,
        settle=0.0,
        stable=False,
        tracing=False,
        counting=True,
        check_invariants=False,
    )
    counts: list[tuple[int, int]] = []
    for window in range(WINDOWS + 1):
        moment = START_SECONDS + window * (SECONDS - START_SECONDS) / WINDOWS
        simulation.queue.schedule(moment, lambda: counts.append((_sent(simulation, "Request"), _sent(simulation, ""))))
    simulation.execute()
    high = [_parameters(simulation, site).high for site in receivers]
    measured: dict[str, float | None] = {"high_request": sum(high) / len(high)}
    for window in range(WINDOWS):
        (requests, repairs), (requests_after, repairs_after) = counts[window : window + 2]
        lost = network.lost[window]
        measured[f"losses_{window}"] = float(lost)
        measured[f"requests_{window}"] = (requests_after - requests) / lost if lost else None
        measured[f"repairs_{window}"] = (repairs_after - repairs) / lost if lost else None
    return measured


def _parameters(simulation: Simulation, site: SiteId) -> Any:
    core: Any = simulation.sites[site].instances["main"].core
    return core.repair.requests


def _sent(simulation: Simulation, suffix: str) -> int:
    """How many requests, or retransmissions, were sent so far."""
    traffic = simulation.traffic
    if traffic is None:
        return 0
    tallies = (by_type.get(f"Retransmission{suffix}") for by_type in traffic.sent.values())
    return sum(tally.packets for tally in tallies if tally is not None)
