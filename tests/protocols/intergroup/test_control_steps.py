"""One control process, step by step: the start, the four states, Figure 2.4, stale entries."""

from __future__ import annotations

import pytest

from ordercast.protocols.intergroup.control.packets import (
    COORDINATORS,
    SEARCH,
    CCon,
    CoordinatorLeave,
    GCon,
    LCon,
    RingQuery,
    SearchResponse,
    local_channel,
)
from ordercast.protocols.intergroup.control.states import TRANSITIONS, Cause, State
from tests.protocols.intergroup.control_process import (
    ME,
    UNTOLD,
    Process,
    ccon,
    child_with_distances,
    gcon,
    wait_as_child,
)

MINE = local_channel(ME)


# ---------------------------------------------------------------------- the start (2.6.1)
def test_whoever_hears_no_gcon_in_time_starts_as_a_coordinator_2_6_1() -> None:
    process = Process()
    assert process.state() is State.START
    assert process.channels == {COORDINATORS}
    process.fire("control-start")
    assert process.state() is State.COORDINATOR
    assert process.now <= process.control.options.start_seconds
    assert process.channels == {COORDINATORS, SEARCH, MINE}
    assert process.control.coordinator == ME
    assert [packet.num_coords for packet in process.take(GCon)] == [1]


@pytest.mark.parametrize(("num_coords", "searches"), [(8, False), (9, False), (10, True)])
def test_one_gcon_tells_whether_to_start_as_a_coordinator_2_6_1(num_coords: int, searches: bool) -> None:
    process = Process(coordinators_low=2, coordinators_high=16)
    process.hear("z", gcon(num_coords=num_coords), COORDINATORS)
    process.fire("control-start")
    assert process.state() is (State.START if searches else State.COORDINATOR)
    assert bool(process.take(RingQuery)) is searches


def test_whoever_finds_a_coordinator_starts_as_its_child_2_6_1() -> None:
    process = Process()
    process.hear("z", gcon(num_coords=100), COORDINATORS)
    process.fire("control-start")
    process.search(("a", 3))
    assert process.state() is State.CHILD
    assert process.channels == {local_channel("a")}
    assert process.control.coordinator == "a"
    assert [(channel, ttl, packet.coordinator) for channel, ttl, packet in process.take_broadcasts(LCon)] == [
        (local_channel("a"), 3, "a")
    ]


def test_whoever_finds_none_starts_as_a_coordinator_instead_2_6_1() -> None:
    process = Process()
    process.hear("z", gcon(num_coords=100), COORDINATORS)
    process.fire("control-start")
    process.search()
    assert process.state() is State.COORDINATOR


# ---------------------------------------------------------------------- the ring search
def test_each_ring_is_twice_as_wide_as_the_one_before_and_the_last_one_is_asked_again_2_6_1() -> None:
    process = Process(system_ttl=20, ring_seconds=0.5, search_seconds=4.0)
    process.hear("z", gcon(num_coords=100), COORDINATORS)
    process.fire("control-start")
    begun = process.now
    process.search()
    asked = process.take_broadcasts(RingQuery)
    assert [ttl for channel, ttl, packet in asked] == [1, 2, 4, 8, 16, 20, 20, 20]
    assert all(channel == SEARCH and ttl == packet.ttl for channel, ttl, packet in asked)
    assert process.now - begun == pytest.approx(4.0)


def test_the_nearest_coordinator_is_taken_and_of_those_one_with_room() -> None:
    chosen = set()
    for seed in range(20):
        process = Process(seed=seed, local_target_size=5)
        process.hear("z", gcon(num_coords=100), COORDINATORS)
        process.fire("control-start")
        number = process.control.hierarchy.search.number
        for site, hops, children in (("a", 2, 9), ("b", 2, 4), ("c", 2, 0), ("d", 3, 0)):
            process.hear(site, SearchResponse(number, children, 9), hops=hops)
        process.fire("control-ring")
        chosen.add(process.control.coordinator)
    assert chosen == {"b", "c"}


def test_an_answer_to_an_earlier_search_counts_for_nothing() -> None:
    process = Process()
    process.hear("z", gcon(num_coords=100), COORDINATORS)
    process.fire("control-start")
    process.hear("a", SearchResponse(process.control.hierarchy.search.number - 1, 0, 9))
    process.fire("control-ring")
    assert process.state() is State.START


def test_a_coordinator_answers_a_ring_query_and_one_that_leaves_does_not_figure_2_4() -> None:
    process = Process().become_coordinator("a", "b")
    process.hear("q", RingQuery(7, 2), SEARCH)
    assert process.take(SearchResponse) == [SearchResponse(7, 0, 3)]
    process = leaving("a", "b")
    process.said.clear()
    process.hear("q", RingQuery(8, 2), SEARCH)
    assert process.take(SearchResponse) == []


# ---------------------------------------------------------------------- the table of states (2.6.2)
def test_every_state_can_be_left_and_reached_2_6_2() -> None:
    assert {state for state, _ in TRANSITIONS} == set(State)
    assert set(TRANSITIONS.values()) == set(State) - {State.START}
    assert {cause for _, cause in TRANSITIONS} == set(Cause)


def leaving(*others: str, children: tuple[str, ...] = ()) -> Process:
    """A coordinator that has just decided to become a child: there are too many of them."""
    process = Process(coordinators_low=1, coordinators_high=2).become_coordinator(*others)
    for child in children:
        process.hear_lcon(child)
    for _ in range(40):
        if process.state() is State.TO_CHILD:
            break
        process.wait(1.0)
        for other in others:
            process.hear_gcon(other)
        for child in children:
            process.hear_lcon(child)
    assert process.state() is State.TO_CHILD
    return process


def test_a_coordinator_that_should_leave_asks_its_children_to_leave_and_looks_for_another_one_2_6_2() -> None:
    process = leaving("a", "b", children=("x",))
    said = process.said
    assert any(isinstance(effect.packet, GCon) and effect.packet.leaving for effect in said)
    assert any(isinstance(effect.packet, RingQuery) for effect in said)
    assert {channel for channel, _, _ in process.take_broadcasts(CoordinatorLeave)} == {MINE}
    process.fire("control-local")
    assert [channel for channel, _, _ in process.take_broadcasts(CoordinatorLeave)] == [MINE], "again and again"


def test_it_becomes_a_child_when_it_is_listed_elsewhere_and_its_children_have_left_figure_2_4() -> None:
    process = leaving("a", "b", children=("x",))
    process.search(("a", 2))
    process.hear_ccon("a")
    assert process.state() is State.TO_CHILD, "x is still here"
    assert process.control.coordinator == "a"
    process.said.clear()
    process.hear_lcon("x", coordinator="b")
    assert process.state() is State.CHILD
    assert [channel for channel, _, _ in process.take_broadcasts(CoordinatorLeave)] == [COORDINATORS]
    assert process.channels == {local_channel("a")}
    assert "control-global" not in process.timers


def test_it_becomes_a_child_only_when_the_new_coordinator_lists_it_3_5() -> None:
    process = leaving("a", "b", children=("x",))
    process.search(("a", 2))
    process.hear_lcon("x", coordinator="b")
    assert process.state() is State.TO_CHILD
    process.hear("a", ccon("q"), local_channel("a"))
    assert process.state() is State.TO_CHILD
    process.hear_ccon("a")
    assert process.state() is State.CHILD


def test_a_child_that_is_gone_without_a_word_does_not_keep_its_coordinator_2_6_3() -> None:
    process = leaving("a", "b", children=("x",))
    process.search(("a", 2))
    for _ in range(30):
        process.hear_ccon("a")
        for other in ("a", "b"):
            process.hear_gcon(other)
        process.wait(1.0)
    assert process.state() is State.CHILD


def test_a_coordinator_among_its_children_stays_figure_2_4() -> None:
    process = Process(coordinators_low=1, coordinators_high=2).become_coordinator("a", "b")
    process.hear_lcon("a")
    for _ in range(60):
        process.wait(1.0)
        process.hear_gcon("a")
        process.hear_gcon("b")
        process.hear_lcon("a")
    assert process.state() is State.COORDINATOR
    assert process.host.branches["cannot-leave"] >= 1
    assert process.take(CoordinatorLeave) == []


def test_a_coordinator_whose_search_fails_stays_and_allows_children_again_figure_2_4() -> None:
    process = leaving("a", "b", children=("x",))
    process.said.clear()
    process.search()
    assert process.state() is State.COORDINATOR
    assert [packet.leaving for packet in process.take(GCon)][-1:] == [False]
    process.hear("q", RingQuery(1, 1), SEARCH)
    assert len(process.take(SearchResponse)) == 1


def test_of_two_that_leave_at_the_same_moment_neither_does_when_too_few_would_be_left() -> None:
    process = leaving("a", "b")
    process.hear_gcon("a", leaving=True)
    process.hear_gcon("b", leaving=True)
    process.wait(1.5, "control-ring")
    assert process.state() is State.COORDINATOR


@pytest.mark.parametrize("event", ["query", "child"])
def test_a_coordinator_that_is_wanted_while_it_waits_does_not_leave_2_5(event: str) -> None:
    process = Process(coordinators_low=1, coordinators_high=9).become_coordinator("a", "b")
    process.wait(1.1)
    deadline = process.timers["control-determination"]
    if event == "query":
        process.hear("q", RingQuery(1, 1), SEARCH)
    else:
        process.hear_lcon("x")
    process.hear_gcon("a")
    process.hear_gcon("b")
    process.wait(deadline - process.now + 0.01)
    assert process.host.branches["wanted"] == 1
    assert process.state() is State.COORDINATOR


def test_a_coordinator_at_the_low_threshold_stays_table_2_2() -> None:
    process = Process(coordinators_low=2, coordinators_high=9).become_coordinator("a")
    for _ in range(40):
        process.wait(1.0)
        process.hear_gcon("a")
    assert process.state() is State.COORDINATOR


# ---------------------------------------------------------------------- children
def far_child(num_coords: int = 3, num_local: int = 20) -> Process:
    """A child whose coordinator is 20 hops away, in a large local group."""
    return Process(coordinators_low=2, coordinators_high=8, local_target_size=10).become_child(
        hops=20, num_coords=num_coords, num_local=num_local
    )


def test_a_child_far_from_its_coordinator_in_a_large_group_becomes_a_coordinator_2_5() -> None:
    process = far_child()
    wait_as_child(process, 20, num_coords=3, num_local=20)
    process.search()
    assert process.state() is State.TO_COORDINATOR
    assert process.channels == {COORDINATORS, SEARCH, MINE, local_channel("a")}
    assert process.take(GCon) != []


def test_it_stays_in_its_local_group_until_the_coordinators_know_it_2_6_2() -> None:
    process = far_child()
    wait_as_child(process, 20, num_coords=3, num_local=20)
    process.search()
    process.said.clear()
    process.fire("control-local")
    assert [channel for channel, _, _ in process.take_broadcasts(LCon)] == [local_channel("a")]
    process.hear("b", gcon("q"), COORDINATORS)
    assert process.state() is State.TO_COORDINATOR
    process.hear("b", gcon(ME), COORDINATORS)
    assert process.state() is State.COORDINATOR
    assert [(channel, packet.coordinator) for channel, _, packet in process.take_broadcasts(LCon)] == [
        (local_channel("a"), ME)
    ], "the farewell"
    assert local_channel("a") not in process.channels


def test_a_far_child_that_finds_a_near_coordinator_moves_there_instead() -> None:
    process = far_child()
    wait_as_child(process, 20, num_coords=3, num_local=20)
    process.search(("n", 4))
    assert process.state() is State.CHILD
    assert process.control.coordinator == "a", "until it is listed"
    process.hear_ccon("n", hops=4)
    assert process.control.coordinator == "n"
    assert [(channel, packet.coordinator) for channel, _, packet in process.take_broadcasts(LCon)][-1:] == [
        (local_channel("a"), "n")
    ]


def test_where_there_are_as_many_coordinators_as_there_may_be_a_far_child_stays_one() -> None:
    process = far_child(num_coords=8)
    wait_as_child(process, 20, num_coords=8, num_local=20)
    process.search()
    assert process.state() is State.CHILD


def test_a_child_that_hears_of_too_few_coordinators_becomes_one_unless_they_say_otherwise_2_5() -> None:
    for known, state in ((1, State.TO_COORDINATOR), (2, State.CHILD)):
        process = Process(coordinators_low=2, coordinators_high=8).become_child(num_coords=1)
        wait_as_child(process, 1, num_coords=1)
        process.search(("a", 1), num_coords=known)
        assert process.state() is state


def test_a_child_whose_coordinator_leaves_reports_to_both_until_the_new_one_lists_it_3_5() -> None:
    process = Process().become_child()
    process.hear_leave("a")
    process.search(("b", 1))
    process.said.clear()
    process.fire("control-local")
    said = [(channel, packet.coordinator) for channel, _, packet in process.take_broadcasts(LCon)]
    assert said == [(local_channel("a"), "a"), (local_channel("b"), "b")]
    process.hear_ccon("b")
    said = [(channel, packet.coordinator) for channel, _, packet in process.take_broadcasts(LCon)]
    assert said == [(local_channel("a"), "b")]
    process.fire("control-local")
    said = [(channel, packet.coordinator) for channel, _, packet in process.take_broadcasts(LCon)]
    assert said == [(local_channel("b"), "b")]


def test_a_child_that_has_lost_its_coordinator_looks_for_another_one_2_6_3() -> None:
    process = Process().become_child()
    process.wait(4.0)
    assert process.take(RingQuery) == []
    process.wait(4.0, "control-ring")
    assert process.take(RingQuery) != []


def test_a_child_that_is_not_listed_any_more_has_lost_its_coordinator_too() -> None:
    process = Process().become_child()
    for _ in range(8):
        process.wait(1.0, "control-ring")
        process.hear("a", ccon("q"), local_channel("a"))
    assert process.take(RingQuery) != []


def test_a_child_that_finds_no_other_coordinator_becomes_one_2_6_1() -> None:
    process = Process().become_child()
    process.wait(8.0, "control-ring")
    process.search()
    assert process.state() is State.COORDINATOR


def test_a_child_stays_when_its_coordinator_changes_its_mind_figure_2_4() -> None:
    process = Process().become_child()
    process.hear_leave("a")
    for _ in range(30):
        process.wait(1.0)
        process.hear_ccon("a")
    assert process.state() is State.CHILD
    assert process.control.coordinator == "a"


# ---------------------------------------------------------------------- stale entries (2.6.3)
def test_whoever_has_not_been_heard_for_long_is_removed_2_6_3() -> None:
    process = Process(stale_seconds=12.0).become_coordinator("b")
    process.hear_lcon("x")
    process.wait(11.0)
    assert "x" in process.control.hierarchy.own.locals  # type: ignore[union-attr]
    process.wait(20.0)
    assert "x" not in process.control.hierarchy.own.locals  # type: ignore[union-attr]
    assert process.control.hierarchy.num_coords == 1


def test_a_coordinator_is_removed_after_its_children_have_had_time_to_find_another_one_3_5() -> None:
    process = Process(stale_seconds=12.0).become_coordinator("b")
    options = process.control.options
    heard, searched = process.now, options.silence_seconds + options.search_seconds
    while process.control.hierarchy.num_coords == 2:
        process.wait(0.5)
    assert process.now - heard > searched + 3 * options.control_seconds_min


def test_whoever_is_named_in_a_ccon_is_not_stale_2_6_3() -> None:
    process = child_with_distances()
    packet = CCon(1, 0.0, 0.02, 2, 2, {ME: UNTOLD}, {"x": 0.02}, {"b": 0.03})
    for _ in range(40):
        process.wait(1.0)
        process.hear("a", packet, local_channel("a"))
    assert "x" in process.control.hierarchy.joined.locals  # type: ignore[union-attr]
    assert "b" in process.control.hierarchy.coords
