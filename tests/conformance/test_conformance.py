"""Every protocol keeps its promises in the simulator and on sockets, by the same script and the same judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from ordercast.check import judge
from ordercast.net.transport import Transport
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.trace.schema import Run
from tests.conformance.worlds import Choice, NothingHappened, Script, play_in_simulator, play_on_sockets


def claims_of(protocol: str) -> set[str]:
    """What the protocol guarantees with its default options."""
    contract = find_protocol(protocol).contract
    return set(contract.with_options(contract.options()).guarantees)


ACROSS_GROUPS = [
    name
    for name in PROTOCOL_NAMES
    if "multiple-group-order" in claims_of(name) and find_protocol(name).contract.several_groups
]
COMES_BACK = [name for name in PROTOCOL_NAMES if find_protocol(name).records and "acyclic-order" in claims_of(name)]

TAKES_LOSS_FOR_DEATH = {name for name in PROTOCOL_NAMES if find_protocol(name).contract.successive_deaths}
"""What loses a few packets in a row is dead to them: they stop."""

World = Callable[[str, Script, Path], tuple[Run, pa.Table]]

worlds = pytest.mark.parametrize(
    "play", [pytest.param(play_in_simulator, id="simulator"), pytest.param(play_on_sockets, id="sockets")]
)


def everyone_to(
    groups: Mapping[str, tuple[str, ...]], sources: str, each: int
) -> list[tuple[str, tuple[str, ...], bytes]]:
    """Each source multicasts so many messages, to the groups in turn."""
    names = list(groups)
    return [
        (source, (names[(index + place) % len(names)],), f"{source}{index}".encode())
        for index in range(each)
        for place, source in enumerate(sources)
    ]


def assert_claims_hold(run: Run, events: pa.Table, *must_hold: str) -> None:
    """No claim is violated; those named were really put to the test."""
    verdicts = judge(run, events)
    violated = {name: verdict.first for name, verdict in verdicts.items() if verdict.verdict == "violated"}
    assert not violated
    assert {name: verdicts[name].verdict for name in must_hold} == dict.fromkeys(must_hold, "holds")


@worlds
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_what_everyone_sends_to_one_group_is_delivered_as_promised(protocol: str, play: World, tmp_path: Path) -> None:
    groups = {"g": ("a", "b", "c")}
    script = Script(groups, everyone_to(groups, "abc", 20))
    run, events = play(protocol, script, tmp_path)
    tried = claims_of(protocol) & {"acyclic-order", "termination", "single-source-order"}
    assert_claims_hold(run, events, "integrity", *sorted(tried))


@worlds
@pytest.mark.parametrize("protocol", ACROSS_GROUPS)
def test_overlapping_groups_and_a_source_outside_are_ordered_as_promised(
    protocol: str, play: World, tmp_path: Path
) -> None:
    groups = {"g": ("a", "b", "c"), "h": ("b", "c", "d")}
    sends = everyone_to(groups, "ade", 15)
    sends += [("a", ("g", "h"), b"both%d" % index) for index in range(10)]
    run, events = play(protocol, Script(groups, sends), tmp_path)
    assert_claims_hold(run, events, "integrity", "multiple-group-order", "acyclic-order", "termination")


def lossy_script(protocol: str) -> Script:
    groups = {"g": ("a", "b", "c")}
    complete = "termination" in claims_of(protocol) and "loss" in find_protocol(protocol).contract.faults
    return Script(groups, everyone_to(groups, "abc", 30), loss=0.25, duplication=0.25, complete=complete)


@worlds
@pytest.mark.parametrize("protocol", [name for name in PROTOCOL_NAMES if name not in TAKES_LOSS_FOR_DEATH])
def test_loss_and_duplication_break_no_promise(protocol: str, play: World, tmp_path: Path) -> None:
    contract = find_protocol(protocol).contract
    run, events = play(protocol, lossy_script(protocol), tmp_path)
    # A protocol that stands no loss promises what it delivers, and nothing about what it does not.
    stands = "loss" in contract.faults
    if not stands:
        run = msgspec.structs.replace(run, guarantees=["integrity"])
    tried = claims_of(protocol) & {"no-duplication", "uniform-agreement", "termination"} if stands else set()
    assert_claims_hold(run, events, "integrity", *sorted(tried))
    if play is play_in_simulator:
        assert "loss" in set(events.column("reason").to_pylist())


def test_a_world_in_which_nothing_is_lost_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Transport, "disturb", lambda self, disturbance: None)
    with pytest.raises(NothingHappened, match="no datagram was lost"):
        play_on_sockets("sequencer", lossy_script("sequencer"), tmp_path)


@worlds
@pytest.mark.parametrize("protocol", COMES_BACK)
def test_a_site_that_crashes_comes_back_with_its_history(protocol: str, play: World, tmp_path: Path) -> None:
    groups = {"g": ("a", "b", "c")}
    script = Script(groups, everyone_to(groups, "abc", 15), crash="b")
    run, events = play(protocol, script, tmp_path)
    assert_claims_hold(run, events, "integrity", "no-duplication", "acyclic-order", "uniform-agreement", "termination")
    assert "recover" in set(events.column("kind").to_pylist())


@worlds
def test_each_receiver_of_a_group_gets_what_its_service_promises_also_when_it_chooses_again(
    play: World, tmp_path: Path
) -> None:
    """Berket 2000, chapter 4: one group, all six services, loss and duplication. What was promised before
    the second choice comes after it all the same where both services are reliable."""
    groups = {"g": ("a", "b", "c", "d", "e")}
    choices = {
        0: (
            Choice("b", "g", "reliable-source", ("a",)),
            Choice("c", "g", "unreliable"),
            Choice("d", "g", "unreliable-source"),
            Choice("e", "g", "on-request"),
        ),
        40: (
            Choice("b", "g", "group-timestamp"),
            Choice("c", "g", "reliable-source"),
            Choice("d", "g", "unreliable-timestamp"),
            Choice("e", "g", "on-request", ("a", "c")),
        ),
    }
    script = Script(groups, everyone_to(groups, "abc", 30), loss=0.2, duplication=0.2, choices=choices)
    run, events = play("intergroup", script, tmp_path)
    contract = find_protocol("intergroup").contract
    # Of processes that a file lists; what views promise besides cannot be broken where nobody comes or goes.
    services = contract.with_options(contract.options(views="fixed")).services
    assert {name: tuple(promises) for name, promises in run.services.items()} in (services, contract.services)
    used = {
        (row["site"], row["service"])
        for row in events.select(["kind", "site", "service"]).to_pylist()
        if row["kind"] == "deliver"
    }
    for choice in (*choices[0], *choices[40]):
        assert (choice.site, choice.service) in used
    promises = {promise for promises in services.values() for promise in promises}
    assert_claims_hold(run, events, "integrity", *sorted(promises))
