"""Leases alone: never two holders, and always one again."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from ordercast.campaign.rare import RARE_KINDS
from ordercast.campaign.swarm import Arena, draw_faults, draw_kinds
from ordercast.core import Context, SiteId, UsageError, random_stream
from ordercast.core.events import Arrival, Received, Recovered, Started, TimerFired
from ordercast.protocols.parts.lease import Lease, LeaseGrant, LeaseRelease, LeaseRequest
from ordercast.protocols.parts.quorum import Quorum
from ordercast.sim import Simulation
from ordercast.sim.faults import Skew
from ordercast.sim.networks import PointToPoint
from tests.mutants.registry import break_part
from tests.protocols.classic_runs import sent
from tests.protocols.parts.hosts import HostOptions
from tests.protocols.parts.quiet_hosts import LeaseHost

SITES = ("a", "b", "c", "d", "e")
DURATION, SETTLE = 12.0, 10.0
SEEDS = range(15)


def complaints(seed: int, broken: dict[str, Callable[..., Any]] | None = None) -> list[str]:
    """Moments at which two sites could act, and whether anybody could in the end."""
    random = random_stream(seed, "lease")
    sites = SITES[: random.randint(3, 5)]
    arena = Arena(random, sites, sites, DURATION)
    kinds = draw_kinds(random, (kind for kind in LeaseHost.contract.faults if kind not in RARE_KINDS))
    # Clocks drift, and do not jump: that is what leases rest on.
    faults = [
        msgspec.structs.replace(fault, jump=0.0) if isinstance(fault, Skew) else fault
        for fault in draw_faults(arena, kinds)
    ]
    found: list[str] = []
    acquired_late: list[SiteId] = []

    class Observed(LeaseHost):
        def __init__(self, context: Context) -> None:
            super().__init__(context)
            for method, function in (broken or {}).items():
                break_part(self, self.lease, method, function)

        def on_acquired(self) -> None:
            super().on_acquired()
            if simulation.queue.now > DURATION + SETTLE / 2:
                acquired_late.append(self.site)

        def check_invariants(self) -> None:
            now = simulation.queue.now
            holders = [
                name
                for name, site in simulation.sites.items()
                if "main" in site.instances
                and isinstance(core := site.instances["main"].core, LeaseHost)
                and core.lease.is_held(site.clock.read(now))
            ]
            if len(holders) > 1:
                found.append(f"{now:.3f}: {holders}")

    simulation = Simulation(
        Observed,
        {"g": sites},
        PointToPoint(latency=0.01),
        seed=seed,
        options=HostOptions(drift_max=0.3 if "skew" in kinds else 0.0),
        faults=faults,
        duration=DURATION,
        settle=SETTLE,
        tracing=False,
    )
    simulation.execute()
    if not acquired_late:
        found.append("nobody gets it any more")
    return found


@pytest.mark.campaign
@pytest.mark.parametrize("seed", SEEDS)
def test_there_are_never_two_holders_and_in_the_end_there_is_one(seed: int) -> None:
    assert complaints(seed) == []


# ---------------------------------------------------------------------- mutants
# Those of the times (counted from the last grant, without regard to drift, granted again after a crash) need a holder
# that is cut off at the right moment; the steps below are such schedules.
def is_content_with_one(self: Lease, grants: set[SiteId]) -> bool:
    """One grant is enough."""
    return bool(grants)


def grants_to_anyone(self: Lease, site: SiteId) -> bool:
    """A grant does not exclude another."""
    return not self._silent


def takes_any_grant(self: Lease, sender: SiteId, packet: LeaseGrant, arrival: Arrival) -> None:
    """A grant of an earlier attempt, which was given back, counts."""
    if self._wanted:
        self._add_grant(sender)


def keeps_what_it_has(self: Lease) -> None:
    """Whoever has no quorum does not give back what it has been granted."""
    if self._wanted:
        self.ask()


MUTANTS: list[tuple[str, Callable[..., Any]]] = [
    ("on_lease_ask_timeout", keeps_what_it_has),
    ("is_enough", is_content_with_one),
    ("_may_grant", grants_to_anyone),
    ("on_lease_grant", takes_any_grant),
]


@pytest.mark.parametrize(("method", "function"), MUTANTS, ids=[function.__name__ for _, function in MUTANTS])
def test_a_broken_lease_is_caught(method: str, function: Callable[..., Any]) -> None:
    assert any(complaints(seed, {method: function}) for seed in range(60))


# ---------------------------------------------------------------------- the steps
def host(incarnation: int = 0) -> LeaseHost:
    made = LeaseHost(
        Context("a", {"g": SITES[:3]}, SITES[:3], HostOptions(drift_max=0.2), Random(0), incarnation=incarnation)
    )
    made.step(0.0, Recovered() if incarnation else Started())
    return made


def test_the_holder_counts_from_before_it_asked_and_for_less_than_was_granted() -> None:
    a = host()
    a.step(10.0, TimerFired("acquire"))
    assert not a.lease.is_held(10.0)
    # The grant took a while; with 0.2 of drift on either side 0.8/1.2 of the second are left, from the question on.
    a.step(10.5, Received("b", LeaseGrant(1)))
    assert a.lease.is_held(10.66)
    assert not a.lease.is_held(10.67)


def test_a_grant_that_comes_too_late_is_none() -> None:
    a = host()
    a.step(10.0, TimerFired("acquire"))
    a.step(10.7, Received("b", LeaseGrant(1)))
    assert not a.lease.is_held(10.7)


def test_after_a_crash_nothing_is_granted_until_everything_has_run_out() -> None:
    a = host(incarnation=1)
    a.outbox.clear()
    a.step(0.1, Received("b", LeaseRequest(1)))
    assert sent(a.outbox) == []
    a.step(1.1, TimerFired("lease-grant"))
    a.step(1.2, Received("b", LeaseRequest(2)))
    assert sent(a.outbox) == [(("b",), LeaseGrant(2))]


def test_what_was_given_back_can_be_granted_again_but_not_by_an_old_release() -> None:
    a = host()
    a.step(0.1, Received("b", LeaseRequest(2)))
    a.step(0.2, Received("b", LeaseRelease(1)))
    assert a.lease.granted_to == "b"
    a.step(0.3, Received("b", LeaseRelease(2)))
    assert a.lease.granted_to is None


def test_a_drift_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError):
        Lease(None, Quorum([("a",)]), lease_seconds=1.0, drift_max=1.0)  # type: ignore[arg-type]
