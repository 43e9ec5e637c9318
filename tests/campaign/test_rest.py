"""What sites keep at the end of a run is counted from outside, and held against what the contract says."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from ordercast.campaign import run_seed
from ordercast.campaign.rest import PROPERTIES, SECONDS, count_kept, with_rest
from ordercast.core import Context, MessageId, Protocol
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.protocols.classic.sequencer import Sequencer


class Leaky:
    """Somewhere deep in a core."""

    __slots__ = ("remembered",)

    def __init__(self) -> None:
        self.remembered: list[tuple[str, MessageId]] = []


def core() -> Any:
    sites = ("a", "b", "c")
    return Sequencer(Context("a", {"g": sites}, sites, Sequencer.contract.options(), Random(0)))


def test_a_new_core_keeps_no_message() -> None:
    messages, entries = count_kept(core())
    assert messages == 0
    assert 0 < entries < 60


def test_what_lies_in_slots_of_objects_in_tables_of_a_part_is_found_once_for_each_message() -> None:
    leaky = Leaky()
    leaky.remembered += [("why", MessageId("a", 0, 1)), ("again", MessageId("a", 0, 1)), ("b", MessageId("b", 0, 1))]
    Leaky.__module__ = "ordercast.somewhere"
    host = core()
    before = count_kept(host)
    host.center.__dict__["forgotten"] = {"deep": leaky}
    assert count_kept(host) == (before[0] + 2, before[1] + 4)


def test_a_core_of_a_class_that_was_made_under_way_is_looked_at_like_any_other() -> None:
    host = core()
    host.__class__ = type("Broken", (Sequencer,), {"__slots__": ()})
    assert count_kept(host) == count_kept(core())


def test_a_run_claims_to_rest_where_the_contract_says_how() -> None:
    run = run_seed(Sequencer, 0).run
    assert set(PROPERTIES) <= set(run.guarantees)
    assert run.bounds["rest"]["seconds"] == SECONDS
    assert all({"messages", "entries", "waiting", "credit"} == set(kept) for kept in run.rest.values())


def test_a_run_claims_nothing_about_rest_where_the_contract_says_nothing() -> None:
    silent = type("Silent", (Sequencer,), {"contract": msgspec.structs.replace(Sequencer.contract, at_rest=None)})
    trial = run_seed(silent, 0)
    assert not set(PROPERTIES) & set(trial.run.guarantees)
    assert with_rest(trial.run, trial.scenario.simulation()) == trial.run


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_every_protocol_comes_to_rest_within_what_it_declares(name: str) -> None:
    protocol: type[Protocol] = find_protocol(name)
    assert protocol.contract.at_rest is not None
    for seed in range(3):
        assert run_seed(protocol, seed).outcome.violations == ()


def test_a_run_that_ends_as_soon_as_nothing_is_delivered_is_looked_at_for_so_long_and_one_of_eight_goes_on() -> None:
    protocol = find_protocol("intergroup")
    quiet = protocol.arrangement.campaign.quiet
    assert quiet is not None
    assert quiet < SECONDS
    ended = run_seed(protocol, 1).run
    assert ended.bounds["rest"]["seconds"] == quiet
    # What everyone has is forgotten a few control messages later.
    assert "no-leak" not in ended.guarantees
    assert {"quiescence", "credit-returned"} <= set(ended.guarantees)
    went_on = run_seed(protocol, 8).run
    assert went_on.bounds["rest"]["seconds"] == SECONDS
    assert set(PROPERTIES) <= set(went_on.guarantees)
    assert went_on.ended_at > ended.ended_at + 10.0
