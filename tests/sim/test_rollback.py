"""Deliveries that a protocol takes back, in a simulation."""

from __future__ import annotations

from typing import Any

from ordercast.check import judge
from ordercast.core import Multicast
from ordercast.core.effects import Rollback
from ordercast.sim import Simulation, Workload
from ordercast.sim.networks import PointToPoint
from tests.sim.desk import Repenting

WORKLOAD = Workload(sources=("a",), groups=("g",), rate=10.0, arrivals="regular", count=3)


def simulate(protocol: type[Repenting] = Repenting) -> Simulation:
    return Simulation(
        protocol, {"g": ["a", "b"]}, PointToPoint(0.0, 0.01), workloads=[WORKLOAD], duration=2.0
    ).execute()


def test_a_delivery_that_is_taken_back_has_its_row_in_the_order_of_the_effects() -> None:
    run = simulate()
    rows = [row for row in run.table().to_pylist() if row["site"] == "b" and row["kind"] in ("deliver", "rollback")]
    assert [(row["kind"], row["message"], row["groups"]) for row in rows] == [
        ("deliver", "a:0:1", ["g"]),
        ("deliver", "a:0:2", ["g"]),
        ("rollback", "a:0:2", ["g"]),
        ("rollback", "a:0:1", ["g"]),
        ("deliver", "a:0:3", ["g"]),
        ("deliver", "a:0:2", ["g"]),
        ("deliver", "a:0:1", ["g"]),
    ]


def test_the_judges_take_it_for_a_redelivery_where_the_contract_says_so() -> None:
    run = simulate()
    verdicts = judge(run.header(), run.table())
    kept = [name for name in Repenting.contract.guarantees if name != "R3"]
    assert {name: verdicts[name].verdict for name in kept} == dict.fromkeys(kept, "holds")
    # For a moment a has taken back what stands at b.
    assert verdicts["R3"].verdict == "violated"


class Forgetful(Repenting):
    """Delivers again what it has not taken back."""

    def deliver(self, multicast: Multicast, **details: Any) -> None:
        super().deliver(multicast)
        self.outbox = [effect for effect in self.outbox if not isinstance(effect, Rollback)]


def test_a_second_delivery_without_a_rollback_is_a_duplicate() -> None:
    run = simulate(Forgetful)
    assert judge(run.header(), run.table())["no-duplication"].verdict == "violated"
