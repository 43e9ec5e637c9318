"""Services: what each receiver gets of the same messages, and when it changes its mind (Berket 2000, chapter 4)."""

from __future__ import annotations

from typing import Any

import pytest

from ordercast.core import UsageError
from ordercast.core.effects import Activate, Broadcast, Credit, Deliver, Effect, Send, ServiceUnavailable, SetTimer
from ordercast.core.events import Consumed
from ordercast.protocols.intergroup import InterGroupOptions
from ordercast.protocols.intergroup.clock import UNITS, GroupClock
from ordercast.protocols.intergroup.packets import (
    ActivationPoint,
    ActivationRequest,
    Data,
    Gone,
    KeepAlive,
    Retransmission,
)
from tests.protocols.intergroup.data_host import VIEW, Desk, data, keep_alive, only, scenario


def delivered(effects: list[Any]) -> list[tuple[str, int]]:
    return [(each.multicast.id.source, each.multicast.id.number) for each in only(Deliver, effects)]


# ---------------------------------------------------------------------- the clock (4.3)
def test_the_clock_is_strictly_increasing_and_never_behind_what_was_heard() -> None:
    clock = GroupClock()
    first = clock.tick(1.0)
    assert clock.tick(1.0) == first + 1
    clock.observe(5 * UNITS, 1.0)
    assert clock.tick(1.0) == 5 * UNITS + 1


def test_the_clock_runs_on_from_the_fastest_that_it_has_heard() -> None:
    clock = GroupClock()
    clock.observe(100 * UNITS, 1.0)
    assert clock.read(3.0) == 102 * UNITS


def test_a_local_clock_that_is_set_back_goes_on_from_where_it_was() -> None:
    clock = GroupClock()
    before = clock.tick(50.0)
    assert clock.tick(10.0) > before
    assert clock.read(11.0) >= before + UNITS


# ---------------------------------------------------------------------- one order (Figures 4.3, 4.4)
def test_a_message_waits_until_every_sender_has_passed_it() -> None:
    desk = Desk()
    assert not delivered(desk.receive("b", data("b", 1, 100)))
    assert delivered(desk.receive("c", keep_alive(0, 100))) == [("b", 1)]


def test_equal_timestamps_are_ordered_by_sender() -> None:
    desk = Desk()
    desk.receive("c", data("c", 1, 100))
    assert delivered(desk.receive("b", data("b", 1, 100))) == [("b", 1), ("c", 1)]


def test_a_keep_alive_counts_only_when_everything_before_it_has_come() -> None:
    desk = Desk()
    desk.receive("c", data("c", 1, 200))
    assert not delivered(desk.receive("b", keep_alive(1, 300))), "b's first message may be earlier than c's"
    assert delivered(desk.receive("c", Retransmission(data("b", 1, 100)))) == [("b", 1), ("c", 1)]


def test_the_activation_message_is_the_first_one_delivered() -> None:
    desk = Desk(service="unreliable")
    request = next(each for each in only(Send, desk.choose("reliable-source", "b")))
    assert isinstance(request.packet, ActivationRequest)
    effects = desk.receive("b", ActivationPoint("g", request.packet.attempt, VIEW, 5, 10_000_000), None)
    assert [(each.service, each.source) for each in only(Activate, effects)] == [
        ("none", None),
        ("reliable-source", "b"),
    ]
    assert not delivered(desk.receive("b", data("b", 4, 9_000_000)))
    assert delivered(desk.receive("b", data("b", 5, 11_000_000))) == [("b", 5)]


# ---------------------------------------------------------------------- what each service makes of the same
def play(service: str) -> list[tuple[str, int]]:
    """The same packets: two in the wrong order, one twice, a gap, and its repair."""
    desk = Desk(service=service, wait_seconds_max=0.5)
    now = int(desk.now * UNITS)
    begin = len(desk.effects)
    desk.receive("c", data("c", 1, now + 5))
    desk.receive("b", data("b", 2, now + 20))
    desk.receive("b", data("b", 1, now + 10))
    desk.receive("b", data("b", 1, now + 10))
    desk.receive("b", data("b", 4, now + 40))
    desk.receive("c", Retransmission(data("b", 3, now + 30)))
    desk.receive("c", keep_alive(1, now + 10_000))
    desk.receive("b", keep_alive(4, now + 10_000))
    return delivered(desk.effects[begin:])


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        ("unreliable", [("c", 1), ("b", 2), ("b", 1), ("b", 1), ("b", 4)]),
        ("unreliable-source", [("c", 1), ("b", 2), ("b", 4)]),
        ("unreliable-timestamp", [("c", 1), ("b", 1), ("b", 2), ("b", 4)]),
        ("on-request", [("c", 1), ("b", 2), ("b", 4), ("b", 3)]),
        ("reliable-source", [("c", 1), ("b", 1), ("b", 2), ("b", 3), ("b", 4)]),
        ("group-timestamp", [("c", 1), ("b", 1), ("b", 2), ("b", 3), ("b", 4)]),
    ],
)
def test_each_service_delivers_what_it_promises(service: str, expected: list[tuple[str, int]]) -> None:
    assert play(service) == expected


@pytest.mark.parametrize("unread", [0, 3])
def test_an_unreliable_reader_that_does_not_keep_up_misses_messages_and_holds_nobody(unread: int) -> None:
    desk = Desk(service="unreliable", outstanding_messages_max=2, unread_messages_max=unread)
    for seq in range(1, 6):
        desk.receive("b", data("b", seq, seq))
    assert delivered(desk.effects) == [("b", seq) for seq in range(1, 1 + (unread or 2))]
    assert desk.core.stability.local_report()["g"].timestamp >= desk.core.clock.time - 1


def test_what_the_application_has_not_taken_holds_the_acknowledgement_back() -> None:
    desk = Desk(service="reliable-source")
    desk.receive("b", data("b", 1, 100))
    desk.receive("b", data("b", 2, 200))
    desk.receive("b", keep_alive(2, 900))
    desk.receive("c", keep_alive(0, 900))
    assert desk.core.stability.local_report()["g"].timestamp == 100
    desk._step(Consumed(1))
    assert desk.core.stability.local_report()["g"].timestamp == 200
    desk._step(Consumed(1))
    assert desk.core.stability.local_report()["g"].timestamp == 901


# ---------------------------------------------------------------------- choosing
def test_a_source_that_does_not_answer_is_unavailable_and_the_service_before_goes_on() -> None:
    desk = Desk(service="unreliable")
    desk.choose("reliable-source", "b")
    effects: list[Any] = []
    for _ in range(8):
        effects = desk.fire(("activation", "g"))
    (unavailable,) = only(ServiceUnavailable, effects)
    assert (unavailable.service, unavailable.source) == ("reliable-source", "b")
    assert delivered(desk.receive("b", data("b", 1, 100))) == [("b", 1)]


def test_what_waits_for_its_turn_is_delivered_when_the_order_no_longer_matters() -> None:
    desk = Desk()
    desk.receive("b", data("b", 1, 100))
    effects = desk.choose("reliable-source")
    assert delivered(effects) == [("b", 1)]
    assert [each.service for each in only(Activate, effects)] == ["reliable-source"]


@pytest.mark.parametrize(
    ("service", "sources", "why"),
    [
        ("group-timestmp", (), "did you mean 'group-timestamp'?"),
        ("reliable-source", ("bb",), "'bb' is no sender of g; did you mean 'b'?"),
        ("group-timestamp", ("b",), "leave out the sources"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused_in_one_line(service: str, sources: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError, match=r"^[^\n]*$") as refused:
        Desk().choose(service, *sources)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"service": "relable-source"}, "did you mean 'reliable-source'?"),
        ({"keep_alive_seconds": 0.0}, "keep_alive_seconds is positive, not 0.0"),
        ({"coordinators_low": 9, "coordinators_high": 3}, "coordinators_low = 9 is above coordinators_high = 3"),
        ({"bandwidth_min": 2.0, "bandwidth_max": 1.0}, "bandwidth_min is not above bandwidth_max"),
        ({"outstanding_messages_max": 0}, "outstanding_messages_max is at least 1, not 0"),
        ({"outstanding_messages_max": 9, "buffer_messages_max": 3}, "is above buffer_messages_max = 3"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_one_line(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=r"^options of intergroup: [^\n]*$") as refused:
        InterGroupOptions(**options)
    assert why in str(refused.value)


def test_a_sender_outside_every_group_is_refused_with_the_nearest_member() -> None:
    with pytest.raises(UsageError, match=r"option senders: 'bb' is in no group; did you mean 'b'\?"):
        scenario(options={"senders": ["bb"]}).check()


# ---------------------------------------------------------------------- gaps
def begin_anew(desk: Desk, seq: int, time: int) -> list[Any]:
    """The source says that what is asked for is gone, and answers the handshake that follows."""
    (request,) = only(Send, desk.receive("b", Gone("g", seq), None))
    assert isinstance(request.packet, ActivationRequest)
    return desk.receive("b", ActivationPoint("g", request.packet.attempt, VIEW, seq, time), None)


def test_a_gap_right_behind_the_activation_is_told_although_nothing_of_the_source_has_come() -> None:
    """Numbers below the activation point were never followed: they do not wait for their turn."""
    desk = Desk(service="unreliable")
    (request,) = only(Send, desk.choose("reliable-source", "b"))
    assert isinstance(request.packet, ActivationRequest)
    desk.receive("b", ActivationPoint("g", request.packet.attempt, VIEW, 5, 10_000_000), None)
    assert [each.source for each in only(Activate, begin_anew(desk, 8, 20_000_000))] == ["b"]
    assert delivered(desk.receive("b", data("b", 8, 21_000_000))) == [("b", 8)]


def test_each_gap_is_told_behind_what_came_before_it_and_waits_for_its_turn() -> None:
    desk = Desk()
    desk.receive("b", data("b", 1, 1_000_000))
    assert not only(Activate, begin_anew(desk, 4, 2_000_000))
    desk.receive("b", data("b", 4, 3_000_000))
    assert not only(Activate, begin_anew(desk, 7, 4_000_000))
    assert not only(Activate, begin_anew(desk, 9, 5_000_000)), "nothing has come between the two gaps"
    effects = desk.receive("c", keep_alive(0, 9_000_000))
    told = [type(each).__name__ for each in effects if isinstance(each, Deliver | Activate)]
    assert told == ["Deliver", "Activate", "Deliver", "Activate"]


# ---------------------------------------------------------------------- answers
def test_where_senders_are_few_a_message_is_answered_at_once_with_a_keep_alive() -> None:
    desk = Desk(answer_senders_max=3)
    effects = desk.receive("b", data("b", 1, 9_000_000)) + desk.receive("c", data("c", 1, 9_000_500))
    assert [each.after_seconds for each in only(SetTimer, effects) if each.timer == ("answer", "g")] == [0.0, 0.0]
    (answer,) = only(Broadcast, desk.fire(("answer", "g")))
    assert isinstance(answer.packet, KeepAlive)
    assert answer.packet.timestamp > 9_000_500
    assert not only(Broadcast, desk.fire(("answer", "g"))), "one answers for both"
    assert not only(SetTimer, desk.receive("b", keep_alive(1, 99_000_000))), "an answer is not answered"


def test_whoever_has_just_sent_something_answers_a_little_later() -> None:
    desk = Desk(answer_senders_max=3)
    desk.multicast()
    desk.now -= 0.001
    (timer,) = only(SetTimer, desk.receive("b", data("b", 1, 9_000_000)))
    assert 0 < timer.after_seconds <= 0.001
    desk.multicast()
    assert not only(Broadcast, desk.fire(("answer", "g"))), "what was sent meanwhile is the answer"


@pytest.mark.parametrize("most", [0, 2])
def test_where_senders_are_many_nobody_answers(most: int) -> None:
    desk = Desk(answer_senders_max=most)
    assert not only(SetTimer, desk.receive("b", data("b", 1, 9_000_000)))


# ---------------------------------------------------------------------- credit
def under_way(effects: list[Effect]) -> list[int | None]:
    return [each.under_way for each in only(Credit, effects)]


def test_a_node_hears_when_few_of_its_messages_wait_for_their_turn_though_all_of_them_are_outstanding() -> None:
    desk = Desk(few_under_way=2)
    own = [only(Broadcast, desk.multicast())[0].packet for _ in range(3)]
    times = [each.timestamp for each in own if isinstance(each, Data)]
    desk.receive("b", keep_alive(0, times[2]))
    assert under_way(desk.receive("c", keep_alive(0, times[0]))) == [], "two of three wait, which is not few"
    assert under_way(desk.receive("c", keep_alive(0, times[2]))) == [1, 0]
    assert only(Credit, desk.effects)[-1].available == desk.core.options.outstanding_messages_max - 3


def test_a_message_that_has_no_turn_of_its_own_is_not_under_way() -> None:
    desk = Desk(few_under_way=2)
    desk.choose("unreliable")
    assert under_way(desk.multicast()) == [0]


def test_nobody_hears_of_turns_who_has_not_asked() -> None:
    desk = Desk()
    desk.multicast()
    desk.receive("b", keep_alive(0, 99_000_000))
    desk.receive("c", keep_alive(0, 99_000_000))
    assert only(Deliver, desk.effects)
    assert not [each for each in only(Credit, desk.effects) if each.under_way is not None]


# ---------------------------------------------------------------------- slow readers and absent ones
def test_a_slow_reader_slows_the_sender_which_names_it_and_is_at_full_speed_soon_after() -> None:
    simulation = scenario(
        duration=30.0,
        workload=[{"sources": ["a"], "groups": ["g"], "rate": 50.0, "size": 100}],
        fault=[{"kind": "slow-reader", "from": 5.0, "to": 15.0, "sites": ["c"], "seconds": 0.5}],
        options={"senders": ["a"], "outstanding_messages_max": 64, "buffer_messages_max": 128, "blocked_seconds": 1.0},
    ).simulation()
    simulation.execute()
    times = [row["time"] for row in simulation.table().to_pylist() if row["kind"] == "multicast"]
    assert sum(10 <= time < 15 for time in times) <= 20
    assert sum(25 <= time < 30 for time in times) >= 200
    assert simulation.sites["a"].blocked_reasons == ["g: too much is outstanding: c has not taken what was sent to g"]
    assert simulation.sites["a"].waiting_messages == 0


def test_a_receiver_silent_for_longer_than_the_stale_time_holds_nobody_and_is_told_of_its_gap() -> None:
    simulation = scenario(
        duration=20.0,
        workload=[{"sources": ["a"], "groups": ["g"], "rate": 20.0, "size": 100}],
        fault=[{"kind": "partition", "from": 4.0, "to": 14.0, "parts": [["c"]]}],
        options={"senders": ["a"], "outstanding_messages_max": 64, "buffer_messages_max": 128, "blocked_seconds": 2.0},
    ).simulation()
    simulation.execute()
    rows = simulation.table().to_pylist()
    multicasts = [row["time"] for row in rows if row["kind"] == "multicast"]
    assert sum(10 <= time < 14 for time in multicasts) >= 60, "nobody waits for c"
    told = [row["time"] for row in rows if row["kind"] == "activate" and row["site"] == "c"]
    assert len(told) == 2
    assert 14 <= told[1] <= 18
    after = [row for row in rows if row["kind"] == "deliver" and row["site"] == "c" and row["time"] > told[1]]
    assert len(after) > 20
