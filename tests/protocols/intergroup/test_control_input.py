"""What a control process refuses: what cannot be, what is too much, what comes late."""

from __future__ import annotations

import math

import pytest

from ordercast.core import Packet, WireError
from ordercast.core.effects import Send
from ordercast.protocols.intergroup.control import GroupReport
from ordercast.protocols.intergroup.control.packets import (
    COORDINATORS,
    SEARCH,
    CCon,
    CoordinatorLeave,
    GCon,
    LCon,
    RingQuery,
    SearchResponse,
    TimestampPair,
    local_channel,
)
from ordercast.protocols.intergroup.control.report import ControlData
from tests.protocols.intergroup.control_process import ME, Process, ccon, gcon, lcon

MINE = local_channel(ME)


# ---------------------------------------------------------------------- what is refused
MANY = {f"x{number}": TimestampPair(0.0, 0.0) for number in range(20)}


@pytest.mark.parametrize(
    ("sender", "packet", "channel"),
    [
        ("c", ccon(ME), local_channel("a")),
        ("c", CoordinatorLeave(), local_channel("a")),
        ("a", ccon(ME, time=math.nan), local_channel("a")),
        ("x", lcon("a", time=math.inf), local_channel("a")),
        ("x", LCon(1, 0.0, "a", 1, MANY), local_channel("a")),
        ("x", LCon(1, 0.0, "a", -1, {}), local_channel("a")),
        ("a", CCon(1, 0.0, 0.0, 1, 1, {}, {"x": -1.0}, {}), local_channel("a")),
        ("a", CCon(1, 0.0, 0.0, 1, 1, {}, {}, {"b": math.nan}), local_channel("a")),
        ("a", CCon(1, 0.0, 0.0, 1, 1, {}, dict.fromkeys(MANY, 0.1), {}), local_channel("a")),
        ("a", CCon(1, 0.0, math.nan, 1, 1, {}, {}, {}), local_channel("a")),
        ("a", CCon(1, 0.0, 0.0, 1, -1, {}, {}, {}), local_channel("a")),
        ("a", CCon(1, 0.0, 0.0, 1, 1, {}, {}, {}, global_seconds=math.inf), local_channel("a")),
        ("a", ccon(ME, g=GroupReport(1, "a", -1)), local_channel("a")),
        ("b", SearchResponse(1, -1, 2), None),
        ("b", SearchResponse(1, 1, 1 << 40), None),
    ],
)
def test_a_child_refuses_what_cannot_be_and_remembers_nothing_of_it(
    sender: str, packet: Packet, channel: str | None
) -> None:
    process = Process(processes_max=10).become_child()
    with pytest.raises(WireError):
        process.hear(sender, packet, channel)
    hierarchy = process.control.hierarchy
    assert sum(len(group.locals) for group in hierarchy.local_groups()) + len(hierarchy.coords) <= 10
    assert process.control.coordinator == "a"


@pytest.mark.parametrize(
    ("packet", "channel"),
    [
        (gcon(time=math.nan), COORDINATORS),
        (GCon(0.0, 1, 1, MANY), COORDINATORS),
        (GCon(0.0, 1, 1 << 40, {}), COORDINATORS),
        (GCon(0.0, 1, 1, {}, ControlData(dict.fromkeys(map(str, range(20)), GroupReport(1, "b", 1)))), COORDINATORS),
        (lcon(g=GroupReport(1 << 62, "b", 1)), MINE),
    ],
)
def test_a_coordinator_refuses_what_cannot_be(packet: Packet, channel: str) -> None:
    process = Process(processes_max=10, groups_max=10).become_coordinator()
    with pytest.raises(WireError):
        process.hear("b", packet, channel)
    process.fire("control-local")
    process.fire("control-global")


def test_more_processes_than_there_may_be_find_no_place() -> None:
    process = Process(processes_max=3).become_coordinator()
    for number in range(3):
        process.hear_lcon(f"x{number}")
        process.hear_gcon(f"b{number}")
    with pytest.raises(WireError):
        process.hear_lcon("x3")
    with pytest.raises(WireError):
        process.hear_gcon("b3")


def test_what_comes_late_from_a_local_group_that_was_left_is_nothing() -> None:
    process = Process().become_child()
    process.hear("x", lcon("b"), local_channel("b"))
    process.hear("b", ccon(ME), local_channel("b"))
    process.hear("b", CoordinatorLeave(), local_channel("b"))
    process.hear("b", gcon(ME), COORDINATORS)
    process.hear("b", RingQuery(1, 1), SEARCH)
    assert process.take(Packet) == []
    assert not any(isinstance(effect, Send) for effect in process.said)
