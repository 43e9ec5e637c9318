"""Runs in which primaries are lost all the time: what the swarm of faults of a campaign seldom brings together."""

from __future__ import annotations

from random import Random

from ordercast.core import Protocol
from ordercast.protocols.three_step import ThreeStepOptions
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, Delay, Fault, Loss, Partition, Pause
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload

GROUPS: tuple[dict[str, tuple[str, ...]], ...] = (
    {"g": ("a", "b", "c"), "h": ("d", "e", "f")},
    {"g": ("a", "b", "c"), "h": ("d",)},
    {"g": ("a", "b", "c", "d", "e"), "h": ("f",)},
    {"g": ("a", "b", "c")},
)
EVEN_GROUPS: tuple[dict[str, tuple[str, ...]], ...] = (
    {"g": tuple("abcd"), "h": tuple("efg")},
    {"g": tuple("abcd")},
    {"g": tuple("ab"), "h": tuple("cd")},
    {"g": tuple("abcd"), "h": tuple("efgh")},
    {"g": tuple("ab")},
    {"g": tuple("abcdef")},
)
"""Cells of which half are a quorum, and more than half may start an epoch."""
DURATION = 4.0


def duel(protocol: type[Protocol], seed: int, layouts: tuple[dict[str, tuple[str, ...]], ...] = GROUPS) -> Simulation:
    """A run that has not begun; which one depends on the seed and the layouts alone."""
    random = Random(seed)
    groups = layouts[seed % len(layouts)]
    faults: list[Fault] = [
        Delay(rate=random.uniform(0.1, 0.6), seconds=random.uniform(0.02, 0.3), from_=0.3, to=DURATION)
    ]
    if random.random() < 0.5:
        faults.append(Loss(rate=random.uniform(0.02, 0.2), from_=0.3, to=DURATION))
    cell, others = groups["g"], [site for members in groups.values() for site in members]
    time, turn = 0.4, 0
    while time < DURATION - 0.4:
        length = random.uniform(0.1, 0.5)
        victim = cell[turn % len(cell)] if random.random() < 0.8 else random.choice(others)
        kind = random.random()
        if kind < 0.35:
            faults.append(Crash(from_=time, to=time + length, sites=(victim,)))
        elif kind < 0.55:
            faults.append(Pause(from_=time, to=time + length, sites=(victim,)))
        else:
            part = (victim, *(site for site in others if site not in cell)) if random.random() < 0.5 else (victim,)
            faults.append(Partition(parts=(part,), from_=time, to=time + length))
        turn += 1
        time += random.uniform(0.1, 0.6)
    if len(cell) == 5 and random.random() < 0.5:
        # A source dies, and two of five.
        dead = ("x", *random.sample(cell, 2))
        when = random.uniform(1.0, 3.0)
        faults += [Crash(from_=when + random.uniform(0.0, 0.3), forever=True, sites=(site,)) for site in dead]
    # Messages to both, to the cell whose primaries are lost, and to the other, whose clock is far ahead of it.
    workloads = [
        Workload(sources=("x", others[-1]), groups=tuple(groups), rate=random.choice((5.0, 15.0)), count=50),
        Workload(sources=("x", cell[1]), groups=("g",), rate=random.choice((10.0, 30.0)), count=60),
    ]
    if "h" in groups:
        workloads.append(Workload(sources=("y",), groups=("h",), rate=60.0, count=200))
    return Simulation(
        protocol,
        groups,
        PointToPoint(processing=0.0, latency=0.005),
        seed=seed,
        options=ThreeStepOptions(
            ping_seconds=0.02,
            suspicion_seconds=0.09,
            suspicion_seconds_max=0.2,
            retry_seconds=0.03,
            ask_seconds=0.06,
            want_seconds=0.03,
            acknowledge_every=4,
        ),
        faults=faults,
        workloads=workloads,
        duration=DURATION,
        settle=8.0,
        sync_seconds=random.choice((0.0, 0.01)),
    )
