"""SCALATOM: what it promises under faults, and how groups become cells."""

from __future__ import annotations

from typing import Any

import pytest

from ordercast.campaign import run_seed
from ordercast.core import Context, Multicast, UsageError
from ordercast.protocols import find_protocol
from ordercast.protocols.parts.cells import Cells
from ordercast.protocols.scalatom import Scalatom, ScalatomOptions
from ordercast.protocols.scalatom.histories import Histories
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, Cut, Loss
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import broken_claims
from tests.protocols.scalatom_runs import PAIRWISE, THREE, rows_of, simulate

NERVOUS = ScalatomOptions(ping_seconds=0.02, suspicion_seconds=0.02)
"""Suspects everyone at first, on a network with a round trip of 60 ms."""


def test_it_is_found_by_its_name() -> None:
    assert find_protocol("scalatom") is Scalatom


# ---------------------------------------------------------------------- cells
def test_overlapping_groups_are_cut_into_cells() -> None:
    cells = Cells(PAIRWISE)
    assert cells.cells == (("a",), ("b",), ("c",), ("d",), ("e",), ("f",))
    assert cells.of_groups(("g",)) == (0, 1, 2)
    assert cells.of_groups(("g", "h")) == (0, 1, 2, 3, 4)
    assert cells.of_site("x") is None
    assert Cells({"g": ("a", "b", "c", "d"), "h": ("c", "d")}).cells == (("a", "b"), ("c", "d"))


def test_cells_that_tolerate_no_failure_are_named_before_the_start() -> None:
    assert Cells(THREE).warnings() == ()
    warnings = Cells({"g": ("a", "b", "c", "d"), "h": ("d",)}).warnings()
    assert len(warnings) == 1
    assert warnings[0].startswith("the process d is a cell of its own")
    assert "g, h" in warnings[0]
    assert len(tuple(Scalatom.arrangement.warnings(PAIRWISE, {}))) == 6
    assert tuple(Scalatom.arrangement.warnings(THREE, {})) == ()


@pytest.mark.parametrize(
    "options",
    [
        {"window_messages": 0},
        {"window_messages": 10, "kept_messages_max": 9},
        {"history_seconds": -1.0},
        {"ping_seconds": 0.0},
        {"suspicion_seconds": 20.0},
        {"retransmit_seconds": 2.0},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ScalatomOptions(**options)


# ---------------------------------------------------------------------- under faults
@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(40))
def test_all_claims_hold_under_any_mixture_of_faults(seed: int) -> None:
    outcome = run_seed(Scalatom, seed).outcome
    assert outcome.violations == ()
    assert not outcome.vacuous
    assert not outcome.not_judged


@pytest.mark.parametrize(
    "seed",
    [
        100692,  # a late receipt confirmed a question that its receiver had forgotten in a crash
        100619,  # pings for a decision about messages that were over
        900000,  # entries of histories that no promise ever covered
        100572,  # six cells, each with a place in the order that is named after another message
    ],
)
def test_runs_that_were_once_violated_hold_what_is_claimed(seed: int) -> None:
    assert run_seed(Scalatom, seed).outcome.violations == ()


class Forgetful(Scalatom):
    """Takes a checkpoint every few records, which a short run would never reach."""

    checkpoint_records = 8


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(1000, 1015))
def test_all_claims_hold_with_a_checkpoint_every_few_records(seed: int) -> None:
    assert run_seed(Forgetful, seed).outcome.violations == ()


def test_three_groups_that_overlap_pairwise_are_ordered_without_cycles() -> None:
    """g, h and k share one site each: pairwise agreement alone would allow a cycle through all three."""
    simulation = simulate(
        PAIRWISE, [Crash(from_=1.0, to=2.0, sites=("c",)), Loss(from_=0.0, rate=0.1)], choose=1, sources=tuple("abcdef")
    )
    assert broken_claims(simulation) == {}
    assert len(rows_of(simulation, "deliver")) == 3 * len(rows_of(simulation, "multicast"))


def test_a_minority_of_each_group_may_die() -> None:
    dead = [Crash(from_=1.0 + place, sites=(site,), forever=True) for place, site in enumerate(("a", "d", "p"))]
    simulation = simulate(THREE, [*dead], sources=("x", "y"))
    assert broken_claims(simulation) == {}
    late = {row["site"] for row in rows_of(simulation, "deliver") if row["time"] > 4.0}
    assert late == {"b", "c", "e", "f", "q", "r"}


def test_wrong_suspicions_all_the_time_cost_time_and_nothing_else() -> None:
    simulation = simulate(THREE, [], NERVOUS, latency=0.03)
    assert broken_claims(simulation) == {}
    assert simulation.branches["wrongly-suspected"] > 20
    assert simulation.branches["round-changed"] > 20


def test_wrong_suspicions_while_a_minority_of_each_group_dies_cost_no_more() -> None:
    dead = [Crash(from_=1.0 + place, sites=(site,), forever=True) for place, site in enumerate(("a", "d", "p"))]
    simulation = simulate(THREE, [*dead, Loss(from_=0.0, rate=0.1)], NERVOUS, latency=0.03, sources=("x", "y"))
    assert broken_claims(simulation) == {}
    assert simulation.branches["wrongly-suspected"] > 20


def test_a_group_that_loses_its_majority_blocks_what_is_addressed_to_it_and_goes_on_when_it_has_it_back() -> None:
    groups = {"g": THREE["g"], "h": THREE["h"]}
    simulation = Simulation(
        Scalatom,
        groups,
        PointToPoint(),
        faults=[Crash(from_=2.0, to=6.0, sites=("d", "e"))],
        workloads=[
            Workload(sources=("x",), groups=("g",), rate=10.0, count=80),
            Workload(sources=("y",), groups=("h",), rate=10.0, count=80),
        ],
        duration=8.0,
        settle=20.0,
    )
    assert broken_claims(simulation) == {}
    times = {site: [row["time"] for row in rows_of(simulation, "deliver") if row["site"] == site] for site in "abcf"}
    assert not [time for time in times["f"] if 2.2 < time < 6.0]
    for site in "abc":
        assert len([time for time in times[site] if 2.2 < time < 6.0]) > 20
    assert any("has no timestamp from d, e" in reason for reason in simulation.sites["f"].blocked_reasons)
    assert simulation.branches["unblocked"]


def test_what_is_ordered_behind_a_blocked_message_waits_and_nothing_is_misordered() -> None:
    groups = {"g": THREE["g"], "h": THREE["h"]}
    simulation = simulate(groups, [Crash(from_=2.0, to=5.0, sites=("d", "e", "f"))], choose=1)
    both = Workload(sources=("x",), groups=("g", "h"), rate=2.0, count=10)
    simulation.workloads = (*simulation.workloads, both)
    assert broken_claims(simulation) == {}


def test_a_site_that_was_away_for_long_is_told_to_catch_up() -> None:
    options = ScalatomOptions(letters_max=16)
    simulation = simulate({"g": ("a", "b", "c")}, [Crash(from_=1.0, to=5.0, sites=("c",))], options, choose=1)
    assert broken_claims(simulation) == {}
    assert simulation.branches["estranged"]
    assert simulation.branches["restored"]


def test_catching_up_goes_on_in_pieces() -> None:
    simulation = Simulation(
        Scalatom,
        {"g": ("a", "b", "c")},
        PointToPoint(),
        faults=[Crash(from_=1.0, to=4.0, sites=("c",))],
        workloads=[Workload(sources=("x",), groups=("g",), rate=100.0, count=300)],
        duration=5.0,
        settle=10.0,
    )
    assert broken_claims(simulation) == {}
    assert simulation.branches["catching-up-further"]


class WithoutBodies(Histories):
    """As printed: a history names messages that perhaps nobody else has."""

    def bodies_between(self, low: int, high: int) -> tuple[int, tuple[Multicast, ...]]:
        return high, ()


class Printed(Scalatom):
    """With such histories."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.histories.__class__ = WithoutBodies


def test_a_history_whose_sender_and_source_are_gone_blocks_nobody_because_it_brought_the_bodies() -> None:
    """x reaches only a with its message, a puts it into its history, and both are gone before anybody else can ask for
    it. Lemma 3 of the paper, which says that this cannot be, takes a union for an intersection."""

    def run(protocol: type[Scalatom]) -> dict[str, str]:
        return broken_claims(
            Simulation(
                protocol,
                {"g": ("a", "b", "c")},
                PointToPoint(processing=0.0, latency=0.001),
                faults=[
                    Cut(from_=0.0, sites=("x",), peers=("b", "c")),
                    Crash(from_=0.115, sites=("a", "x"), forever=True),
                ],
                workloads=[
                    Workload(sources=("x",), groups=("g",), rate=10.0, count=1, arrivals="regular"),
                    Workload(sources=("y",), groups=("g",), rate=10.0, count=5, start=0.001, arrivals="regular"),
                ],
                duration=1.0,
                settle=10.0,
            )
        )

    assert run(Scalatom) == {}
    assert set(run(Printed)) == {"termination"}
