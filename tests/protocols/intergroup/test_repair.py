"""Repair: who asks when, who answers, and how the timers adapt (Berket 2000, chapter 3)."""

from __future__ import annotations

import pytest

from ordercast.core.effects import Broadcast, CancelTimer, Deliver, Effect, Send, ServiceUnavailable, SetTimer
from ordercast.protocols.intergroup.adaptation import RepairParameters, RequestParameters
from ordercast.protocols.intergroup.control import GroupReport
from ordercast.protocols.intergroup.packets import Gone, Retransmission, RetransmissionRequest
from tests.protocols.intergroup.data_host import Desk, data, keep_alive, only

REQUEST = ("request", "g", "b", 1)


def timers(effects: list[Effect], name: str) -> list[SetTimer]:
    return [effect for effect in only(SetTimer, effects) if isinstance(effect.timer, tuple) and effect.timer[0] == name]


def requests(effects: list[Effect]) -> list[RetransmissionRequest]:
    return [effect.packet for effect in only(Broadcast, effects) if isinstance(effect.packet, RetransmissionRequest)]


# ---------------------------------------------------------------------- requests
def test_a_gap_is_asked_for_once_after_a_time_that_is_scaled_by_the_distance() -> None:
    desk = Desk(distance_seconds_unknown=0.01)
    (timer,) = timers(desk.receive("b", data("b", 3, 30)), "request")
    assert timer.timer == REQUEST
    assert 0.02 <= timer.after_seconds <= 0.04
    assert not timers(desk.receive("b", keep_alive(3, 40)), "request"), "each Keep Alive would ask again"
    (request,) = requests(desk.fire(REQUEST))
    assert request == RetransmissionRequest("a", "b", ((1, 2),))


def test_a_keep_alive_finds_the_loss_of_the_last_message() -> None:
    desk = Desk()
    desk.receive("b", data("b", 1, 10))
    (timer,) = timers(desk.receive("b", keep_alive(2, 40)), "request")
    assert timer.timer == ("request", "g", "b", 2)


def test_whoever_has_asked_asks_again_until_it_comes_and_later_each_time() -> None:
    desk = Desk(distance_seconds_unknown=0.001)
    desk.receive("b", data("b", 2, 30))
    waited = []
    for _ in range(4):
        effects = desk.fire(REQUEST)
        assert len(requests(effects)) == 1
        (timer,) = timers(effects, "request")
        waited.append(timer.after_seconds)
    assert waited == sorted(waited)
    assert waited[-1] > 10 * waited[0]
    effects = desk.receive("c", Retransmission(data("b", 1, 20)))
    assert CancelTimer(REQUEST) in effects


def test_a_request_never_waits_for_longer_than_its_limit() -> None:
    desk = Desk(distance_seconds_unknown=0.1, request_seconds_max=2.0)
    desk.receive("b", data("b", 2, 30))
    for _ in range(30):
        (timer,) = timers(desk.fire(REQUEST), "request")
        assert timer.after_seconds <= 2.0


def test_repairs_whose_time_lies_behind_the_limit_do_not_all_leave_at_once() -> None:
    desk = Desk(distance_seconds_unknown=0.5, request_seconds_max=2.0)
    for seq in range(1, 21):
        desk.receive("b", data("b", seq, 10 * seq))
    waited = [
        timer.after_seconds
        for timer in timers(desk.receive("c", RetransmissionRequest("c", "b", ((1, 20),))), "repair")
    ]
    assert len(set(waited)) == 20, "drawn from five to ten seconds, and not cut to two"
    assert 1.0 <= min(waited) < 1.3
    assert 1.7 < max(waited) <= 2.0


def test_ten_duplicate_requests_back_off_once() -> None:
    desk = Desk(distance_seconds_unknown=0.05)
    desk.receive("b", data("b", 2, 30))
    timed = [timers(desk.receive("c", RetransmissionRequest("c", "b", ((1, 1),))), "request") for _ in range(10)]
    assert [len(each) for each in timed] == [1] + [0] * 9
    assert 3 * 2 * 0.05 <= timed[0][0].after_seconds <= 3 * 4 * 0.05


def test_a_request_for_something_else_does_not_back_off() -> None:
    desk = Desk()
    desk.receive("b", data("b", 4, 30))
    assert not timers(desk.receive("c", RetransmissionRequest("c", "b", ((2, 2),))), "request")


# ---------------------------------------------------------------------- retransmissions
def test_whoever_has_a_message_sends_it_again_after_a_while_unless_somebody_else_does() -> None:
    desk = Desk(distance_seconds_unknown=0.01)
    desk.receive("b", data("b", 1, 10))
    desk.receive("b", data("b", 2, 20))
    effects = desk.receive("c", RetransmissionRequest("c", "b", ((1, 2),)))
    first, second = timers(effects, "repair")
    assert (first.timer, second.timer) == (("repair", "g", "b", 1), ("repair", "g", "b", 2))
    assert 0.1 <= first.after_seconds <= 0.2
    assert CancelTimer(first.timer) in desk.receive("b", Retransmission(data("b", 1, 10)))
    (sent,) = only(Broadcast, desk.fire(second.timer))
    assert sent.packet == Retransmission(data("b", 2, 20))


def test_a_repair_that_was_sent_or_seen_holds_the_next_one_down() -> None:
    desk = Desk(distance_seconds_unknown=0.1)
    desk.receive("b", data("b", 1, 10))
    desk.receive("b", Retransmission(data("b", 1, 10)))
    request = RetransmissionRequest("c", "b", ((1, 1),))
    assert not timers(desk.receive("c", request), "repair")
    desk.now += 0.4
    assert timers(desk.receive("c", request), "repair")


def cleared() -> Desk:
    """One message of `a` is out, and everyone was counted who has acknowledged it."""
    desk = Desk()
    desk.multicast()
    desk.core.clock.tick(desk.now)
    desk.core.stability.on_system_report("g", GroupReport(desk.core.clock.time, "a", 3))
    desk.fire(("clear", "g"))
    assert not desk.core.process_groups["g"].buffer.own
    return desk


def test_who_has_acknowledged_a_message_and_asks_for_it_all_the_same_has_asked_before() -> None:
    assert not only(Send, cleared().receive("b", RetransmissionRequest("b", "a", ((1, 1),))))


def test_who_asks_on_request_is_told_what_is_gone_although_everyone_was_counted() -> None:
    """Nobody waits for its acknowledgement: it would ask for ever."""
    request = RetransmissionRequest("b", "a", ((1, 1),), acknowledged=True)
    (answer,) = only(Send, cleared().receive("b", request))
    assert (answer.to, answer.packet) == (("b",), Gone("g", 2))


def test_what_an_application_asks_for_in_vain_is_unavailable_and_no_longer_asked_for() -> None:
    desk = Desk(service="on-request")
    desk.receive("b", data("b", 1, 10))
    desk.receive("b", data("b", 3, 30))
    assert len(timers(desk.choose("on-request", "b"), "request")) == 1
    (request,) = requests(desk.fire(("request", "g", "b", 2)))
    assert request == RetransmissionRequest("a", "b", ((2, 2),), acknowledged=True)
    effects = desk.receive("b", Gone("g", 4), None)
    assert CancelTimer(("request", "g", "b", 2)) in effects
    (unavailable,) = only(ServiceUnavailable, effects)
    assert (unavailable.service, unavailable.source) == ("on-request", "b")
    assert not timers(desk.choose("on-request", "b"), "request")


def test_a_message_that_comes_again_is_delivered_once() -> None:
    desk = Desk(service="reliable-source")
    assert len(only(Deliver, desk.receive("b", data("b", 1, 10)))) == 1
    assert not only(Deliver, desk.receive("b", data("b", 1, 10)))
    assert not only(Deliver, desk.receive("c", Retransmission(data("b", 1, 10))))


# ---------------------------------------------------------------------- Figures 3.1 and 3.2
def test_request_parameters_stay_within_their_ranges() -> None:
    parameters = RequestParameters()
    for step in range(2000):
        parameters.heard = step % 7
        parameters.before_timer()
        parameters.after_request(step % 5)
        assert 0.5 <= parameters.low <= 2.0
        assert 1.0 <= parameters.high <= 100.0


def test_duplicates_widen_the_interval_even_where_requests_take_long() -> None:
    parameters = RequestParameters()
    parameters.delay = 5.0
    for _ in range(300):
        parameters.heard = 4
        parameters.before_timer()
    assert parameters.high == 100.0


@pytest.mark.parametrize(
    ("delay", "duplicates", "low", "high"),
    [
        (2.0, 0.0, -0.05, -0.1),
        (2.0, 0.95, -0.05, 0.0),
        (0.0, 2.0, 0.05, 0.5),
        (0.95, 2.0, 0.0, 0.5),
        (2.0, 2.0, 0.0, 0.5),
        (0.0, 0.0, 0.0, -0.1),
        (0.95, 0.95, 0.0, 0.0),
    ],
)
def test_each_row_of_figure_3_1_as_corrected(delay: float, duplicates: float, low: float, high: float) -> None:
    parameters = RequestParameters()
    parameters.low, parameters.high = 1.0, 10.0
    parameters.delay = delay
    parameters.duplicates = duplicates / 0.75
    parameters.before_timer()
    assert parameters.low == pytest.approx(1.0 + low)
    assert parameters.high == pytest.approx(10.0 + high)


def test_repair_parameters_follow_figure_3_2() -> None:
    parameters = RepairParameters()
    parameters.low, parameters.high = 5.0, 5.0
    parameters.after_repair(0.0)
    assert parameters.low == pytest.approx(4.95)
    parameters.after_cancellation(0.0)
    assert parameters.high == pytest.approx(5.1)
    parameters.after_cancellation(100.0)
    assert parameters.high == pytest.approx(5.05)
    parameters.before_timer()
    assert parameters.low == pytest.approx(4.9)
    parameters.delay = 0.0
    parameters.before_timer()
    assert parameters.low == pytest.approx(4.95)
    for _ in range(1000):
        parameters.after_repair(9.0)
        parameters.after_cancellation(9.0)
    assert (parameters.low, parameters.high) == (0.5, 1.0)
