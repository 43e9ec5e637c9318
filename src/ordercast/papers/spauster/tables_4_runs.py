"""Tables 4.1 and 4.2 counted: one message to each of some random groups, with each of the three algorithms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ordercast.core import random_stream
from ordercast.graphs import Groups, draw_groups, generate, measure, read_groups, site_names
from ordercast.papers.spauster.classic import FRAME_SECONDS, SOURCE
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation
from ordercast.sim.networks import BroadcastMedium, Network, PointToPoint
from ordercast.sim.workload import Workload
from ordercast.spark.experiments import Point

SPACING_SECONDS = 1.0
"""Between two messages: so far apart that none waits for another."""
TOLERANCE = 1e-9
"""Seconds: what adding up times in another order can make of them."""

Counted = Mapping[str, tuple[int, float]]
"""Group -> N and D of a message to it."""


def run_point_to_point(point: Point, seed: int) -> dict[str, float | None]:
    """Table 4.1: how far what is counted is from the formulas."""
    groups = _groups(point, seed)
    processing, latency = float(point["processing"]), float(point["latency"])
    costs = measure(generate(read_groups(groups))).groups
    counted = count(groups, "propagation-graph", PointToPoint(processing, latency), seed)
    bounds = {group: cost.delay_max(processing, latency) for group, cost in costs.items()}
    two_phase = count(groups, "two-phase", PointToPoint(processing, latency), seed)
    centre = _centre(groups)
    centralized = count(groups, "sequencer", PointToPoint(processing, latency), seed, sequencer=centre)
    size = int(point["group_size"])
    return {
        "packets": _mean(counted, 0),
        "extra": sum(len(cost.extra) for cost in costs.values()) / len(costs),
        "depth": sum(cost.depth for cost in costs.values()) / len(costs),
        "packets_off": max(abs(counted[group][0] - cost.messages) for group, cost in costs.items()),
        "delay": _mean(counted, 1),
        "delay_over_bound": max(counted[group][1] / bounds[group] for group in groups),
        "delay_share_of_bound": sum(counted[group][1] / bounds[group] for group in groups) / len(groups),
        # With d <= 2 the propagation graph is said to be better than two-phase.
        "shallow": sum(cost.depth <= 2 for cost in costs.values()),
        "shallow_slower": sum(
            counted[group][1] > two_phase[group][1] + TOLERANCE for group, cost in costs.items() if cost.depth <= 2
        ),
        "deep": sum(cost.depth > 2 for cost in costs.values()),
        "deep_slower": sum(
            counted[group][1] > two_phase[group][1] + TOLERANCE for group, cost in costs.items() if cost.depth > 2
        ),
        "two_phase_packets_off": max(abs(packets - 3 * size) for packets, _ in two_phase.values()),
        "two_phase_delay_off": max(
            abs(delay - (3 * latency + (2 * size + 1) * processing)) for _, delay in two_phase.values()
        ),
        "two_phase_delay": _mean(two_phase, 1),
        "centralized_packets_off": max(
            abs(packets - _centre_sends(groups, group, centre)) for group, (packets, _) in centralized.items()
        ),
        "centralized_delay_off": max(
            abs(delay - (2 * latency + _centre_sends(groups, group, centre) * processing))
            for group, (_, delay) in centralized.items()
        ),
        "centralized_delay": _mean(centralized, 1),
    }


def run_broadcast(point: Point, seed: int) -> dict[str, float | None]:
    """Table 4.2, in frames."""
    groups = _groups(point, seed)
    costs = measure(generate(read_groups(groups))).groups
    counted = count(groups, "propagation-graph", BroadcastMedium(FRAME_SECONDS), seed)
    two_phase = count(groups, "two-phase", BroadcastMedium(FRAME_SECONDS), seed)
    centralized = count(groups, "sequencer", BroadcastMedium(FRAME_SECONDS), seed, sequencer=_centre(groups))
    size = int(point["group_size"])
    return {
        "frames": _mean(counted, 0),
        "depth": sum(cost.depth for cost in costs.values()) / len(costs),
        "frames_off_printed": max(abs(counted[group][0] - (cost.depth + 1)) for group, cost in costs.items()),
        "frames_above_printed": sum(counted[group][0] > cost.depth + 1 for group, cost in costs.items()) / len(costs),
        "frames_below_printed": sum(counted[group][0] < cost.depth + 1 for group, cost in costs.items()),
        "frames_off": max(abs(counted[group][0] - cost.frames) for group, cost in costs.items()),
        "delay": _mean(counted, 1),
        "delay_over_frames": max(counted[group][1] / (cost.frames * FRAME_SECONDS) for group, cost in costs.items()),
        "delay_under_printed": min(
            counted[group][1] / ((cost.depth + 1) * FRAME_SECONDS) for group, cost in costs.items()
        ),
        "two_phase_frames_off": max(abs(frames - (size + 2)) for frames, _ in two_phase.values()),
        "two_phase_delay_off": max(abs(delay - (size + 2) * FRAME_SECONDS) for _, delay in two_phase.values()),
        "two_phase_delay": _mean(two_phase, 1),
        "centralized_frames_off": max(abs(frames - 2) for frames, _ in centralized.values()),
        "centralized_delay_off": max(abs(delay - 2 * FRAME_SECONDS) for _, delay in centralized.values()),
        "centralized_delay": _mean(centralized, 1),
    }


def _groups(point: Point, seed: int) -> Groups:
    random = random_stream(seed, "groups")
    return draw_groups(random, int(point["sites"]), int(point["groups"]), int(point["group_size"]))


def _centre(groups: Groups) -> str:
    frequency = Counter(site for members in groups.values() for site in members)
    return min(frequency, key=lambda site: (-frequency[site], site))


def _centre_sends(groups: Groups, group: str, centre: str) -> int:
    """n, as printed, when the centre is a member; one more when it is not."""
    return len(groups[group]) + (centre not in groups[group])


def _mean(counted: Counted, place: int) -> float:
    return sum(pair[place] for pair in counted.values()) / len(counted)


def count(groups: Groups, protocol: str, network: Network, seed: int, **options: object) -> Counted:
    """N and D of a message to each group, from a source outside, one long after the other."""
    found = find_protocol(protocol)
    simulation = Simulation(
        found,
        groups,
        network,
        sites=[*site_names(1 + max(int(site[1:]) for members in groups.values() for site in members)), SOURCE],
        seed=seed,
        options=found.contract.options(**options),
        workloads=[
            Workload(
                sources=(SOURCE,),
                groups=(group,),
                count=1,
                rate=1 / SPACING_SECONDS,
                arrivals="regular",
                start=number * SPACING_SECONDS,
            )
            for number, group in enumerate(groups)
        ],
        duration=(len(groups) + 1) * SPACING_SECONDS,
        settle=SPACING_SECONDS,
        check_invariants=False,
    ).execute()
    begun: dict[str, tuple[str, float]] = {}
    packets: Counter[str] = Counter()
    delivered: Counter[str] = Counter()
    ended: dict[str, float] = {}
    table = simulation.table().select(["kind", "time", "message", "messages", "groups"])
    for row in table.to_pylist():
        if row["kind"] == "multicast":
            begun[row["message"]] = (row["groups"][0], row["time"])
        elif row["kind"] == "send":
            packets.update(row["messages"] or ())
        elif row["kind"] == "deliver":
            delivered[row["message"]] += 1
            ended[row["message"]] = max(ended.get(row["message"], 0.0), row["time"])
    for message, (group, _) in begun.items():
        if delivered[message] != len(groups[group]):
            raise ValueError(
                f"{message} to {group} was delivered at {delivered[message]} of {len(groups[group])} sites"
            )
    return {group: (packets[message], ended[message] - begin) for message, (group, begin) in begun.items()}
