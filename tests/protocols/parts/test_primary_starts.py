"""The rules of epochs one by one, at one site of a cell that is driven by hand: what an epoch begins with, and who
takes it. Each breach of one loses a place that a majority has accepted, or leaves the cell without a primary, in some
run."""

from __future__ import annotations

from typing import Any

import pytest

from ordercast.core import InvariantViolation, MessageId, WireError
from ordercast.protocols.parts.primary import HELD_TICKS, PLACES_MAX, TIMESTAMP_MAX
from ordercast.protocols.parts.primary_packets import Collect, Doubt, Place, Promise, Promised, Start, Started
from tests.protocols.parts.primary_desk import M1, M2, M3, Cell, collecting


# ---------------------------------------------------------------------- the start
def test_it_takes_the_reports_of_a_majority_to_start_each_site_once() -> None:
    cell = collecting("c", "c")
    assert cell.epochs == (0, 1)
    cell.promised("d", 1)
    assert cell.epochs == (1, 1)


def test_a_start_is_logged_with_its_bodies_before_anybody_hears_of_it() -> None:
    cell = Cell("b")
    cell.promised("c", 1, M1)
    cell.take()
    cell.promised("d", 1)
    start = Start(1, 0, (M1,), 1, None)
    assert cell.take() == [
        ("bodies", (M1,)),
        Started(1, 0, (M1,), 1),
        "installed",
        "goes on",
        *(((site,), start) for site in "acde"),
    ]


def test_the_latest_epoch_counts_of_those_the_longest_and_the_highest_clock_of_all() -> None:
    cell = Cell("b")
    cell.promised("c", 6, M1, M2, M3, clock=9)
    cell.primary.started = 0
    cell.promised("d", 6, M1, started=2)
    assert cell.epochs == (6, 6)
    assert (cell.places, cell.clock) == ((M1,), 9)
    # Of one epoch the longest, counting what is over.
    reports = [Promise(7, 2, 0, (M1, M2), 2), Promise(7, 2, 2, (M3,), 3), Promise(7, 2, 0, (M1,), 1)]
    assert cell.primary.choose(reports) is reports[1]


def test_its_own_report_counts_as_well() -> None:
    cell = Cell("b")
    cell.places, cell.clock = (M1, M2), 5
    for site in "cd":
        cell.promised(site, 1, M1)
    assert (cell.places, cell.clock) == ((M1, M2), 5)


def test_a_report_counts_when_its_bodies_are_here() -> None:
    cell = Cell("b")
    cell.missing = {M1.message}
    cell.promised("c", 1, M1)
    cell.promised("d", 1)
    assert cell.epochs == (0, 1)
    assert cell.branches["report-held"] > 0
    assert "c" in cell.asked
    cell.asked.clear()
    cell.primary.on_epoch_timeout()  # whoever has them may not have heard
    assert "c" in cell.asked
    cell.primary.on_bodies()
    assert cell.epochs == (0, 1)
    cell.missing = set()
    cell.primary.on_bodies()
    assert cell.epochs == (1, 1)
    assert cell.places == (M1,)


def test_an_epoch_is_started_once_and_who_reports_later_gets_the_start() -> None:
    cell = collecting("c", "d")
    cell.take()
    cell.promised("e", 1, M1)
    assert cell.take() == [(("e",), Start(1, 0, (), 0, None))]
    assert cell.branches["late-promise"] == 1
    cell.primary.on_bodies()
    cell.primary.on_epoch_timeout()
    assert cell.take() == []


def test_who_has_forgotten_what_we_lack_takes_us_behind_it_before_the_start() -> None:
    resumption: Any = object()
    cell = Cell("b")
    cell.promised("c", 1, resumption=resumption)
    assert cell.behind == [resumption]
    cell.promised("d", 1)
    assert cell.epochs == (1, 1)
    assert set(cell.behind) == {resumption}
    follower = Cell("c")
    follower.started("b", 1)
    assert follower.behind == []
    follower.started("b", 1, resumption=resumption)
    assert follower.behind == [resumption]


def test_a_start_that_going_behind_has_brought_about_is_not_made_twice() -> None:
    cell = Cell("b")
    resumption: Any = object()
    cell.promised("c", 1)
    cell.on_behind = lambda: cell.primary._install(Started(1, 0, (), 0))
    cell.take()
    cell.promised("d", 1, resumption=resumption)
    assert [each for each in cell.take() if isinstance(each, Started)] == [Started(1, 0, (), 0)]


@pytest.mark.parametrize(
    ("others", "inherited"),
    [
        ((Promise(3, 1, 0, (M1, M2), 2), Promise(3, 1, 1, (M2, M3), 3)), "inherited-from-majority"),
        ((Promise(3, 1, 0, (M1, M2), 2), Promise(3, 1, 0, (M1,), 1)), "inherited-from-one"),
        ((Promise(3, 1, 0, (M1, M2), 2), Promise(3, 0, 0, (M1, M2, M3), 3)), "inherited-from-one"),
    ],
)
def test_the_branches_tell_how_many_had_what_an_epoch_begins_with(others: tuple[Promise, ...], inherited: str) -> None:
    cell = Cell("d")
    cell.primary.promised = 3
    chosen = Promise(3, 1, 1, (M2,), 2)
    cell.primary._note_inherited(chosen, [chosen, *others])
    assert +cell.branches == {inherited: 1, "two-lost-in-a-row": 1}
    cell.primary.promised = 2
    cell.branches.clear()
    cell.primary._note_inherited(Promise(2, 1, 1, (), 2), list(others))
    assert +cell.branches == {}


def test_a_start_notes_what_it_begins_with() -> None:
    cell = Cell("b")
    for site in "cd":
        cell.promised(site, 1, M1)
    assert cell.branches["inherited-from-one"] == 1


# ---------------------------------------------------------------------- taking a start
def test_the_first_epoch_may_be_told_again() -> None:
    cell = Cell("b")
    cell.started("a", 0, M1)
    assert (cell.epochs, cell.places) == ((0, 0), (M1,))
    with pytest.raises(WireError):
        cell.started("e", -1)


def test_a_start_is_taken_whole_and_logged() -> None:
    cell = Cell("c")
    cell.started("b", 1, M1, M2, base=0, clock=7)
    assert cell.epochs == (1, 1)
    assert cell.report() == (0, (M1, M2), 7)
    done = cell.take()
    assert done.index(Promised(1)) < done.index(Started(1, 0, (M1, M2), 7))


def test_only_the_primary_of_an_epoch_starts_it() -> None:
    cell = Cell("c")
    with pytest.raises(WireError):
        cell.started("d", 1)
    assert cell.epochs == (0, 0)


def test_a_start_of_an_epoch_that_is_over_is_not_taken() -> None:
    cell = Cell("c")
    cell.primary.hear("d", 2)
    cell.take()
    resumption: Any = object()
    cell.started("b", 1, M1, resumption=resumption)
    assert cell.epochs == (0, 2)
    assert (cell.places, cell.behind) == ((), [])


def test_a_start_waits_for_its_bodies_and_not_beyond_its_epoch() -> None:
    cell = Cell("c")
    cell.missing = {M1.message}
    cell.started("b", 1, M1)
    assert cell.epochs == (0, 1)
    assert cell.branches["start-held"] == 1
    assert cell.asked == ["b"]
    cell.primary.on_bodies()
    assert cell.epochs == (0, 1)
    cell.primary.hear("d", 3)
    cell.missing = set()
    cell.primary.on_bodies()
    assert cell.epochs == (0, 3)
    again = Cell("c")
    again.missing = {M1.message}
    again.started("b", 1, M1)
    again.missing = set()
    again.primary.on_bodies()
    assert again.epochs == (1, 1)
    assert again.places == (M1,)


def test_a_longer_start_is_not_looked_at_while_its_beginning_waits_for_bodies() -> None:
    """(Else: each names messages that are still on their way, and who is back under full load takes none of them.)"""
    cell = Cell("c")
    cell.missing = {M1.message}
    cell.started("b", 1, M1)
    cell.started("b", 1, M1, M2)
    assert cell.asked == ["b"]
    cell.missing = {M2.message}
    cell.primary.on_bodies()
    assert cell.epochs == (1, 1)
    assert cell.places == (M1,)


@pytest.mark.parametrize("others", [{"base": 1}, {"resumption": object()}])
def test_a_start_that_begins_elsewhere_replaces_the_one_that_waits(others: dict[str, Any]) -> None:
    cell = Cell("c")
    cell.missing = {M1.message, M2.message}
    cell.started("b", 1, M1, M2)
    cell.started("b", 1, M2, M3, **others)
    assert cell.asked == ["b", "b"]
    cell.missing = {M1.message}
    cell.primary.on_bodies()
    assert cell.places == (M2, M3)


def test_what_a_start_waits_for_is_asked_for_again_after_some_intervals() -> None:
    """It may have been given up meanwhile."""
    cell = Cell("c")
    cell.missing = {M1.message}
    cell.started("b", 1, M1)
    for _ in range(HELD_TICKS - 1):
        cell.primary.on_epoch_timeout()
    assert cell.asked == ["b"]
    cell.primary.on_epoch_timeout()
    assert cell.asked == ["b", "b"]


@pytest.mark.parametrize(("base", "places", "taken"), [(0, (M1,), False), (0, (M1, M2), True), (1, (M2,), True)])
def test_a_start_of_the_present_epoch_is_news_when_it_has_more_places(
    base: int, places: tuple[Place, ...], taken: bool
) -> None:
    cell = Cell("c")
    cell.started("b", 1, M1)
    cell.take()
    cell.started("b", 1, *places, base=base)
    assert any(isinstance(each, Started) for each in cell.take()) == taken


# ---------------------------------------------------------------------- patience
def test_who_waits_for_a_start_asks_those_who_have_not_reported_again() -> None:
    cell = collecting("c")
    cell.take()
    cell.primary.on_epoch_timeout()
    assert cell.take() == [(("a", "d", "e"), Collect(1)), ("epoch", 0.5)]
    follower = Cell("c")
    follower.primary.hear("d", 1)
    follower.take()
    follower.primary.on_epoch_timeout()
    assert follower.take() == [
        (("a", "b", "d", "e"), Collect(1)),
        (("b",), Promise(1, 0, 0, (), 0, None)),
        ("epoch", 0.5),
    ]


def test_who_needs_nothing_or_has_begun_asks_nobody() -> None:
    cell = Cell("c")
    cell.primary.hear("d", 1)
    cell.needed = False
    cell.take()
    cell.primary.on_epoch_timeout()
    cell.primary.finish_step()
    assert cell.take() == []
    cell.needed = True
    cell.primary.finish_step()
    assert cell.take() == [("epoch", 0.5)]
    cell.primary.finish_step()
    assert cell.take() == []
    begun = Cell("c")
    begun.primary.finish_step()
    begun.primary.on_epoch_timeout()
    assert begun.take() == []


def test_who_still_does_not_hear_the_primary_asks_again() -> None:
    cell = Cell()
    cell.primary.finish_step()
    cell.suspect("a")
    cell.primary.on_epoch_timeout()
    assert cell.take() == [(("a", "c", "d", "e"), Doubt(0)), ("epoch", 0.5)]
    cell.needed = False
    cell.primary.on_epoch_timeout()
    assert cell.take() == []


# ---------------------------------------------------------------------- after a crash
def test_records_bring_back_the_highest_promise_and_the_last_start() -> None:
    cell = Cell("c")
    cell.primary.recall_promised(Promised(3))
    cell.primary.recall_promised(Promised(2))
    assert cell.epochs == (0, 3)
    cell.primary.recall_started(Started(1, 0, (M1,), 1))
    assert cell.epochs == (1, 3)
    assert cell.places == (M1,)
    cell.primary.recall_started(Started(4, 0, (), 1))
    assert cell.epochs == (4, 4)


def test_nobody_is_in_an_epoch_that_it_has_not_promised() -> None:
    cell = Cell("c")
    cell.primary.started = cell.primary.promised = 2
    cell.primary.check_invariants()
    cell.primary.started = 3
    with pytest.raises(InvariantViolation):
        cell.primary.check_invariants()


# ---------------------------------------------------------------------- malformed reports
STRANGER = Place(MessageId("z", 0, 1), 1)


@pytest.mark.parametrize(
    ("places", "base", "clock"),
    [
        ((M2, M1), 0, 2),
        ((M1, Place(M2.message, 1)), 0, 2),
        ((Place(M1.message, 0),), 0, 2),
        ((STRANGER,), 0, 2),
        ((Place(MessageId("a", -1, 1), 1),), 0, 2),
        ((Place(MessageId("a", 0, 0), 1),), 0, 2),
        ((M1, Place(M1.message, 2)), 0, 2),
        ((M1, M2), 0, 1),
        ((), -1, 0),
        ((), 0, -1),
        ((), 0, TIMESTAMP_MAX + 1),
    ],
)
def test_what_no_site_of_the_cell_can_report_is_malformed(places: tuple[Place, ...], base: int, clock: int) -> None:
    cell = Cell("b")
    with pytest.raises(WireError):
        cell.promised("c", 1, *places, base=base, clock=clock)
    with pytest.raises(WireError):
        cell.started("c", 2, *places, base=base, clock=clock)
    assert cell.epochs == (0, 0)


def test_what_a_site_of_the_cell_can_just_report_is_not() -> None:
    cell = Cell("b")
    cell.promised("c", 1, M1, M2, base=0, clock=2)
    cell.promised("d", 1, clock=TIMESTAMP_MAX)
    assert cell.epochs == (1, 1)
    assert TIMESTAMP_MAX == 1 << 62


def test_strangers_report_nothing_and_a_resumption_is_looked_at() -> None:
    cell = Cell("b")
    with pytest.raises(WireError):
        cell.promised("x", 1)
    resumption: Any = object()
    cell.promised("c", 1, resumption=resumption)
    assert ("checked", "c") in cell.take()


def test_a_report_has_no_more_places_than_the_host_keeps_and_some_thousands_at_least() -> None:
    assert PLACES_MAX == 1 << 16
    few = tuple(Place(MessageId("a", 0, number), number) for number in range(1, PLACES_MAX + 2))
    with pytest.raises(WireError):
        Cell("b").promised("c", 1, *few)
    Cell("b").promised("c", 1, *few[:-1])
    Cell("b", places_max=PLACES_MAX + 1).promised("c", 1, *few)
