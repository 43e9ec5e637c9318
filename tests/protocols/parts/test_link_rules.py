"""The rules of the link one by one, at one site that is driven by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ordercast.core import InvariantViolation, MessageId, Multicast, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.link import RECEIPTS_MAX, REPEATED_MAX, Behind, Letter, Link, Receipt
from tests.protocols.parts.desk import Desk
from tests.protocols.parts.hosts import Parcel

HERE = Arrival()
BODY = Multicast(MessageId("a", 0, 1), ("g",))


class Office(Desk):
    """Site a and its letters to b and c."""

    def __init__(self, letters_max: int = 3, incarnation: int = 0, wait_max: float = 0.5) -> None:
        super().__init__("a", incarnation=incarnation)
        host: Any = self
        self.behind: list[str] = []
        self.link = Link(
            host,
            retransmit_seconds=0.1,
            retransmit_seconds_max=wait_max,
            receipt_seconds=0.03,
            letters_max=letters_max,
            on_behind=self.behind.append,
        )

    def post(self, *to: str, vital: bool = False) -> Letter:
        letter = Parcel(self.link.next, BODY)
        self.link.post(to, letter, vital)
        return letter

    def confirmed(self, sender: str, *runs: tuple[int, int]) -> None:
        self.link.on_receipt(sender, Receipt(runs), HERE)

    def kept(self, site: str) -> list[int]:
        return [letter.number for letter in self.link.unconfirmed(site)]

    def repeated(self) -> list[tuple[tuple[str, ...], int]]:
        """What is sent again in the next interval, and to whom."""
        self.take()
        self.link.on_link_resend_timeout()
        return [(to, each.number) for to, each in self.take() if isinstance(each, Letter)]


# ---------------------------------------------------------------------- numbers
def test_letters_are_numbered_by_incarnation_so_that_no_receipt_is_for_another_one() -> None:
    office = Office(incarnation=2)
    assert office.link.next == (2 << 32) + 1
    office.post("b")
    assert office.link.next == (2 << 32) + 2
    assert office.link.is_of_this_incarnation((2 << 32) + 1)
    assert not office.link.is_of_this_incarnation((1 << 32) + 1)
    assert not office.link.is_of_this_incarnation(3 << 32)
    office.confirmed("b", (0, 2 << 32))
    assert office.kept("b") == [(2 << 32) + 1]


@pytest.mark.parametrize("step", [-1, 1])
def test_a_letter_with_another_number_than_the_next_is_refused(step: int) -> None:
    office = Office()
    with pytest.raises(InvariantViolation):
        office.link.post(("b",), Parcel(office.link.next + step, BODY))
    assert office.take() == []


# ---------------------------------------------------------------------- what is kept
def test_a_letter_is_kept_for_each_until_that_one_has_confirmed_it() -> None:
    office = Office()
    office.post("b", "c")
    office.post("c")
    assert (office.kept("b"), office.kept("c"), office.kept("d")) == ([1], [1, 2], [])
    office.confirmed("d", (1, 9))
    office.confirmed("c", (2, 2))
    assert (office.kept("b"), office.kept("c")) == ([1], [1])
    office.confirmed("b", (1, 1))
    assert (office.kept("b"), office.kept("c")) == ([], [1])


@pytest.mark.parametrize("run", [(2, 3), (2, 3 + (1 << 50))])
def test_a_receipt_is_for_the_first_to_the_last_of_its_runs_whether_they_are_short_or_long(
    run: tuple[int, int],
) -> None:
    office = Office(letters_max=9)
    for _ in range(4):
        office.post("b")
    office.confirmed("b", (1, 1), run)
    assert office.kept("b") == ([4] if run[1] == 3 else [])


def test_a_long_run_ends_where_it_says() -> None:
    office = Office(letters_max=9)
    for _ in range(4):
        office.post("b")
    office.confirmed("b", (-(1 << 50), 2))
    assert office.kept("b") == [3, 4]
    office.confirmed("b", (4, 1 << 50))
    assert office.kept("b") == [3]


def test_a_run_that_ends_before_it_begins_is_malformed_and_one_of_one_letter_is_not() -> None:
    office = Office()
    office.post("b")
    with pytest.raises(WireError):
        office.confirmed("b", (1, 0))
    office.confirmed("b", (1, 1))
    assert office.kept("b") == []


def test_a_receipt_that_comes_again_confirms_nothing_more() -> None:
    office = Office()
    office.post("b")
    office.post("b")
    office.confirmed("b", (1, 1))
    office.confirmed("b", (1, 1))
    assert office.kept("b") == [2]


def test_who_leaves_as_many_letters_unanswered_as_are_kept_is_estranged_by_the_next_and_nobody_else() -> None:
    office = Office(letters_max=2)
    for _ in range(2):
        office.post("b", "c")
    assert not office.link.is_estranged("c")
    office.confirmed("b", (1, 1))
    office.take()
    office.post("b", "c")
    assert [each for each in office.take() if isinstance(each[1], Letter)] == [
        (("b",), Parcel(3, BODY)),
        (("c",), Behind(4)),
    ]
    assert [office.link.is_estranged(site) for site in "bcd"] == [False, True, False]
    assert (office.kept("b"), office.kept("c")) == ([2, 3], [4])
    assert office.branches["estranged"] == 1


def test_an_estranged_site_gets_what_is_vital_and_hears_once_that_it_is_behind() -> None:
    office = Office(letters_max=9)
    office.post("c", vital=True)
    office.link.estrange("c")
    office.link.estrange("c")
    assert office.kept("c") == [1, 2]
    office.take()
    office.post("c")
    assert office.take() == []
    office.post("c", vital=True)
    assert office.kept("c") == [1, 2, 4]


def test_what_is_vital_is_kept_whatever_the_bound() -> None:
    office = Office(letters_max=1)
    office.post("b")
    office.post("b", vital=True)
    assert office.kept("b") == [1, 2]
    assert not office.link.is_estranged("b")
    office.link.check_invariants()


def test_that_it_is_behind_an_estranged_site_hears_until_it_asks() -> None:
    office = Office()
    office.link.estrange("c")
    office.post("c", vital=True)
    office.confirmed("c", (1, 2))
    assert office.kept("c") == [1]
    office.link.restore("c")
    assert office.kept("c") == []
    assert not office.link.is_estranged("c")
    assert office.branches["restored"] == 1


def test_who_comes_to_catch_up_is_owed_only_what_is_vital() -> None:
    office = Office()
    office.post("b")
    office.post("b", vital=True)
    office.link.restore("b")
    office.link.restore("d")
    assert office.kept("b") == [2]
    assert office.branches["restored"] == 0


def test_more_letters_than_the_bound_or_any_to_an_estranged_site_break_the_invariant() -> None:
    office = Office(letters_max=1)
    office.post("b")
    office.link.check_invariants()
    office.link.peers["b"].estranged = True
    with pytest.raises(InvariantViolation):
        office.link.check_invariants()
    office.link.peers["b"].estranged = False
    office.link.peers["b"].kept[7] = next(iter(office.link.peers["b"].kept.values()))
    with pytest.raises(InvariantViolation):
        office.link.check_invariants()


# ---------------------------------------------------------------------- repeating
def test_the_timer_runs_while_anything_is_kept_and_is_set_once() -> None:
    office = Office()
    office.post("b")
    office.post("c")
    assert [each for each in office.take() if each[0] == "link-resend"] == [("link-resend", 0.1)]
    office.link.on_link_resend_timeout()
    assert office.take() == [("link-resend", 0.1)]
    office.confirmed("b", (1, 1))
    office.confirmed("c", (2, 2))
    office.link.on_link_resend_timeout()
    assert office.take() == []
    office.post("b")
    assert ("link-resend", 0.1) in office.take()


def test_a_letter_is_repeated_when_it_has_waited_for_a_whole_interval_to_all_who_lack_it_in_one_packet() -> None:
    office = Office()
    office.post("b", "c")
    assert office.repeated() == []
    assert office.repeated() == [(("b", "c"), 1)]
    assert office.branches["repeated"] == 1


def test_who_does_not_answer_is_asked_ever_more_seldom_up_to_the_bound_and_who_answers_soon_again() -> None:
    office = Office()
    office.post("b")
    office.post("b")
    waits, last = [], 0
    for tick in range(1, 60):
        if office.repeated():
            waits.append(tick - last)
            last = tick
    # Twice as long each time, up to five intervals.
    assert waits[:3] == [2, 2, 2]
    assert set(waits[4:]) == {5}
    office.confirmed("b", (1, 1))
    assert [tick for tick in range(1, 5) if office.repeated()][:2] == [1, 3]


def test_who_comes_to_catch_up_after_a_long_silence_is_not_kept_waiting() -> None:
    office = Office()
    office.post("b")
    for _ in range(30):
        office.repeated()
    while not office.repeated():
        pass
    office.link.restore("b")
    office.post("b")
    assert [bool(office.repeated()) for _ in range(2)] == [False, True]


def test_a_receipt_for_nothing_is_no_sign_of_life_worth_a_repetition() -> None:
    office = Office()
    office.post("b")
    for _ in range(30):
        office.repeated()
    office.confirmed("b", (7, 9))
    assert sum(bool(office.repeated()) for _ in range(5)) == 1


def test_no_more_than_a_burst_is_repeated_at_once_and_those_first_that_have_waited_longest() -> None:
    office = Office(letters_max=500)
    for _ in range(100):
        office.post("b")
    bursts: list[list[int]] = []
    while len(bursts) < 3:
        numbers = [number for _, number in office.repeated()]
        bursts += [numbers] if numbers else []
    # A quarter of the last one each time; by the third, the first ones are overdue again, and have waited for less.
    assert bursts == [list(range(1, 65)), list(range(65, 81)), list(range(81, 85))]


def test_the_bounds_on_bursts_and_receipts_are_what_the_readme_says() -> None:
    assert (REPEATED_MAX, RECEIPTS_MAX) == (64, 64)


# ---------------------------------------------------------------------- receiving
def test_receipts_are_gathered_for_a_while_and_sent_to_each() -> None:
    office = Office()
    for number in (1, 2, 4):
        office.link.acknowledge("c", Parcel(number, BODY))
    office.link.acknowledge("b", Parcel(9, BODY))
    assert office.take() == [("link-receipt", 0.03)]
    office.link.on_link_receipt_timeout()
    assert office.take() == [(("b",), Receipt(((9, 9),))), (("c",), Receipt(((1, 2), (4, 4))))]
    office.link.on_link_receipt_timeout()
    assert office.take() == []
    office.link.acknowledge("b", Parcel(10, BODY))
    assert office.take() == [("link-receipt", 0.03)]


def test_so_many_receipts_are_sent_at_once() -> None:
    office = Office()
    for number in range(1, RECEIPTS_MAX):
        office.link.acknowledge("b", Parcel(number, BODY))
    office.take()
    office.link.acknowledge("b", Parcel(RECEIPTS_MAX, BODY))
    assert office.take() == [(("b",), Receipt(((1, RECEIPTS_MAX),)))]
    office.link.on_link_receipt_timeout()
    assert office.take() == []


def test_who_is_behind_asks_and_confirms_that() -> None:
    office = Office()
    office.link.on_behind("b", Behind(5), HERE)
    assert office.behind == ["b"]
    office.link.on_link_receipt_timeout()
    assert office.take()[-1] == (("b",), Receipt(((5, 5),)))
