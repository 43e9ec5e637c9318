"""What a control process knows of others and says of itself: distances, control messages, acknowledgements."""

from __future__ import annotations

from typing import Any

import pytest

from ordercast.protocols.intergroup.control import GroupReport
from ordercast.protocols.intergroup.control.packets import (
    COORDINATORS,
    CCon,
    CoordinatorLeave,
    GCon,
    LCon,
    TimestampPair,
    local_channel,
)
from ordercast.protocols.intergroup.control.states import State
from tests.protocols.intergroup.control_process import ME, Process, child_with_distances, gcon, wait_as_child

MINE = local_channel(ME)


# ---------------------------------------------------------------------- distances (2.4)
def test_the_distance_is_that_of_the_text_whatever_the_clocks_show_2_4() -> None:
    process = Process().become_coordinator()
    process.now = 100.0
    # Ours of 99.0 came after 40 ms, when its clock showed 5099.04; its own left at 5099.96, and takes 40 ms, too.
    packet = GCon(5099.96, 0, 2, {ME: TimestampPair(99.0, 5099.04)})
    process.hear("a", packet, COORDINATORS)
    assert process.control.distance("a") == pytest.approx(0.04)


def test_it_is_the_least_of_the_last_four_2_4() -> None:
    process = Process().become_coordinator()
    found = []
    for number, seconds in enumerate((0.04, 0.02, 0.05, 0.06, 0.07, 0.08)):
        process.now = 100.0 + number
        process.hear("a", GCon(process.now - seconds, 0, 2, {ME: TimestampPair(99.0, 99.0 + seconds)}), COORDINATORS)
        found.append(round(process.control.distance("a"), 6))
    assert found == [0.04, 0.02, 0.02, 0.02, 0.02, 0.05]


def test_a_clock_that_is_set_spoils_no_distance_2_4() -> None:
    process = Process().become_coordinator()
    process.now = 100.0
    for number, jump in enumerate((0.0, -50.0, 50.0, -0.5, 0.5)):
        process.now = 101.0 + number
        sent = process.now - 0.04 + jump
        process.hear("a", GCon(sent, 0, 2, {ME: TimestampPair(99.0, 99.04)}), COORDINATORS)
        assert process.control.distance("a") == pytest.approx(0.04)
    assert process.host.branches["impossible-distance"] == 3


def test_no_distance_is_below_the_floor() -> None:
    process = Process(distance_seconds_min=0.001).become_coordinator()
    process.hear("a", GCon(0.0, 0, 2, {ME: TimestampPair(process.now, 0.0)}), COORDINATORS)
    assert process.control.distance("a") == 0.001
    assert process.control.distance(ME) == 0.001


@pytest.mark.parametrize(
    ("site", "coordinator", "expected"),
    [
        ("a", None, 0.01),
        ("x", None, 0.03),
        ("x", "a", 0.03),
        ("b", None, 0.04),
        ("y", "b", 0.04),
        ("y", "a", 0.01),
        ("y", "u", 0.1),
        ("y", None, 0.1),
    ],
)
def test_a_child_knows_distances_by_way_of_its_coordinator_table_2_1(
    site: str, coordinator: str | None, expected: float
) -> None:
    assert child_with_distances().control.distance(site, coordinator) == pytest.approx(expected)


def test_a_child_measures_those_of_its_local_group_that_it_hears_2_4() -> None:
    process = child_with_distances()
    packet = LCon(1, process.now - 0.005, "a", 2, {ME: TimestampPair(0.0, 0.005)})
    process.hear("x", packet, local_channel("a"))
    assert process.control.distance("x") == pytest.approx(0.005)


def test_a_coordinator_knows_the_distance_of_a_child_elsewhere_by_its_coordinator_table_2_1() -> None:
    process = Process().become_coordinator("b")
    assert process.control.distance("b") == pytest.approx(0.01)
    assert process.control.distance("y", "b") == pytest.approx(0.01)
    assert process.control.distance("y", ME) == process.control.distance(ME)


def test_the_largest_distance_is_that_of_the_furthest_one_known() -> None:
    assert Process().control.distance_max() == 0.1
    process = child_with_distances()
    process.fire("control-check")
    assert process.control.distance_max() == pytest.approx(0.04)


# ---------------------------------------------------------------------- control messages (2.2.2)
def test_a_ccon_has_every_field_of_2_2_2() -> None:
    process = Process().become_coordinator("b")
    process.hear("x", LCon(5, process.now - 0.02, ME, 1, {ME: TimestampPair(0.0, 0.02)}), MINE, hops=5)
    process.fire("control-local")
    [(channel, ttl, packet)] = process.take_broadcasts(CCon)
    assert (channel, ttl, packet.ttl) == (MINE, 5, 5)
    assert packet.timestamp == process.now
    assert packet.far_distance == pytest.approx(0.02)
    assert (packet.num_local, packet.num_coords) == (1, 2)
    assert set(packet.timestamp_pairs) == {"x"}
    assert packet.local_distances == pytest.approx({"x": 0.02})
    assert packet.coord_distances == pytest.approx({"b": 0.01})


def test_a_gcon_goes_as_far_as_the_system_and_names_whom_it_has_heard_2_3() -> None:
    process = Process().become_coordinator("b")
    process.fire("control-global")
    [(channel, ttl, packet)] = process.take_broadcasts(GCon)
    assert (channel, ttl) == (COORDINATORS, 64)
    assert (packet.num_local, packet.num_coords) == (0, 2)
    assert set(packet.timestamp_pairs) == {"b"}


def test_an_lcon_goes_as_far_as_the_coordinator_2_3() -> None:
    process = Process().become_child(hops=7)
    process.fire("control-local")
    [(channel, ttl, packet)] = process.take_broadcasts(LCon)
    assert (channel, ttl, packet.ttl, packet.coordinator) == (local_channel("a"), 7, 7, "a")
    assert set(packet.timestamp_pairs) == {"a"}


# ---------------------------------------------------------------------- control data (3.5)
def test_acknowledgements_become_those_of_the_local_group_and_of_the_system_3_5() -> None:
    process = Process().become_coordinator()
    process.host.held_at = 50
    process.hear_lcon("x", g=GroupReport(40, "x", 1), h=GroupReport(7, "x", 1))
    process.hear_gcon("b", g=GroupReport(30, "y", 5))
    process.fire("control-global")
    [packet] = process.take(GCon)
    assert packet.data.reports == {"g": GroupReport(40, "x", 2), "h": GroupReport(7, "x", 1)}
    process.fire("control-local")
    [sent] = process.take(CCon)
    assert sent.data.reports == {"g": GroupReport(30, "y", 7), "h": GroupReport(7, "x", 1)}
    assert process.host.system[-1][1] == GroupReport(30, "y", 7)
    assert process.control.receivers("g") == 7
    assert process.control.receivers("unknown") == 0


def test_a_child_hears_the_system_acknowledgement_from_its_coordinator_3_5() -> None:
    process = Process().become_child()
    process.host.system.clear()
    for _ in range(2):
        process.hear_ccon("a", g=GroupReport(30, "y", 7))
    assert [report for _, report in process.host.system] == [GroupReport(30, "y", 7)], "once: it is not new again"
    assert process.control.receivers("g") == 7


def system_of(process: Process) -> GroupReport | None:
    process.said.clear()
    process.fire("control-local")
    [packet] = process.take(CCon)
    return packet.data.reports.get("g")


def test_whoever_has_moved_still_counts_until_it_is_reported_from_there_3_5() -> None:
    process = Process().become_coordinator()
    process.host.held_at = 50
    process.hear_gcon("b", g=GroupReport(60, "b", 1))
    process.hear_lcon("x", g=GroupReport(40, "x", 1))
    process.hear_lcon("x", coordinator="b")
    assert system_of(process) == GroupReport(40, "x", 2), "b has not reported x yet"
    process.hear_gcon("b", g=GroupReport(45, "x", 2))
    process.wait(8.0)
    assert system_of(process) == GroupReport(45, "x", 3)


def test_a_coordinator_that_has_left_still_counts_until_its_children_are_reported_from_elsewhere_3_5() -> None:
    process = Process().become_coordinator()
    process.host.held_at = 50
    process.hear_gcon("b", g=GroupReport(40, "x", 2))
    process.hear("b", CoordinatorLeave(), COORDINATORS)
    assert process.control.hierarchy.num_coords == 1
    assert system_of(process) == GroupReport(40, "x", 1)
    process.wait(8.0)
    assert system_of(process) == GroupReport(50, ME, 1)


def test_a_coordinator_that_has_not_heard_all_others_does_not_speak_for_the_system_3_5() -> None:
    process = Process().become_coordinator()
    process.host.held_at = 50
    system_of(process)
    process.hear_gcon("b", num_coords=3, g=GroupReport(60, "b", 1))
    process.host.held_at = 70
    assert system_of(process) == GroupReport(50, ME, 1), "as before: there is a third one"
    process.hear_gcon("c", num_coords=3, g=GroupReport(55, "c", 1))
    assert system_of(process) == GroupReport(55, "c", 3)


def test_a_new_coordinator_speaks_as_its_old_one_did_until_it_has_heard_all_others_3_5() -> None:
    said: dict[str, Any] = {"num_coords": 3, "num_local": 20, "coords": ("b",), "g": GroupReport(30, "y", 7)}
    process = Process(coordinators_low=2, coordinators_high=8, local_target_size=10).become_child(hops=20, **said)
    process.host.held_at = 50
    wait_as_child(process, 20, **said)
    process.search()
    assert process.state() is State.TO_COORDINATOR
    assert system_of(process) == GroupReport(30, "y", 7)
    process.hear("b", gcon(ME, num_coords=2, g=GroupReport(45, "y", 1)), COORDINATORS)
    assert process.state() is State.COORDINATOR
    assert system_of(process) == GroupReport(30, "y", 7), "a has not been heard yet"
    process.hear("a", gcon(ME, num_coords=2, g=GroupReport(40, "x", 1)), COORDINATORS)
    assert system_of(process) == GroupReport(40, "x", 3)
