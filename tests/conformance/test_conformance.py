"""Every protocol keeps its promises in the simulator and on sockets, by the same script and the same judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from ordercast.check import judge
from ordercast.protocols import find_protocol
from ordercast.trace.schema import Run
from tests.conformance.worlds import Script, play_in_simulator, play_on_sockets

PROTOCOLS = ("fan-0", "fan-1", "fan-2", "fan-3", "sequencer", "token", "two-phase", "lamport")
TOTAL_ORDER = ("sequencer", "token", "two-phase", "lamport")

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
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_everyone_sends_to_one_group_is_delivered_as_promised(protocol: str, play: World, tmp_path: Path) -> None:
    groups = {"g": ("a", "b", "c")}
    script = Script(groups, everyone_to(groups, "abc", 20))
    contract = find_protocol(protocol).contract
    claims = set(contract.guaranteed(contract.options()))
    run, events = play(protocol, script, tmp_path)
    assert_claims_hold(
        run, events, "integrity", *sorted(claims & {"acyclic-order", "termination", "single-source-order"})
    )


@worlds
@pytest.mark.parametrize("protocol", TOTAL_ORDER)
def test_overlapping_groups_and_a_source_outside_are_ordered_as_promised(
    protocol: str, play: World, tmp_path: Path
) -> None:
    groups = {"g": ("a", "b", "c"), "h": ("b", "c", "d")}
    sends = everyone_to(groups, "ade", 15)
    sends += [("a", ("g", "h"), b"both%d" % index) for index in range(10)]
    run, events = play(protocol, Script(groups, sends), tmp_path)
    assert_claims_hold(run, events, "integrity", "multiple-group-order", "acyclic-order", "termination")


@worlds
@pytest.mark.parametrize("protocol", [*TOTAL_ORDER, "fan-3"])
def test_loss_and_duplication_break_no_promise(protocol: str, play: World, tmp_path: Path) -> None:
    groups = {"g": ("a", "b", "c")}
    script = Script(groups, everyone_to(groups, "abc", 15), loss=0.1, duplication=0.1)
    run, events = play(protocol, script, tmp_path)
    assert_claims_hold(run, events, "integrity", "no-duplication", "uniform-agreement", "termination")


@worlds
@pytest.mark.parametrize("protocol", TOTAL_ORDER)
def test_a_site_that_crashes_comes_back_with_its_history(protocol: str, play: World, tmp_path: Path) -> None:
    groups = {"g": ("a", "b", "c")}
    script = Script(groups, everyone_to(groups, "abc", 15), crash="b")
    run, events = play(protocol, script, tmp_path)
    assert_claims_hold(run, events, "integrity", "no-duplication", "acyclic-order", "uniform-agreement", "termination")
    assert "recover" in set(events.column("kind").to_pylist())
