"""The rules of reliable multicast one by one, at one destination that is driven by hand: a floor that is believed too
early loses a message, one that is never believed fills the memory."""

from __future__ import annotations

from typing import Any

import pytest

from ordercast.core import MessageId, Multicast, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.multicast import (
    PATIENCE_MAX,
    WANTED_MAX,
    Data,
    Finished,
    Mark,
    ReliableMulticast,
    Want,
)
from tests.protocols.parts.desk import Desk

HERE = Arrival()
SITES = ("a", "b", "c", "d")
MARK: Mark = (3, MessageId("d", 0, 1))


def message(source: str, number: int = 1, incarnation: int = 0) -> Multicast:
    return Multicast(MessageId(source, incarnation, number), ("g",))


def offered_by(finished: Finished) -> object:
    return finished.offered


class Office(Desk):
    """Site a; every message goes to a, b, c and d unless its payload says otherwise."""

    def __init__(self, eager: bool = False) -> None:
        super().__init__("a", SITES)
        host: Any = self
        self.got: dict[MessageId, Multicast] = {}
        self.delivered: list[MessageId] = []
        self.old: list[tuple[str, MessageId]] = []
        self.acknowledged: list[tuple[str, int]] = []
        self.reached = True
        self.marks: set[Mark | None] = set()
        """How far it was asked whether this site has come."""
        self.order: list[str] = []
        self.next = 1
        self.multicast = ReliableMulticast(
            host,
            host,
            eager=eager,
            want_seconds=0.5,
            destinations=lambda multicast: SITES if multicast.payload == b"" else ("b", "c"),
            find=self.got.get,
            on_delivered=self.deliver,
            on_old=lambda sender, name: self.old.append((sender, name)),
            bounds=lambda multicast: (MARK,),
            bound_here=lambda multicast, bounds: bounds[0] if bounds else None,
            has_reached=self.has_reached,
        )

    def has_reached(self, mark: Mark | None) -> bool:
        self.marks.add(mark)
        return self.reached

    def deliver(self, multicast: Multicast) -> None:
        self.order.append("delivered")
        self.got[multicast.id] = multicast
        self.delivered.append(multicast.id)

    def post(self, to: tuple[str, ...], letter: Any) -> None:
        self.done.append((to, letter))
        self.next += 1

    def acknowledge(self, sender: str, letter: Any) -> None:
        self.order.append("confirmed")
        self.acknowledged.append((sender, letter.number))

    def comes(self, sender: str, multicast: Multicast, floor: tuple[int, int] = (0, 0), **others: Any) -> None:
        self.multicast.on_data(sender, Data(7, multicast, floor, **others), HERE)

    def floor_of(self, source: str) -> tuple[int, int]:
        return self.multicast.source(source).floor


# ---------------------------------------------------------------------- what is over
def test_below_the_floor_everything_is_over_and_above_it_what_is_marked() -> None:
    finished = Finished((1, 4), ((1, 7),))
    assert [(1, n) for n in range(1, 9) if MessageId("b", 1, n) in finished] == [(1, 1), (1, 2), (1, 3), (1, 7)]
    assert MessageId("b", 0, 99) in finished
    assert MessageId("b", 2, 1) not in finished


def test_a_floor_is_raised_and_never_lowered_and_takes_the_marks_below_it() -> None:
    finished = Finished((0, 2), ((0, 3), (0, 5), (0, 6)))
    finished.raise_floor((0, 2))
    finished.raise_floor((0, 1))
    assert (finished.floor, finished.above) == ((0, 2), {(0, 3), (0, 5), (0, 6)})
    finished.raise_floor((0, 5))
    assert (finished.floor, finished.above) == ((0, 5), {(0, 5), (0, 6)})


def test_marks_of_an_earlier_life_stay_whatever_the_floor() -> None:
    finished = Finished((0, 2), ((0, 5),))
    finished.begin_life(3)
    finished.raise_floor((3, 4))
    assert finished.above == {(0, 5)}


def test_a_source_that_has_lost_its_log_begins_anew_and_what_was_over_stays_over() -> None:
    finished = Finished((0, 5))
    finished.offered = ((0, 9), None)
    finished.begin_life(2)
    assert (finished.began, finished.floor, finished.retired) == (2, (2, 0), {(0, (0, 5))})
    assert offered_by(finished) is None
    assert MessageId("b", 0, 4) in finished
    assert MessageId("b", 0, 5) not in finished
    assert MessageId("b", 1, 1) not in finished
    assert MessageId("b", 2, 1) not in finished
    before = (finished.began, finished.floor, set(finished.retired))
    finished.begin_life(2)
    finished.begin_life(1)
    assert (finished.began, finished.floor, finished.retired) == before


def test_a_retired_floor_says_nothing_of_lives_before_its_own() -> None:
    finished = Finished((4, 0), began=4, retired=((2, (2, 5)),))
    assert MessageId("b", 2, 4) in finished
    assert MessageId("b", 2, 5) not in finished
    assert MessageId("b", 1, 3) not in finished
    assert MessageId("b", 3, 1) not in finished


def test_what_two_know_together_is_what_either_knows() -> None:
    finished = Finished((0, 5), ((0, 8),))
    finished.merge(Finished((0, 7), ((0, 9),)))
    assert (finished.floor, finished.above) == ((0, 7), {(0, 8), (0, 9)})
    finished.merge(Finished((2, 3), began=2, retired=((0, (0, 6)),)))
    assert (finished.began, finished.floor) == (2, (2, 3))
    assert finished.retired == {(0, (0, 7)), (0, (0, 6))}
    assert MessageId("b", 0, 6) in finished
    finished.merge(Finished((0, 8)))
    assert (finished.began, finished.floor) == (2, (2, 3))
    assert (0, (0, 8)) in finished.retired


# ---------------------------------------------------------------------- sending
def test_a_message_of_ours_says_what_is_over_and_goes_to_nobody_for_nothing() -> None:
    office = Office()
    assert office.multicast.letter(message("a")) == Data(1, message("a"), (0, 0), (MARK,), 0)
    office.multicast.floor, office.multicast.began = (2, 5), 2
    own = message("a", 6, 2)
    office.multicast.multicast(own, ("b", "c"))
    assert office.take() == [(("b", "c"), Data(1, own, (2, 5), (MARK,), 2))]
    office.multicast.multicast(own, ())
    assert office.take() == []


def test_who_passes_on_a_message_of_another_says_nothing_of_what_is_over() -> None:
    office = Office()
    office.multicast.floor = (2, 5)
    office.multicast.relay(message("b"), "c")
    assert office.take() == [(("d",), Data(1, message("b"), (0, 0)))]
    office.multicast.relay(message("b"), "a")
    assert office.take() == [(("c", "d"), Data(2, message("b"), (0, 0)))]


def test_where_there_is_nobody_to_pass_it_on_to_nothing_is_posted() -> None:
    office = Office()
    office.multicast.relay(Multicast(MessageId("b", 0, 1), ("g",), b"x"), "c")
    assert office.take() == []


# ---------------------------------------------------------------------- receiving
def test_a_message_is_delivered_once_and_every_copy_is_confirmed() -> None:
    office = Office()
    office.comes("b", message("b"))
    office.comes("c", message("b"))
    assert office.delivered == [MessageId("b", 0, 1)]
    assert office.acknowledged == [("b", 7), ("c", 7)]
    assert office.order == ["delivered", "confirmed", "confirmed"]
    assert office.take() == []


def test_who_is_eager_passes_on_what_it_gets_first() -> None:
    office = Office(eager=True)
    office.comes("b", message("b"))
    assert [to for to, _ in office.take()] == [("c", "d")]
    office.comes("c", message("b"))
    assert office.take() == []


def test_a_message_of_a_stranger_or_for_others_is_malformed() -> None:
    office = Office()
    with pytest.raises(WireError):
        office.comes("b", message("z"))
    with pytest.raises(WireError):
        office.comes("b", Multicast(MessageId("b", 0, 1), ("g",), b"x"))
    assert office.delivered == []
    assert office.acknowledged == []


def test_what_is_over_is_not_delivered_again_and_the_sender_hears_why() -> None:
    office = Office()
    office.multicast.finish(MessageId("b", 0, 1))
    assert office.multicast.is_finished(MessageId("b", 0, 1))
    assert not office.multicast.is_finished(MessageId("c", 0, 1))
    office.comes("c", message("b"))
    assert (office.delivered, office.old) == ([], [("c", MessageId("b", 0, 1))])
    assert office.acknowledged == [("c", 7)]


def test_a_floor_is_relied_upon_when_this_site_has_come_so_far_and_the_first_one_that_is_offered_stands() -> None:
    office = Office()
    office.reached = False
    office.comes("b", message("b", 5), (0, 3), bounds=(MARK,))
    office.comes("b", message("b", 9), (0, 8), bounds=(MARK,))
    assert office.floor_of("b") == (0, 0)
    assert office.multicast.source("b").offered == ((0, 3), MARK)
    assert office.marks == {MARK}
    office.reached = True
    office.comes("c", message("b", 10))
    assert office.floor_of("b") == (0, 3)
    assert office.multicast.source("b").offered is None
    office.comes("b", message("b", 11), (0, 8))
    assert office.floor_of("b") == (0, 8)


def test_a_floor_that_is_no_higher_or_of_another_life_is_not_offered() -> None:
    office = Office()
    office.comes("b", message("b", 5), (0, 3))
    office.reached = False
    office.comes("b", message("b", 6), (0, 3))
    office.comes("b", message("b", 7), (0, 2))
    assert office.multicast.source("b").offered is None
    office.comes("b", message("b", 1, 2), (2, 1), began=2)
    assert office.multicast.source("b").began == 2
    office.reached = True
    for number in (8, 9):
        office.comes("b", message("b", number), (9, 9), began=0)
    assert office.floor_of("b") == (2, 1)


@pytest.mark.parametrize("floor", [(0, 0), (2, 0)])
def test_a_source_that_has_lost_its_log_is_believed_whatever_its_floor(floor: tuple[int, int]) -> None:
    office = Office()
    office.comes("b", message("b", 5), (0, 3))
    office.reached = False
    office.comes("b", message("b", 1, 2), floor, began=2)
    assert office.multicast.source("b").began == 2
    assert office.floor_of("b") == (2, 0)
    assert office.multicast.source("b").offered is None


# ---------------------------------------------------------------------- asking
def test_who_has_only_heard_of_a_message_asks_in_turn_those_who_may_have_it() -> None:
    office = Office()
    name = MessageId("d", 0, 1)
    office.multicast.want(name, ("a", "b", "c"))
    office.multicast.want(name, ("d",))
    assert office.take() == [("want", 0.5)]
    assert office.multicast.missing == 1
    for asked, wait in (("b", 2), ("c", 4), ("b", 8), ("c", 16), ("b", 16)):
        office.multicast.on_want_timeout()
        assert office.take() == [((asked,), Want((name,))), ("want", 0.5 * wait)]
    assert (WANTED_MAX, PATIENCE_MAX) == (64, 16)


def test_one_more_that_is_wanted_ends_the_patience_with_the_others() -> None:
    office = Office()
    office.multicast.want(MessageId("d", 0, 1), ("b",))
    office.multicast.on_want_timeout()
    office.take()
    office.multicast.want(MessageId("d", 0, 2), ("b",))
    assert office.take() == [("want", 0.5)]
    office.multicast.want(MessageId("d", 0, 3), ("b",))
    assert office.take() == []
    office.multicast.on_want_timeout()
    assert office.take()[-1] == ("want", 1.0)


def test_what_was_asked_for_before_and_has_come_in_another_way_holds_up_nothing() -> None:
    office = Office()
    first, second, third = (MessageId("d", 0, number) for number in (1, 2, 3))
    office.multicast.want(first, ("b",))
    office.multicast.want(second, ("b",))
    office.multicast.want(third, ())
    office.multicast.on_want_timeout()
    office.got[first] = Multicast(first, ("g",))
    office.multicast.on_want_timeout()
    office.take()
    office.comes("b", Multicast(second, ("g",)))
    assert office.take() == [("want", 0.0)]


def test_messages_that_nobody_has_do_not_keep_others_from_being_asked_for() -> None:
    office = Office()
    names = [MessageId("d", 0, number) for number in range(1, 2 * WANTED_MAX)]
    for name in names:
        office.multicast.want(name, ("b",))
    asked: set[MessageId] = set()
    for _ in range(2):
        office.take()
        office.multicast.on_want_timeout()
        asked.update(office.take()[0][1].wanted)
    assert asked == set(names)


def test_what_comes_before_anybody_was_asked_is_no_reason_to_ask_for_the_rest() -> None:
    office = Office()
    for number in (1, 2):
        office.multicast.want(MessageId("d", 0, number), ("b",))
    office.take()
    office.comes("b", message("d", 1))
    assert office.take() == []


def test_who_can_ask_nobody_asks_nobody_and_goes_on_waiting() -> None:
    office = Office()
    office.multicast.want(MessageId("d", 0, 1), ("a",))
    office.take()
    office.multicast.on_want_timeout()
    assert office.take() == [("want", 1.0)]


def test_when_all_has_come_that_was_asked_for_the_rest_is_asked_for_at_once() -> None:
    office = Office()
    names = [MessageId("d", 0, number) for number in range(1, WANTED_MAX + 2)]
    for name in names:
        office.multicast.want(name, ("b",))
    office.take()
    office.multicast.ask_at_once()
    assert office.take() == [("want", 0.0)]
    office.multicast.on_want_timeout()
    (_, want), _ = office.take()
    assert list(want.wanted) == names[:WANTED_MAX]
    office.multicast.ask_at_once()
    assert office.take() == []
    for name in names[: WANTED_MAX - 1]:
        office.comes("b", Multicast(name, ("g",)))
    assert office.take() == []
    office.comes("b", Multicast(names[WANTED_MAX - 1], ("g",)))
    assert office.take() == [("want", 0.0)]
    office.multicast.on_want_timeout()
    (_, want), (_, wait) = office.take()
    assert (list(want.wanted), wait) == ([names[-1]], 1.0)
    office.comes("b", Multicast(names[-1], ("g",)))
    assert office.multicast.missing == 0
    office.multicast.on_want_timeout()
    assert office.take() == []


def test_what_is_over_or_gone_is_not_wanted_any_more() -> None:
    office = Office()
    first, second, third = (MessageId("d", 0, number) for number in (1, 2, 3))
    for name in (first, second):
        office.multicast.want(name, ("b",))
    office.multicast.on_want_timeout()
    office.multicast.want(third, ("b",))
    office.multicast.forget(first)
    office.multicast.finish(second)
    assert office.multicast.missing == 1
    office.take()
    office.multicast.ask_at_once()
    assert office.take() == [("want", 0.0)]


def test_what_was_in_the_log_after_all_is_not_asked_for() -> None:
    office = Office()
    office.multicast.want(MessageId("d", 0, 1), ("b",))
    office.multicast.want(MessageId("d", 0, 2), ("b",))
    office.got[MessageId("d", 0, 1)] = message("d")
    office.take()
    office.multicast.on_want_timeout()
    assert office.take()[0] == (("b",), Want((MessageId("d", 0, 2),)))
    assert office.multicast.missing == 1


def test_who_is_asked_sends_what_it_has_to_a_destination_and_no_more_than_a_burst() -> None:
    office = Office()
    office.multicast.floor = (0, 4)
    own, others, secret = message("a"), message("b"), Multicast(MessageId("c", 0, 1), ("g",), b"x")
    office.got = {each.id: each for each in (own, others, secret)}
    office.multicast._find = office.got.get
    office.multicast.on_want("d", Want((own.id, MessageId("d", 0, 9), others.id, secret.id)), HERE)
    assert office.take() == [
        (("d",), Data(1, own, (0, 4), (MARK,), 0)),
        (("d",), Data(2, others, (0, 0))),
    ]
    office.multicast.on_want("d", Want((MessageId("d", 0, 9),) * WANTED_MAX + (own.id,)), HERE)
    assert office.take() == []
    office.multicast.on_want("d", Want((MessageId("d", 0, 9),) * (WANTED_MAX - 1) + (own.id,)), HERE)
    assert len(office.take()) == 1
