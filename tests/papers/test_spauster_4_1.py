"""Spauster 1991, Tables 4.1 and 4.2: packets and delay of one ordered multicast to n sites.

N counts the packets that serve the message. Acknowledgements, which the thesis leaves out, are of a type that serves no
message in particular, and are sent later.
"""

from __future__ import annotations

from typing import Any

import pytest

from ordercast.core import Protocol
from ordercast.protocols.classic.sequencer import Sequencer
from ordercast.protocols.classic.two_phase import TwoPhase
from ordercast.sim import Simulation
from ordercast.sim.networks import BroadcastMedium, Network, PointToPoint
from ordercast.sim.workload import Workload

GROUP_SIZES = (1, 2, 3, 5, 10, 20)
P = 0.0001
L = 0.002
T = 0.0005


def one_multicast(protocol: type[Protocol], members: int, network: Network) -> tuple[int, float]:
    """N and D of a message from a source outside the group, on a network without faults."""
    simulation = Simulation(
        protocol,
        {"g": tuple(f"d{number:02}" for number in range(members))},
        network,
        workloads=[Workload(sources=("source",), groups=("g",), rate=10.0, count=1)],
        duration=2.0,
        settle=1.0,
    ).execute()
    rows: list[dict[str, Any]] = simulation.table().to_pylist()
    begin = next(row["time"] for row in rows if row["kind"] == "multicast")
    delivered = [row["time"] for row in rows if row["kind"] == "deliver"]
    assert len(delivered) == members
    sent = [row["time"] for row in rows if row["kind"] == "send" and row["messages"] is not None]
    background = [row["time"] for row in rows if row["kind"] == "send" and row["messages"] is None]
    # Nothing else is on the network, or keeps a site busy, while the time is taken.
    assert all(time > max(delivered) for time in background)
    return len(sent), max(delivered) - begin


@pytest.mark.parametrize("n", GROUP_SIZES)
def test_two_phase_takes_3n_packets_and_3l_plus_2n_plus_1_p_point_to_point(n: int) -> None:
    packets, delay = one_multicast(TwoPhase, n, PointToPoint(processing=P, latency=L))
    assert packets == 3 * n
    assert delay == pytest.approx(3 * L + (2 * n + 1) * P)


@pytest.mark.parametrize("n", GROUP_SIZES)
def test_two_phase_takes_n_plus_2_frames_on_a_broadcast_medium(n: int) -> None:
    packets, delay = one_multicast(TwoPhase, n, BroadcastMedium(frame=T))
    assert packets == n + 2
    assert delay == pytest.approx((n + 2) * T)


@pytest.mark.parametrize("n", GROUP_SIZES)
def test_a_central_site_that_is_a_member_takes_n_packets_and_2l_plus_np_point_to_point(n: int) -> None:
    packets, delay = one_multicast(Sequencer, n, PointToPoint(processing=P, latency=L))
    assert packets == n
    # With n = 1 the central site is the only member, and there is no second leg.
    assert delay == pytest.approx(2 * L + n * P if n > 1 else L + P)


@pytest.mark.parametrize("n", GROUP_SIZES[1:])
def test_a_central_site_takes_2_frames_on_a_broadcast_medium(n: int) -> None:
    packets, delay = one_multicast(Sequencer, n, BroadcastMedium(frame=T))
    assert packets == 2
    assert delay == pytest.approx(2 * T)
