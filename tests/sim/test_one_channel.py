"""The one-channel network: one order for all, and overrun as a consequence of speed (Tachikawa, Takizawa, 2.1)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import pytest

from ordercast.campaign import draw_scenario
from ordercast.core import Contract, Packet, Protocol, UsageError
from ordercast.core.effects import Broadcast, JoinChannel
from ordercast.core.events import Arrival, MulticastRequested, Started
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation, Workload
from ordercast.sim.faults import Fault, Pause
from ordercast.sim.networks import OneChannel
from ordercast.sim.scenario import parse_scenario

FRAME, PROCESSING = 0.001, 0.002


class Frame(Packet, frozen=True):
    """Anything."""

    background = True
    text: str


class Speaker(Protocol):
    """Broadcasts what it is asked to multicast."""

    contract = Contract("speaker", "", "", (), (), "", ())
    packets: ClassVar[tuple[type[Packet], ...]] = (Frame,)

    def on_started(self, event: Started) -> None:
        self.outbox.append(JoinChannel("channel"))

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.outbox.append(Broadcast("channel", Frame(str(event.multicast.id))))

    def on_frame(self, sender: str, packet: Frame, arrival: Arrival) -> None:
        assert arrival.channel == "channel"


def run(network: OneChannel, rate: float, count: int, *faults: Fault, sources: str = "ab") -> dict[str, Any]:
    """Each site -> the packets that it received, in order; and all rows."""
    simulation = Simulation(
        Speaker,
        {"g": ("a", "b", "c")},
        network,
        workloads=[Workload(sources=tuple(sources), groups=("g",), rate=rate, count=count)],
        faults=faults,
        duration=5.0,
        settle=5.0,
    ).execute()
    rows = sorted(simulation.table().to_pylist(), key=lambda row: (row["time"], row["seq"]))
    received: dict[str, list[str]] = {site: [] for site in "abc"}
    for row in rows:
        if row["kind"] == "receive":
            received[row["site"]].append(row["packet_id"])
    return {"received": received, "rows": rows, "overrun": network.overruns}


def test_everyone_hears_every_frame_its_sender_included_in_the_same_order() -> None:
    received = run(OneChannel(FRAME, PROCESSING, buffers=500), 200.0, 50)["received"]
    assert len(received["a"]) == 100
    assert received["a"] == received["b"] == received["c"]


def test_figure_2_with_losses_the_orders_are_still_equivalent() -> None:
    received = run(OneChannel(FRAME, 0.0, loss=0.3), 100.0, 100)["received"]
    sets = [set(frames) for frames in received.values()]
    assert all(110 < len(frames) < 170 for frames in sets)
    assert sets[0] != sets[1] != sets[2]
    for first in received.values():
        for second in received.values():
            common = set(first) & set(second)
            assert [frame for frame in first if frame in common] == [frame for frame in second if frame in common]


def test_the_channel_carries_one_frame_at_a_time_and_a_receiver_works_on_one_at_a_time() -> None:
    rows = run(OneChannel(FRAME, PROCESSING, buffers=100), 1e6, 10)["rows"]
    times = [row["time"] for row in rows if row["kind"] == "receive" and row["site"] == "c"]
    gaps = [round(later - earlier, 9) for earlier, later in pairwise(times)]
    assert gaps == [PROCESSING] * 19
    first = min(row["time"] for row in rows if row["kind"] == "send")
    assert times[0] == pytest.approx(first + FRAME + PROCESSING, abs=1e-5)


@pytest.mark.parametrize(("processing", "overruns"), [(FRAME / 2, False), (FRAME * 4, True)])
def test_who_is_slower_than_the_channel_overruns_its_buffers(processing: float, overruns: bool) -> None:
    result = run(OneChannel(FRAME, processing, buffers=8), 1e6, 50)
    dropped = [row for row in result["rows"] if row["kind"] == "drop"]
    assert (len(dropped) > 0) == overruns
    assert len(dropped) == result["overrun"]
    assert {row["reason"] for row in dropped} <= {"overrun"}
    # Of a hundred frames at once a receiver works off one in four, and keeps as many as it has buffers.
    if overruns:
        assert len(result["received"]["c"]) == pytest.approx(100 / 4 + 8, abs=2)


def test_a_paused_site_keeps_what_its_buffers_hold_and_loses_the_rest() -> None:
    result = run(OneChannel(FRAME, 0.0, buffers=5), 50.0, 100, Pause(from_=1.0, to=2.0, sites=("c",)), sources="a")
    lost = len(result["received"]["a"]) - len(result["received"]["c"])
    sent_meanwhile = sum(row["kind"] == "send" and 1.0 <= row["time"] <= 2.0 for row in result["rows"])
    assert lost == result["overrun"] == pytest.approx(sent_meanwhile - 5, abs=1)


@pytest.mark.parametrize("wrong", [{"frame": -1.0}, {"processing": -1.0}, {"buffers": 0}, {"loss": 1.0}], ids=str)
def test_a_channel_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        OneChannel(**wrong)


def document(**network: Any) -> dict[str, Any]:
    return {"protocol": "selective-total", "groups": {"g": ["a", "b", "c"]}, "network": network}


def test_a_scenario_names_its_speeds_buffers_and_loss() -> None:
    table = {"kind": "one-channel", "frame": 0.1, "processing": 0.2, "buffers": 3, "loss": 0.5, "latency": 0.4}
    scenario = parse_scenario(document(**table), find_protocol)
    assert isinstance(scenario.network.make(scenario.sites), OneChannel)


@pytest.mark.parametrize("kind", ["point-to-point", "topology"])
def test_selective_total_is_refused_on_a_network_without_one_order(kind: str) -> None:
    network = {"kind": kind} | ({"shape": "grid"} if kind == "topology" else {})
    with pytest.raises(UsageError, match="needs a channel that shows everyone the same order"):
        parse_scenario(document(**network), find_protocol)


def test_selective_total_is_drawn_on_channels_only() -> None:
    kinds = {draw_scenario(find_protocol("selective-total"), seed).network.kind for seed in range(40)}
    assert kinds == {"one-channel", "broadcast"}
