"""Each network model does what its paper says of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import networkx as nx
import pytest

from ordercast.core import Contract, Packet, Protocol, UsageError
from ordercast.core.effects import Broadcast, JoinChannel
from ordercast.core.events import Arrival, MulticastRequested, Started
from ordercast.protocols.fan import Fan0
from ordercast.sim import Simulation, Workload
from ordercast.sim.faults import Loss
from ordercast.sim.networks import (
    BroadcastMedium,
    Network,
    OneChannel,
    PointToPoint,
    Topology,
    WideArea,
    square_grid,
)
from ordercast.sim.networks.channels import Channel
from ordercast.sim.traffic import Tally, Traffic, total
from ordercast.trace.interface import Envelope

P, L, T = 0.001, 0.01, 0.002


def one_message(network: Network, members: str = "abc", source: str = "s", **changes: object) -> Simulation:
    """One multicast at 1.0 s from a source outside the group."""
    return Simulation(
        Fan0,
        {"g": list(members)},
        network,
        workloads=[Workload(sources=(source,), groups=("g",), rate=1.0, arrivals="regular", count=1)],
        duration=5.0,
        settle=0.0,
        **changes,  # type: ignore[arg-type]
    ).execute()


def rows(simulation: Simulation, kind: str) -> list[dict]:
    return [row for row in simulation.table().to_pylist() if row["kind"] == kind]


def delays(simulation: Simulation) -> list[float]:
    return sorted(round(row["time"] - 1.0, 9) for row in rows(simulation, "deliver"))


def test_a_multicast_to_n_sites_takes_n_p_plus_l_and_n_packets_point_to_point() -> None:
    """Spauster 4.1: nP + L until the last site has it."""
    run = one_message(PointToPoint(P, L))
    assert delays(run) == pytest.approx([P + L, 2 * P + L, 3 * P + L])
    assert [row["peer"] for row in rows(run, "send")] == ["a", "b", "c"]


def test_a_multicast_is_one_frame_that_everyone_hears_at_once_on_a_broadcast_medium() -> None:
    """Spauster 4.2."""
    run = one_message(BroadcastMedium(T))
    assert delays(run) == [T, T, T]
    (send,) = rows(run, "send")
    assert send["peer"] is None
    assert {row["packet_id"] for row in rows(run, "receive")} == {send["packet_id"]}


def test_there_is_just_one_frame_on_a_broadcast_medium_at_a_time() -> None:
    """Spauster 4.2: no concurrency in sending messages."""
    run = Simulation(
        Fan0,
        {"g": ["a"]},
        BroadcastMedium(T),
        workloads=[Workload(sources=("s", "t", "u"), groups=("g",), rate=1.0, arrivals="regular", count=1)],
        duration=2.0,
        settle=0.0,
    ).execute()
    assert delays(run) == [T, 2 * T, 3 * T]


def test_a_busy_site_takes_one_step_after_the_other() -> None:
    run = Simulation(
        Fan0,
        {"g": ["a", "b"]},
        PointToPoint(P, 0.0),
        workloads=[Workload(sources=("s",), groups=("g",), rate=1.0 / (P / 2), arrivals="regular", count=3)],
        duration=1.0,
        settle=0.0,
    ).execute()
    sent = [row["time"] for row in rows(run, "send")]
    assert sent == sorted(sent)
    assert all(later - earlier >= P * 0.999 for earlier, later in itertools.pairwise(sent))


def test_packets_take_the_shortest_path_through_a_topology() -> None:
    graph = nx.Graph()
    graph.add_weighted_edges_from([("s", "a", 1.0), ("a", "b", 2.0), ("s", "b", 5.0), ("b", "c", 1.0)])
    run = one_message(Topology(graph, 0.0, L))
    assert delays(run) == pytest.approx([L, 3 * L, 4 * L])


def test_a_square_grid_joins_neighbours_only() -> None:
    """Spauster 4.4."""
    grid = square_grid(tuple("abcdefghi"))
    assert nx.shortest_path_length(grid, "a", "i") == 4
    assert sorted(grid["e"]) == ["b", "d", "f", "h"]
    assert nx.is_connected(square_grid(tuple("abcdefg")))


def test_a_topology_in_pieces_is_refused() -> None:
    graph = nx.Graph()
    graph.add_nodes_from(["a", "b"])
    with pytest.raises(UsageError, match="not connected"):
        Topology(graph)


REGIONS = {"east": ("a", "s"), "west": ("b", "c")}
LATENCY = {"east": {"east": 0.001, "west": 0.05}, "west": {"west": 0.002}}


def test_a_wide_area_packet_takes_the_matrix_entry_and_at_most_the_jitter_more() -> None:
    run = one_message(WideArea(REGIONS, LATENCY, jitter=0.01, processing=0.0))
    near, *far = delays(run)
    assert 0.001 <= near <= 0.011
    assert all(0.05 <= delay <= 0.06 for delay in far)


def test_a_wide_area_network_loses_what_it_is_told_to_lose() -> None:
    workload = Workload(sources=("s",), groups=("g",), rate=1000.0, count=2000)
    run = Simulation(
        Fan0,
        {"g": ["a", "b", "c"]},
        WideArea(REGIONS, LATENCY, loss=0.2),
        workloads=[workload],
        duration=5.0,
        settle=1.0,
    ).execute()
    lost = len(rows(run, "drop")) / (len(rows(run, "drop")) + len(rows(run, "receive")))
    assert 0.17 < lost < 0.23


def test_where_regions_are_calm_within_only_the_line_between_them_jitters_and_loses() -> None:
    workload = Workload(sources=("s",), groups=("g",), rate=1000.0, count=2000)
    run = Simulation(
        Fan0,
        {"g": ["a", "b", "c"]},
        WideArea(REGIONS, LATENCY, jitter=0.01, loss=0.2, processing=0.0, calm_within=True),
        workloads=[workload],
        duration=5.0,
        settle=1.0,
    ).execute()
    sent = {row["packet_id"]: row["time"] for row in rows(run, "send")}
    near = [row["time"] - sent[row["packet_id"]] for row in rows(run, "receive") if row["site"] == "a"]
    assert len(near) == 2000
    assert {round(delay, 9) for delay in near} == {0.001}
    assert {row["site"] for row in rows(run, "drop")} == {"b", "c"}


class Ping(Packet, frozen=True):
    background = True


class Beacon(Protocol):
    """Broadcasts on a channel with the TTL that the payload's length says, and remembers how it heard of it."""

    contract = Contract("beacon", "", "", (), (), "", ())
    packets = (Ping,)
    heard: list[tuple[str, Arrival]]

    def on_started(self, event: Started) -> None:
        self.heard = []
        self.outbox.append(JoinChannel("control"))

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.outbox.append(Broadcast("control", Ping(), len(event.multicast.payload) or None))

    def on_ping(self, sender: str, packet: Ping, arrival: Arrival) -> None:
        self.heard.append((sender, arrival))


@pytest.mark.parametrize(("ttl", "reached"), [(1, ["a", "s"]), (16, ["a", "b", "c", "s"]), (0, ["a", "b", "c", "s"])])
def test_a_small_ttl_stays_within_the_region_and_a_sender_hears_itself(ttl: int, reached: list[str]) -> None:
    run = Simulation(
        Beacon,
        {"g": ["a", "b", "c"]},
        WideArea(REGIONS, LATENCY),
        workloads=[Workload(sources=("s",), groups=("g",), rate=1.0, arrivals="regular", count=1, size=ttl)],
        duration=2.0,
        settle=1.0,
    ).execute()
    heard = {name: site.instances["main"].core.heard for name, site in run.sites.items()}  # type: ignore[attr-defined]
    assert [name for name, arrivals in heard.items() if arrivals] == reached
    if "b" in reached:
        assert heard["b"][0][1] == Arrival("control", hops=16)
    assert heard["a"][0][1] == Arrival("control", hops=1)


HOPS = {"east": {"west": 3, "far": 9}, "west": {"west": 2, "far": 5}}


@pytest.mark.parametrize(
    ("ttl", "reached"), [(1, "as"), (2, "as"), (3, "abcs"), (8, "abcs"), (9, "abcds"), (0, "abcds")]
)
def test_a_ttl_gets_as_far_as_the_hops_between_two_regions_say(ttl: int, reached: str) -> None:
    latency = {**LATENCY, "far": {"east": 0.1, "west": 0.1, "far": 0.001}}
    run = Simulation(
        Beacon,
        {"g": list("abcd")},
        WideArea({**REGIONS, "far": ("d",)}, latency, hops=HOPS),
        workloads=[Workload(sources=("s",), groups=("g",), rate=1.0, arrivals="regular", count=1, size=ttl)],
        duration=2.0,
        settle=1.0,
    ).execute()
    heard = {name: site.instances["main"].core.heard for name, site in run.sites.items()}  # type: ignore[attr-defined]
    assert "".join(name for name, arrivals in heard.items() if arrivals) == reached
    for site, hops in (("a", 1), ("b", 3), ("c", 3), ("d", 9)):
        assert all(arrival.hops == hops for _, arrival in heard[site])


def test_a_region_loses_a_packet_as_a_whole_and_loses_none_of_its_own() -> None:
    workload = Workload(sources=("s",), groups=("g",), rate=1000.0, count=2000)
    run = Simulation(
        Fan0,
        {"g": ["a", "b", "c", "d"]},
        WideArea(
            {**REGIONS, "far": ("d",)}, {"far": {"east": 0.1, "west": 0.1, "far": 0.1}, **LATENCY}, shared_loss=0.2
        ),
        workloads=[workload],
        duration=5.0,
        settle=1.0,
    ).execute()
    lost = {site: {row["packet_id"] for row in rows(run, "drop") if row["site"] == site} for site in "abcd"}
    assert not lost["a"]
    assert lost["b"] == lost["c"]
    assert 300 < len(lost["b"]) < 500
    assert 300 < len(lost["d"]) < 500
    assert 40 < len(lost["b"] & lost["d"]) < 130, "each region draws for itself"


def test_packets_and_bytes_are_counted_without_a_trace_as_a_trace_has_them() -> None:
    def run(**changes: bool) -> Simulation:
        return Simulation(
            Beacon,
            {"g": ["a", "b", "c"]},
            WideArea(REGIONS, LATENCY, loss=0.2),
            workloads=[Workload(sources=("s", "b"), groups=("g",), rate=50.0, size=16)],
            duration=2.0,
            settle=1.0,
            **changes,  # type: ignore[arg-type]
        ).execute()

    counted = run(tracing=False, counting=True)
    traced = run()
    assert counted.traffic is not None
    assert traced.traffic is None
    for kind, tallies in (("send", counted.traffic.sent), ("receive", counted.traffic.received)):
        expected: dict[str, Tally] = {}
        for row in rows(traced, kind):
            if row["peer"] != row["site"]:
                tally = expected.setdefault(row["site"], Tally())
                tally.packets += 1
                tally.bytes += row["size"]
        assert {site: by_type["Ping"] for site, by_type in tallies.items()} == expected
    assert total(counted.traffic.sent).packets == sum(
        tallies["Ping"].packets for tallies in counted.traffic.sent.values()
    )


def test_a_count_can_be_compared_with_an_earlier_one() -> None:
    traffic = Traffic()
    envelope = Envelope("a", "main", Ping(), "Ping", None, 10)
    traffic.count_sent("a", envelope)
    traffic.count_received("b", envelope)
    before = traffic.copy()
    traffic.count_received("b", envelope)
    traffic.count_received("a", envelope)
    assert before.received == {"b": {"Ping": Tally(1, 10)}}
    assert traffic.received == {"b": {"Ping": Tally(2, 20)}}, "what a site hears of itself has crossed nothing"
    assert total(traffic.received, lambda site, name: site == "c") == Tally()


def test_whoever_comes_and_goes_changes_whom_a_broadcast_reaches() -> None:
    channel = Channel()
    for site in ("c", "a", "b", "a"):
        channel.join(site)
    assert channel.reached("all", None) == ("a", "b", "c")
    assert channel.reached("near", lambda site: site < "c") == ("a", "b")
    channel.leave("a")
    channel.leave("z")
    assert channel.reached("all", None) == ("b", "c")
    assert channel.reached("near", lambda site: site < "c") == ("b",)
    assert channel.reached(None, lambda site: site == "c") == ("c",)
    assert channel.reached(None, lambda site: site == "b") == ("b",), "what may change is not kept"
    channel.leave("b")
    channel.leave("c")
    assert not channel


def test_a_ttl_counts_hops_in_a_topology() -> None:
    graph = nx.path_graph(["s", "a", "b", "c"])
    run = Simulation(
        Beacon,
        {"g": ["a", "b", "c"]},
        Topology(graph),
        workloads=[Workload(sources=("s",), groups=("g",), rate=1.0, arrivals="regular", count=1, size=2)],
        duration=2.0,
        settle=1.0,
    ).execute()
    heard = {name: site.instances["main"].core.heard for name, site in run.sites.items()}  # type: ignore[attr-defined]
    assert [name for name, arrivals in heard.items() if arrivals] == ["a", "b", "s"]
    assert heard["b"][0][1].hops == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: PointToPoint(-1.0, 0.0),
        lambda: BroadcastMedium(-1.0),
        lambda: Topology(nx.path_graph(["a", "b"]), processing=-1.0),
        lambda: WideArea({"e": ("a",)}, {}),
        lambda: WideArea({"e": ("a",), "w": ("a",)}, {"e": {"e": 0.0, "w": 0.0}, "w": {"w": 0.0}}),
        lambda: WideArea({"e": ("a",)}, {"e": {"e": -1.0}}),
        lambda: WideArea({"e": ("a",)}, {"e": {"e": 0.0}}, loss=1.0),
        lambda: WideArea({"e": ("a",)}, {"e": {"e": 0.0}}, shared_loss=1.0),
        lambda: WideArea({"e": ("a",)}, {"e": {"e": 0.0}}, hops={"e": {"e": 0}}),
    ],
)
def test_a_network_that_makes_no_sense_is_refused(make) -> None:
    with pytest.raises(UsageError):
        make()


def test_a_site_in_no_region_is_refused() -> None:
    with pytest.raises(UsageError, match="in no region"):
        one_message(WideArea({"east": ("a", "b", "c")}, {"east": {"east": 0.0}}))


def cut_short(network: Network, *faults: Loss) -> Simulation:
    """One packet leaves after a second and takes half a second more; the run ends before."""
    return Simulation(
        Fan0,
        {"g": ["a", "b"]},
        network,
        workloads=[Workload(sources=("s",), groups=("g",), rate=1.0, arrivals="regular", count=1)],
        faults=faults,
        duration=1.2,
        settle=0.0,
    ).execute()


@pytest.mark.parametrize("network", [BroadcastMedium, OneChannel, partial(PointToPoint, 0.0)])
def test_a_packet_that_is_under_way_when_the_run_ends_says_so(network: Callable[[float], Network]) -> None:
    run = cut_short(network(0.5))
    assert [(row["site"], row["reason"]) for row in rows(run, "drop")] == [("a", "under way"), ("b", "under way")]
    assert rows(run, "receive") == []


def test_a_packet_that_will_be_lost_is_not_under_way() -> None:
    assert rows(cut_short(BroadcastMedium(0.5), Loss(from_=0.0, rate=1.0)), "drop") == []
