"""One group without errors: what crosses the network besides the application's bytes."""

from __future__ import annotations

from typing import cast

from ordercast.papers.berket.one_group import process_names, simulate_one_group
from ordercast.sim import Workload
from ordercast.sim.traffic import Traffic
from ordercast.spark.experiments import Point

START_SECONDS = 20.0
"""The control hierarchy has its places by then."""
SECONDS = 60.0
KEEP_ALIVE_SECONDS = 0.05
"""The mean of the 25 to 75 ms of 7.1.2."""

DATAGRAM_BYTES = 84
"""What a sealed datagram on a channel has besides its packet, with the headers of IP and UDP (28)."""

CONTROL = ("LCon", "CCon", "GCon")
MEASURES = (
    "header_bytes",
    "overhead_percent",
    "data_packets",
    "keep_alive_share",
    "control_share",
    "other_packets",
    "control_sent_per_second",
    "control_received_per_second",
)


def run_overhead(point: Point, seed: int) -> dict[str, float | None]:
    """Everyone sends, at a rate each; counted from when everyone has its place."""
    count, size = int(point["processes"]), int(point["size"])
    names = process_names(count)
    simulation = simulate_one_group(
        names,
        [Workload(sources=names, groups=("g",), rate=float(point["rate"]), arrivals="regular", size=size)],
        processing=0.000001,
        seconds=START_SECONDS + SECONDS,
        seed=seed,
        traced=False,
        keep_alive_seconds=KEEP_ALIVE_SECONDS,
    )
    before: list[Traffic] = []
    simulation.queue.schedule(START_SECONDS, lambda: before.append(cast(Traffic, simulation.traffic).copy()))
    simulation.execute()
    after = cast(Traffic, simulation.traffic)

    def received(*kinds: str) -> tuple[int, int]:
        """Packets and bytes of all sites since."""
        packets = size_bytes = 0
        for traffic, sign in ((after, 1), (before[0], -1)):
            for tallies in traffic.received.values():
                for kind, tally in tallies.items():
                    if kind in kinds or not kinds:
                        packets += sign * tally.packets
                        size_bytes += sign * tally.bytes
        return packets, size_bytes

    data, data_bytes = received("Data")
    everything, _ = received()
    keep_alives, _ = received("KeepAlive")
    control, _ = received(*CONTROL)
    header = data_bytes / data - size + DATAGRAM_BYTES
    return {
        "header_bytes": header,
        "overhead_percent": 100 * header / (header + size),
        "data_packets": float(data),
        "keep_alive_share": keep_alives / everything,
        "control_share": control / everything,
        "other_packets": float(everything - data - keep_alives - control),
        "control_sent_per_second": control / SECONDS / count / max(1, count - 1),
        "control_received_per_second": control / SECONDS / count,
    }
