"""The network of servers does what section 2 of Garcia-Molina, Kogan, Lynch (1987) says of it."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from ordercast.core import UsageError
from ordercast.protocols.fan import Fan0
from ordercast.sim import Simulation, Workload
from ordercast.sim.faults import Outage
from ordercast.sim.networks import PointToPoint, Servers
from ordercast.sim.random_servers import random_servers

CHEAP, EXPENSIVE, P = 0.001, 0.1, 0.0001
HOSTS = {"s": "one", "a": "one", "b": "two", "c": "three", "d": "four"}
"""A square: one = two - three - four - one, where = is cheap."""


def square(**changes: float) -> Servers:
    return Servers(
        HOSTS,
        [("one", "two", 1.0)],
        [("two", "three", 1.0), ("three", "four", 1.0), ("four", "one", 2.0)],
        processing=P,
        cheap_latency=CHEAP,
        expensive_latency=EXPENSIVE,
        **changes,
    )


def run(network: Servers, *faults: Outage, count: int = 1, size: int = 100, **changes: object) -> Simulation:
    """Multicasts from s, one a second, to everyone else."""
    return Simulation(
        Fan0,
        {"g": ["a", "b", "c", "d"]},
        network,
        workloads=[
            Workload(sources=("s",), groups=("g",), rate=1.0, arrivals="regular", count=count, size=size),
        ],
        faults=faults,
        duration=count + 1.5,
        settle=1.0,
        **changes,  # type: ignore[arg-type]
    ).execute()


def received(simulation: Simulation) -> dict[str, list[tuple[float, int]]]:
    """Site -> transit time and cost bit of what it got."""
    rows = simulation.table().to_pylist()
    sent = {row["packet_id"]: row["time"] for row in rows if row["kind"] == "send"}
    found: dict[str, list[tuple[float, int]]] = {}
    for row in rows:
        if row["kind"] == "receive":
            found.setdefault(row["site"], []).append((round(row["time"] - sent[row["packet_id"]], 6), row["cost"]))
    return found


def test_a_packet_takes_the_way_with_fewest_expensive_links_and_the_cost_bit_tells_of_them() -> None:
    assert received(run(square())) == {
        "a": [(2 * CHEAP, 0)],
        "b": [(3 * CHEAP, 0)],
        "c": [(round(3 * CHEAP + EXPENSIVE, 6), 1)],
        "d": [(2 * CHEAP + 2 * EXPENSIVE, 1)],
    }


def test_servers_find_a_way_around_a_link_that_is_down_and_back_again() -> None:
    fault = Outage(from_=1.5, to=2.5, links=(("one", "two"),))
    simulation = run(square(), fault, count=3)
    around = (2 * CHEAP + 4 * EXPENSIVE, 1)
    assert received(simulation)["b"] == [(3 * CHEAP, 0), around, (3 * CHEAP, 0)]
    assert received(simulation)["a"] == [(2 * CHEAP, 0)] * 3
    assert simulation.fault_counts == {}


def test_until_the_servers_know_of_a_failure_packets_are_lost_on_it() -> None:
    simulation = run(square(rerouting=0.8), Outage(from_=1.5, to=5.0, links=(("one", "two"),)), count=3)
    assert [cost for _, cost in received(simulation)["b"]] == [0, 1]
    assert simulation.fault_counts == {"outage": 2}


def test_a_server_that_fails_takes_its_links_and_its_hosts_along() -> None:
    simulation = run(square(), Outage(from_=1.5, to=2.5, servers=("two",)), count=3)
    assert len(received(simulation)["b"]) == 2
    assert [transit for transit, _ in received(simulation)["c"]] == pytest.approx(
        [3 * CHEAP + EXPENSIVE, 2 * CHEAP + 3 * EXPENSIVE, 3 * CHEAP + EXPENSIVE]
    )
    drops = [row for row in simulation.table().to_pylist() if row["kind"] == "drop"]
    assert [(row["site"], row["reason"]) for row in drops] == [("b", "outage")]


def test_two_outages_of_one_link_end_when_both_have_ended() -> None:
    faults = [Outage(from_=1.5, to=2.5, links=(("a", "one"),)), Outage(from_=1.6, to=3.5, links=(("one", "a"),))]
    assert len(received(run(square(), *faults, count=4))["a"]) == 2


def test_packets_wait_for_each_other_at_a_narrow_link_and_nowhere_else() -> None:
    network = Servers(
        {"s": "one", "a": "one", "b": "one", "c": "two", "d": "two"},
        expensive=[("one", "two", 1.0)],
        processing=0.0,
        cheap_latency=0.0,
        expensive_latency=EXPENSIVE,
        bandwidth=1000.0,
    )
    simulation = run(network, size=1000)
    times = {site: transit for site, [(transit, _)] in received(simulation).items()}
    size = next(row["size"] for row in simulation.table().to_pylist() if row["kind"] == "send")
    assert times["a"] == times["b"] == 0.0
    assert times["c"] == pytest.approx(EXPENSIVE + size / 1000.0)
    assert times["d"] == pytest.approx(EXPENSIVE + 2 * size / 1000.0)


def test_clusters_are_the_hosts_that_cheap_links_connect() -> None:
    network = square()
    assert network.clusters() == (("a", "b", "s"), ("c",), ("d",))
    network.fail([("one", "two")])
    assert network.clusters() == (("a", "s"), ("b",), ("c",), ("d",))
    network.fail([("a", "one")])
    assert network.clusters() == (("a",), ("b",), ("c",), ("d",), ("s",))
    network.repair([("one", "two"), ("a", "one")])
    assert network.clusters() == (("a", "b", "s"), ("c",), ("d",))


@pytest.mark.parametrize("seed", range(10))
def test_communication_is_transitive_and_the_cost_bit_is_0_within_clusters_only(seed: int) -> None:
    random = Random(seed)
    hosts = tuple(f"h{number:02}" for number in range(random.randint(4, 16)))
    table = random_servers(random, hosts, random.randint(1, 6))
    network = table.make(hosts)
    links = [(first, second) for first, second, _ in (*table.cheap, *table.expensive)]
    network.fail(network.links_of(random.sample(links, len(links) // 2), ()))
    cluster = {host: number for number, members in enumerate(network.clusters()) for host in members}
    for x, y, z in itertools.permutations(hosts[:8], 3):
        if network.route(x, y) and network.route(y, z):
            assert network.route(x, z)
    for x, y in itertools.permutations(hosts, 2):
        route = network.route(x, y)
        if route is not None:
            assert (route.arrival.cost == 0) == (cluster[x] == cluster[y])


def test_a_random_network_has_the_clusters_that_were_asked_for() -> None:
    hosts = tuple(f"h{number:03}" for number in range(60))
    table = random_servers(Random(3), hosts, 12)
    assert len(table.make(hosts).clusters()) == 12
    assert random_servers(Random(3), hosts, 12) == table


WRONG = {
    "no link": ({"cheap": [("one", "three", 1.0)]}, "not connected: no link leads from one to two"),
    "itself": ({"cheap": [("one", "one", 1.0)]}, "to itself"),
    "a host": ({"cheap": [("one", "a", 1.0)]}, "'a' is a host"),
    "two links": ({"cheap": [("one", "two", 1.0)], "expensive": [("two", "one", 1.0)]}, "two links"),
    "negative": ({"cheap": [("one", "two", -1.0)]}, "negative"),
    "bandwidth": ({"cheap": [("one", "two", 1.0)], "bandwidth": 0.0}, "bandwidth"),
    "latency": ({"cheap": [("one", "two", 1.0)], "cheap_latency": -1.0}, "0 or more"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_network_that_makes_no_sense_is_refused(name: str) -> None:
    arguments, complaint = WRONG[name]
    with pytest.raises(UsageError, match=complaint):
        Servers({"a": "one", "b": "two"}, **arguments)  # type: ignore[arg-type]


def test_an_outage_needs_a_network_of_servers_and_links_that_it_has() -> None:
    with pytest.raises(UsageError, match="only a network of kind"):
        Outage(from_=0.0, servers=("one",)).check_network(PointToPoint())
    with pytest.raises(UsageError, match="there is no link between 'one' and 'three'"):
        Outage(from_=0.0, links=(("one", "three"),)).check_network(square())
    with pytest.raises(UsageError, match="there is no server 'five'"):
        Outage(from_=0.0, servers=("five",)).check_network(square())
    with pytest.raises(UsageError, match="name the links or the servers"):
        Outage(from_=0.0).check(frozenset("a"))
