"""The runs behind the figures: the protocol itself, on a channel that loses with probability f, or by overrun."""

from __future__ import annotations

from collections import Counter

from ordercast.core import ChannelId, InstanceId, MessageId, Packet, SiteId
from ordercast.core.effects import Deliver, Replay
from ordercast.papers.tachikawa import formulas
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation
from ordercast.sim.networks import OneChannel
from ordercast.sim.site import SimulatedSite
from ordercast.sim.workload import Workload
from ordercast.spark.experiments import Point

PROCESSES = 10
MESSAGES = 100
"""n and L, which the paper does not give."""
FRAME_SECONDS = 0.0001
_START_SECONDS = 1.5
"""The cluster is established by then."""


class CountingChannel(OneChannel):
    """Counts what the figures count. A trace of everything, of which little is needed, takes half of a run's time."""

    def __init__(self, processing: float, buffers: int, loss: float = 0.0) -> None:
        super().__init__(FRAME_SECONDS, processing, buffers, loss)
        self.sends: Counter[MessageId] = Counter()
        """How often each message was on the channel, the first time included."""

    def broadcast(
        self, sender: SimulatedSite, channel: ChannelId, packet: Packet, instance: InstanceId, ttl: int | None
    ) -> None:
        """As on any channel."""
        if type(packet).__name__ in ("Data", "Retransmission"):
            self.sends[packet.served()[0]] += 1
        super().broadcast(sender, channel, packet, instance, ttl)


def run_losses(point: Point, seed: int) -> dict[str, float | None]:
    """L messages on the channel before anyone can acknowledge one, each to d processes, each lost with probability
    f."""
    f, d = float(point["f"]), round(float(point["share"]) * PROCESSES)
    recovery = str(point["recovery"])
    sites = tuple(f"p{number}" for number in range(PROCESSES))
    channel = CountingChannel(processing=0.0, buffers=4 * MESSAGES, loss=f)
    protocol = find_protocol("selective-total")
    simulation = Simulation(
        protocol,
        {"all": sites},
        channel,
        seed=seed,
        options=protocol.contract.options(recovery=recovery),
        workloads=[
            Workload(
                sources=sites,
                destinations=d,
                rate=1e5,
                count=MESSAGES // PROCESSES,
                start=_START_SECONDS,
            )
        ],
        duration=_START_SECONDS + 0.5,
        settle=1.0,
        tracing=False,
        check_invariants=False,
    ).execute()
    sends = channel.sends
    printed, exact = formulas.received_by_all_printed(f, PROCESSES, d), formulas.received_by_all(f, PROCESSES, d)
    if recovery == "selective":
        by_formula = formulas.selective(printed), formulas.selective(exact)
    else:
        by_formula = formulas.go_back_n(printed, MESSAGES), formulas.go_back_n(exact, MESSAGES)
    work = simulation.branches["messages-inserted"] + simulation.branches["messages-sorted"]
    return {
        "again": sum(count > 1 for count in sends.values()) / MESSAGES,
        "frames_again": sends.total() / MESSAGES - 1,
        "again_printed": by_formula[0],
        "again_corrected": by_formula[1],
        "work": work / PROCESSES / MESSAGES,
        "work_printed": formulas.processing_printed(f, PROCESSES, d, MESSAGES),
        "work_corrected": formulas.processing(f, PROCESSES, d, MESSAGES),
    }


def run_overrun(point: Point, seed: int) -> dict[str, float | None]:
    """Five processes send as fast as they may; receivers take `ratio` times as long for a frame as the channel."""
    sites = tuple(f"p{number}" for number in range(5))
    count = int(point["messages"]) // len(sites)
    channel = CountingChannel(FRAME_SECONDS * float(point["ratio"]), int(point["buffers"]))
    delivered: list[float] = []

    def take(site: SiteId, time: float, effect: Deliver | Replay) -> None:
        delivered.append(time)

    protocol = find_protocol("selective-total")
    simulation = Simulation(
        protocol,
        {"all": sites},
        channel,
        seed=seed,
        options=protocol.contract.options(recovery=str(point["recovery"])),
        workloads=[Workload(sources=sites, destinations=3, rate=1e5, count=count, start=_START_SECONDS)],
        duration=_START_SECONDS + 1.0,
        settle=30.0,
        tracing=False,
        check_invariants=False,
        application=take,
    ).execute()
    messages = count * len(sites)
    complete = len(delivered) == 3 * messages
    return {
        "frames_again": channel.sends.total() / messages - 1,
        "overruns": channel.overruns / messages,
        "resets": simulation.branches["reset"],
        "seconds_each": (max(delivered) - _START_SECONDS) / messages if complete else None,
        "undelivered": float(3 * messages - len(delivered)),
    }
