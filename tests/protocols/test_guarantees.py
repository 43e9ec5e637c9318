"""What each protocol must promise at least, compared with what it declares."""

from __future__ import annotations

import math

import pytest

from ordercast.check import PROPERTIES
from ordercast.core import Bounds
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.protocols.fan import FanOptions
from ordercast.sim.faults import FAULT_KINDS

TOTAL = {"integrity", "no-duplication", "multiple-group-order", "acyclic-order", "no-silent-divergence"}
MINIMUM: dict[str, set[str]] = {
    "fan-0": {"integrity", "P1", "P2"},
    "fan-1": {"R1-single-source", "P2"},
    "fan-2": {"R1-single-source", "P2"},
    "fan-3": {"R1-single-source", "P2", "Q2"},
    "tree-5": {"R2-multiple-source", "agreement", "P2", "P4", "Q1"},
    "sequencer": TOTAL,
    "token": TOTAL | {"uniform-agreement"},
    "two-phase": TOTAL | {"uniform-agreement"},
    "lamport": TOTAL,
    "broadcast-tree": {"integrity", "no-duplication", "uniform-agreement", "termination"},
    "scalatom": TOTAL | {"uniform-agreement", "termination", "genuineness", "message-size"},
    "three-step": TOTAL | {"uniform-agreement", "termination", "genuineness", "message-size"},
    "propagation-graph": TOTAL | {"uniform-agreement", "termination"},
    "intergroup": {
        "integrity",
        "no-duplication",
        "source-order",
        "reliable-source-order",
        "causal-order",
        "timestamp-order",
        "reliable-timestamp-order",
        "view-termination",
        "self-inclusion",
    },
    "selective-total": TOTAL | {"selective-information", "order-equivalence", "source-order", "atomic-receipt"},
}

PHI_P, PHI_N, DELTA = 0.07, 1.1, 0.5
"""Such that no two sums of a few of them are equal."""

PROMISED: dict[str, dict[str, float]] = {
    "fan-0": {"P1": PHI_P, "P2": PHI_N + PHI_P},
    "fan-1": {"P2": PHI_N + PHI_P},
    "fan-2": {"P2": 3 * PHI_P + 3 * PHI_N},
    "fan-3": {"P2": 3 * PHI_P + 3 * PHI_N, "Q2": DELTA + 4 * PHI_P + 3 * PHI_N},
    # Two sites; of its default options δ is 2 s.
    "tree-5": {
        "P2": 2 * 2.0 + 8 * PHI_N + 9 * PHI_P,
        "P4": 4 * PHI_N + 3 * PHI_P,
        "Q1": 2.0 + 3 * PHI_N + 5 * PHI_P,
    },
    # Protocol 4; of its default options δ is two looks at the edges.
    "propagation-graph": dict.fromkeys(("P4", "Q3"), 2 * 0.1 + 4 * PHI_P + 3 * PHI_N),
}


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_the_protocol_declares_what_it_must(name: str) -> None:
    assert name in MINIMUM, "a new protocol needs a line in MINIMUM"
    assert set(find_protocol(name).contract.guarantees) >= MINIMUM[name]


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_the_protocol_promises_the_times_of_the_thesis(name: str) -> None:
    contract = find_protocol(name).contract
    options = FanOptions(delta=DELTA) if contract.options is FanOptions else contract.options()
    promised = contract.promised(Bounds(phi_p=PHI_P, phi_n=PHI_N), options)
    expected = PROMISED.get(name, {})
    assert set(promised) == set(expected)
    assert all(math.isclose(promised[each], expected[each]) for each in expected)


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_the_protocol_declares_only_what_can_be_judged_and_drawn(name: str) -> None:
    contract = find_protocol(name).contract
    assert contract.name == name
    assert set(contract.guarantees) <= set(PROPERTIES)
    assert set(contract.faults) <= set(FAULT_KINDS)
    assert len(set(contract.branches)) == len(contract.branches) > 0
    # What is promised within a time is also claimed, or nobody would judge it.
    assert {guarantee for guarantee in contract.guarantees if guarantee[0] in "PQ"} == set(PROMISED.get(name, {}))
