"""A network that is in two halves, and whole for a moment now and then: is the moment used? (Sections 1 and 5.)"""

from __future__ import annotations

from ordercast.core import SiteId, random_stream
from ordercast.core.effects import Deliver, Replay
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation, Workload
from ordercast.sim.faults import Outage
from ordercast.sim.networks import Servers
from ordercast.spark.experiments import Point

HERE, THERE = ("a1", "a2", "a3"), ("b1", "b2", "b3")
OPENINGS = 10
WHOLE_SECONDS = 20.0
"""At first the network is whole, and what control costs is counted in the second half of that."""
CYCLE_SECONDS = 30.0
LATENCY = 0.02


def run_openings(point: Point, seed: int) -> dict[str, float | None]:
    """The share of openings in which the other half got something new, and what the exchange costs."""
    random = random_stream(seed, "openings")
    opening, exchange = float(point["opening"]), float(point["exchange"])
    begins = [
        WHOLE_SECONDS + CYCLE_SECONDS * number + random.uniform(0.5, 0.9) * (CYCLE_SECONDS - opening)
        for number in range(OPENINGS)
    ]
    network = Servers(
        dict.fromkeys(HERE, "here") | dict.fromkeys(THERE, "there"),
        expensive=[("here", "there", 1.0)],
        expensive_latency=LATENCY,
    )
    link = (("here", "there"),)
    closed = zip([WHOLE_SECONDS, *(begin + opening for begin in begins)], begins, strict=False)
    arrived: list[float] = []

    def application(site: SiteId, time: float, effect: Deliver | Replay) -> None:
        if site in THERE:
            arrived.append(time)

    end = WHOLE_SECONDS + CYCLE_SECONDS * OPENINGS
    tree = find_protocol("broadcast-tree")
    simulation = Simulation(
        tree,
        {"all": [*HERE, *THERE]},
        network,
        seed=seed,
        options=tree.contract.options(
            ein_seconds=exchange, gfn_seconds=exchange, gfo_seconds=2 * exchange, np1_seconds=min(1.0, exchange)
        ),
        workloads=[Workload(sources=("a1",), groups=("all",), rate=0.2, arrivals="regular")],
        faults=[Outage(from_=begin, to=until, links=link) for begin, until in closed]
        + [Outage(from_=begins[-1] + opening, links=link)],
        duration=end,
        settle=0.0,
        tracing=False,
        check_invariants=False,
        application=application,
    )
    counted: list[int] = []
    for time in (WHOLE_SECONDS / 2, WHOLE_SECONDS):
        simulation.queue.schedule(time, lambda: counted.append(network.traffic["Control", 1]))
    simulation.execute()
    used = [any(begin <= time <= begin + opening + 2 * LATENCY for time in arrived) for begin in begins]
    return {
        "used": sum(used) / len(used),
        "control_per_second": (counted[1] - counted[0]) / (WHOLE_SECONDS / 2),
    }
