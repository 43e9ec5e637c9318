"""Roles (Berket 2000, 1.2 and chapter 8): senders as needed, and receivers that multicast through a proxy."""

from __future__ import annotations

from typing import Any

import pytest

from ordercast.protocols.intergroup.dynamic import DynamicInterGroup
from ordercast.protocols.intergroup.membership.options import MembershipOptions
from ordercast.protocols.intergroup.membership.proxying import WINDOW
from ordercast.sim import Simulation
from ordercast.sim.change import Change
from ordercast.sim.fault import Fault
from ordercast.sim.faults import Crash, Duplication, Loss, Partition
from ordercast.sim.workload import Workload
from tests.protocols.intergroup.test_membership import NETWORK, SITES, views, violated

RECEIVER = Change(kind="role", at=1.0, sites=("b",), group="g", role="receiver")


def run(
    *faults: Fault, changes: tuple[Change, ...] = (), rate: float = 20.0, seed: int = 0, **options: Any
) -> Simulation:
    """Four processes, of which b multicasts most."""
    return Simulation(
        DynamicInterGroup,
        {"g": SITES},
        NETWORK.make(SITES),
        seed=seed,
        # A hierarchy that knows of all receivers after a second: else one of them is ahead of a cut, and begins anew.
        options=MembershipOptions(
            views="change", control_seconds_min=0.1, start_seconds=0.3, check_seconds=0.2, **options
        ),
        faults=faults,
        changes=changes,
        workloads=[
            Workload(sources=("b",), groups=("g",), rate=rate, count=int(8 * rate)),
            Workload(sources=("a",), groups=("g",), rate=1.0),
        ],
        duration=10.0,
        settle=10.0,
    ).execute()


def rows(simulation: Simulation, kind: str, site: str, source: str = "b") -> list[dict[str, Any]]:
    """Those of one kind at one site about the messages of one source."""
    table = simulation.table().to_pylist()
    return [row for row in table if row["kind"] == kind and row["site"] == site and row["source"] == source]


def numbers(simulation: Simulation, site: str) -> list[int]:
    """The messages of b that a site has delivered, in its order."""
    return [row["source_seq"] for row in rows(simulation, "deliver", site)]


def test_a_receiver_multicasts_through_a_proxy_and_is_in_no_view() -> None:
    simulation = run(changes=(RECEIVER,))
    services = [row["service"] for row in rows(simulation, "multicast", "b")]
    assert services.count("proxy") > 100
    assert views(simulation)["a"] == [SITES, ("a", "c", "d")]
    assert all(numbers(simulation, site) == list(range(1, len(services) + 1)) for site in SITES)
    assert {row["parent"] for row in rows(simulation, "deliver", "a") if row["source_seq"] > 40} < {"a", "c", "d"}
    assert violated(simulation) == []


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_doubled_or_overtaken_through_failures_of_proxies(seed: int) -> None:
    simulation = run(
        Crash(from_=3.0, sites=("c",), to=7.0),
        Crash(from_=5.0, sites=("d",), forever=True),
        Loss(rate=0.1, from_=0.0, to=9.0),
        Duplication(rate=0.3, seconds=0.3, from_=0.0, to=9.0),
        changes=(RECEIVER,),
        seed=seed,
    )
    got = numbers(simulation, "a")
    assert got == sorted(set(got)) == numbers(simulation, "b")
    # With each of two proxies, at the most what was under way through it is gone.
    assert len(got) >= len(rows(simulation, "multicast", "b")) - 2 * WINDOW
    assert violated(simulation) == []


def test_a_source_that_is_cut_off_from_its_proxy_loses_at_the_most_what_was_under_way() -> None:
    simulation = run(Partition(from_=3.0, to=6.0, parts=(("b",),)), changes=(RECEIVER,))
    got = numbers(simulation, "a")
    assert got == sorted(set(got))
    assert violated(simulation) == []


def test_whoever_becomes_a_sender_again_waits_for_what_is_under_way() -> None:
    again = Change(kind="role", at=4.0, sites=("b",), group="g", role="sender")
    simulation = run(Loss(rate=0.2, from_=3.5, to=5.0), changes=(RECEIVER, again))
    assert numbers(simulation, "d") == list(range(1, len(rows(simulation, "multicast", "b")) + 1))
    assert {row["service"] for row in rows(simulation, "multicast", "b")} == {None, "proxy"}
    assert violated(simulation) == []


def test_a_group_without_senders_has_no_proxies() -> None:
    everyone = Change(kind="role", at=1.0, sites=SITES, group="g", role="receiver")
    simulation = run(changes=(everyone,))
    assert simulation.refused_messages > 100
    assert violated(simulation) == []


def test_a_process_that_multicasts_becomes_a_sender_and_ceases_when_it_is_idle() -> None:
    simulation = run(rate=0.5, sender_idle_seconds=1.0)
    found = views(simulation)["d"]
    assert ("a",) in found
    assert ("a", "b") in found
    assert simulation.branches["sender>mra"] == 0
    assert simulation.branches["idle"] >= 3
    assert numbers(simulation, "d") == list(range(1, len(rows(simulation, "multicast", "b")) + 1))
    assert violated(simulation) == []


def test_a_configured_receiver_becomes_a_sender_when_it_multicasts() -> None:
    simulation = run(senders=("a", "c"))
    assert views(simulation)["d"] == [("a", "c"), ("a", "b", "c")]
    assert numbers(simulation, "d") == list(range(1, len(rows(simulation, "multicast", "b")) + 1))
    assert violated(simulation) == []


def test_a_role_that_was_chosen_is_kept() -> None:
    fixed = Change(kind="role", at=0.1, sites=("c",), group="g", role="sender")
    simulation = run(rate=0.5, changes=(fixed,), sender_idle_seconds=1.0)
    assert all("c" in members for members in views(simulation)["a"])
    assert violated(simulation) == []
