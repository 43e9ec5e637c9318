"""The rules of epochs one by one, at one site of a cell that is driven by hand: each breach of one loses a place that a
majority has accepted, or leaves the cell without a primary, in some run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ordercast.core import InvariantViolation, MessageId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.primary import DOUBT_TICKS, PLACES_MAX, TIMESTAMP_MAX, Primary
from ordercast.protocols.parts.primary_packets import (
    Agree,
    Collect,
    Doubt,
    Place,
    Promise,
    Promised,
    Resumption,
    Start,
    Started,
)
from tests.protocols.parts.desk import Desk

CELL = ("a", "b", "c", "d", "e")
HERE = Arrival()
M1, M2, M3 = (Place(MessageId("a", 0, number), number) for number in (1, 2, 3))


class Detector:
    """Suspects whom it is told to."""

    def __init__(self) -> None:
        self.suspected: set[str] = set()
        self.watched: list[str] = []
        self.begun: list[str] = []

    def watch(self, site: str) -> None:
        self.watched.append(site)
        self.begun.append(site)

    def unwatch(self, site: str) -> None:
        self.watched.remove(site)


class Cell(Desk):
    """One site of five, its host and what that has of the places."""

    def __init__(self, site: str = "b", places_max: int = 0) -> None:
        super().__init__(site, (*CELL, "x"))
        self.detector = Detector()
        self.base = 0
        self.places: tuple[Place, ...] = ()
        self.clock = 0
        self.needed = True
        self.missing: set[MessageId] = set()
        self.asked: list[str] = []
        self.behind: list[Any] = []
        self.on_behind: Callable[[], None] = lambda: None
        self.resumption: Any = None
        host: Any = self
        detector: Any = self.detector
        self.primary = Primary(host, CELL, detector, host, retry_seconds=0.5, places_max=places_max)

    # ------------------------------------------------------------------ what the part asks
    def report(self) -> tuple[int, tuple[Place, ...], int]:
        return self.base, self.places, self.clock

    def has_bodies(self, holder: str, places: tuple[Place, ...]) -> bool:
        self.asked.append(holder)
        return not any(place.message in self.missing for place in places)

    def is_needed(self) -> bool:
        return self.needed

    def log_bodies(self, places: tuple[Place, ...]) -> None:
        self.done.append(("bodies", places))

    def install(self, started: Started) -> None:
        self.base, self.places, self.clock = started.base, started.places, started.clock
        self.done.append("installed")

    def on_epoch_started(self) -> None:
        self.done.append("goes on")

    def resumption_for(self, site: str) -> Any:
        return self.resumption

    def check_resumption(self, sender: str, resumption: Resumption) -> None:
        self.done.append(("checked", sender))

    def go_behind(self, resumption: Resumption) -> None:
        self.behind.append(resumption)
        self.on_behind()

    # ------------------------------------------------------------------ what comes
    def promised(self, sender: str, epoch: int, *places: Place, started: int = 0, **others: Any) -> None:
        clock = others.pop("clock", places[-1].timestamp if places else 0)
        packet = Promise(epoch, started, others.pop("base", 0), places, clock, **others)
        self.primary.on_promise(sender, packet, HERE)

    def started(self, sender: str, epoch: int, *places: Place, **others: Any) -> None:
        clock = others.pop("clock", places[-1].timestamp if places else 0)
        self.primary.on_start(sender, Start(epoch, others.pop("base", 0), places, clock, **others), HERE)

    def suspect(self, *sites: str) -> None:
        self.detector.suspected.update(sites)

    @property
    def epochs(self) -> tuple[int, int]:
        return self.primary.started, self.primary.promised

    def sent(self, kind: type[Any]) -> list[tuple[tuple[str, ...], Any]]:
        """What it has sent of one kind, since the last `take`."""
        return [each for each in self.take() if isinstance(each, tuple) and isinstance(each[1], kind)]


def collecting(*reporters: str) -> Cell:
    """b is to start epoch 1, and these have reported that they have nothing."""
    cell = Cell("b")
    for site in reporters:
        cell.promised(site, 1)
    return cell


# ---------------------------------------------------------------------- who
def test_epochs_belong_to_the_sites_in_turn_and_a_majority_is_more_than_half() -> None:
    cell = Cell()
    assert [cell.primary.primary_of(epoch) for epoch in (0, 1, 4, 5)] == ["a", "b", "e", "a"]
    assert cell.primary.majority == 3
    assert cell.primary.mates == ("a", "c", "d", "e")


def test_only_the_primary_of_the_epoch_that_it_has_promised_leads() -> None:
    cell = Cell("a")
    assert (cell.primary.leads, cell.primary.may_speak) == (True, True)
    cell.primary.hear("c", 5)
    assert (cell.primary.leads, cell.primary.may_speak) == (False, False)
    assert not Cell("b").primary.leads


# ---------------------------------------------------------------------- doubt
def test_the_primary_is_watched_while_it_is_needed_and_by_nobody_who_is_it() -> None:
    cell = Cell()
    cell.primary.finish_step()
    assert cell.detector.watched == ["a"]
    cell.primary.finish_step()
    assert cell.detector.watched == ["a"]
    cell.needed = False
    cell.primary.finish_step()
    assert cell.detector.watched == []
    first = Cell("a")
    first.primary.finish_step()
    assert first.detector.watched == []


def test_who_has_promised_another_epoch_watches_its_primary_instead() -> None:
    cell = Cell()
    cell.primary.finish_step()
    cell.primary.hear("c", 2)
    cell.primary.finish_step()
    assert cell.detector.watched == ["c"]


def test_who_does_not_hear_the_primary_asks_the_others_whether_they_do() -> None:
    cell = Cell()
    cell.primary.finish_step()
    cell.suspect("a")
    cell.primary.on_suspected("d")
    assert cell.take() == []
    cell.primary.on_suspected("a")
    assert cell.take() == [(("a", "c", "d", "e"), Doubt(0)), ("epoch", 0.5)]
    cell.primary.on_suspected("a")
    assert cell.take() == [(("a", "c", "d", "e"), Doubt(0))]
    cell.needed = False
    cell.primary.on_suspected("a")
    assert cell.take() == []


def test_who_hears_the_primary_does_not_agree_but_looks_at_it_for_a_while() -> None:
    cell = Cell()
    cell.needed = False
    cell.primary.on_doubt("c", Doubt(0), HERE)
    assert cell.take() == [("epoch", 0.5)]
    cell.primary.finish_step()
    assert cell.detector.watched == ["a"]
    ticks = 0
    while cell.detector.watched:
        ticks += 1
        cell.primary.on_epoch_timeout()
        cell.primary.finish_step()
        assert (("epoch", 0.5) in cell.take()) == (ticks < DOUBT_TICKS)
    assert ticks == DOUBT_TICKS == 8


def test_who_does_not_hear_it_either_agrees() -> None:
    cell = Cell()
    cell.suspect("a")
    cell.primary.on_doubt("c", Doubt(0), HERE)
    assert cell.take() == [(("c",), Agree(0))]


def test_it_takes_a_majority_that_does_not_hear_the_primary_the_asker_among_them() -> None:
    cell = Cell()
    cell.primary.finish_step()
    cell.suspect("a")
    for site in "cde":
        cell.primary.on_agree(site, Agree(0), HERE)
    assert cell.epochs == (0, 0)  # it has not doubted itself
    cell = Cell()
    cell.primary.finish_step()
    cell.suspect("a")
    cell.primary.on_suspected("a")
    cell.primary.finish_step()
    cell.primary.on_agree("c", Agree(0), HERE)
    cell.primary.finish_step()
    cell.take()
    assert cell.epochs == (0, 0)
    assert cell.detector.begun == ["a"]  # its silence is counted through
    cell.primary.on_agree("d", Agree(0), HERE)
    assert cell.epochs == (0, 1)
    done = cell.take()
    assert done[0] == Promised(1)
    assert done[-1] == (("a", "c", "d", "e"), Collect(1))


@pytest.mark.parametrize(("suspected", "epoch"), [("a", 1), ("ab", 2), ("abc", 3)])
def test_the_next_epoch_is_the_first_whose_primary_is_not_suspected(suspected: str, epoch: int) -> None:
    cell = Cell("e")
    cell.primary.finish_step()
    cell.suspect(*suspected)
    cell.primary.on_suspected("a")
    for site in "bc":
        cell.primary.on_agree(site, Agree(0), HERE)
    assert cell.epochs == (0, epoch)


def test_who_doubts_the_primary_of_an_epoch_that_is_over_is_told_better_and_agrees_to_nothing() -> None:
    cell = Cell("c")
    cell.primary.hear("d", 5)
    cell.suspect("a")
    cell.primary.finish_step()
    cell.primary.on_suspected("a")
    cell.take()
    cell.primary.on_doubt("e", Doubt(0), HERE)
    assert cell.take() == [(("e",), Collect(5))]
    for site in "de":
        cell.primary.on_agree(site, Agree(0), HERE)
    assert cell.epochs == (0, 5)


def test_an_agreement_counts_for_the_epoch_that_is_promised_and_while_its_primary_is_silent() -> None:
    cell = Cell()
    cell.primary.finish_step()
    cell.suspect("a")
    cell.primary.on_suspected("a")
    cell.detector.suspected.clear()
    cell.primary.finish_step()
    cell.suspect("a")
    for site in "cd":
        cell.primary.on_agree(site, Agree(0), HERE)
    assert cell.epochs == (0, 0)  # it was heard in between, and that began anew
    cell.primary.on_suspected("a")
    cell.detector.suspected.clear()
    cell.primary.on_agree("e", Agree(0), HERE)
    assert cell.epochs == (0, 0)


# ---------------------------------------------------------------------- promises
def test_a_promise_is_logged_before_anybody_hears_of_it() -> None:
    cell = Cell("c")
    cell.places, cell.clock = (M1,), 1
    assert cell.primary.hear("d", 1)
    assert cell.take() == [Promised(1), (("b",), Promise(1, 0, 0, (M1,), 1, None)), ("epoch", 0.5)]
    assert cell.epochs == (0, 1)
    assert cell.branches["followed"] == 1


def test_who_speaks_of_a_lower_epoch_is_told_better_and_counts_for_nothing() -> None:
    cell = Cell("c")
    cell.primary.hear("d", 2)
    cell.take()
    assert not cell.primary.hear("d", 1)
    assert cell.take() == [(("d",), Collect(2))]
    first = Cell("a")
    first.places, first.clock = (M1,), 4
    first.primary.promised = first.primary.started = 5
    assert not first.primary.hear("d", 4)
    assert first.take() == [(("d",), Start(5, 0, (M1,), 4, None))]


def test_strangers_and_epochs_below_the_first_are_malformed() -> None:
    cell = Cell()
    for sender, epoch in (("x", 0), ("b", 0), ("c", -1)):
        with pytest.raises(WireError):
            cell.primary.hear(sender, epoch)
    assert cell.epochs == (0, 0)


def test_who_promises_a_later_epoch_forgets_who_agreed_and_who_asked_it_to_look() -> None:
    cell = Cell("c")
    cell.primary.finish_step()
    cell.suspect("a")
    cell.primary.on_suspected("a")
    cell.primary.hear("d", 5)  # of the same primary
    cell.primary.finish_step()
    for site in "de":
        cell.primary.on_agree(site, Agree(5), HERE)
    assert cell.epochs == (0, 5)
    idle = Cell("c")
    idle.needed = False
    idle.primary.on_doubt("d", Doubt(0), HERE)
    idle.primary.hear("d", 5)
    idle.primary.finish_step()
    assert idle.detector.watched == []


def test_a_primary_that_promises_a_later_epoch_is_deposed_once_and_nobody_else_is() -> None:
    first = Cell("a")
    first.primary.hear("b", 1)
    first.primary.hear("b", 2)
    assert first.branches["deposed"] == 1
    other = Cell("c")
    other.primary.hear("b", 1)
    assert other.branches["deposed"] == 0


def test_a_promise_begins_anew_what_was_gathered_for_an_earlier_epoch() -> None:
    cell = collecting("c")
    cell.primary.hear("d", 6)
    cell.promised("d", 6)
    assert cell.epochs == (0, 6)  # c has reported for epoch 1 only
    cell.promised("c", 6)
    assert cell.epochs == (6, 6)


def test_who_is_asked_again_reports_again_and_who_leads_says_how_it_began() -> None:
    cell = Cell("c")
    cell.primary.on_collect("d", Collect(1), HERE)
    assert len(cell.sent(Promise)) == 1
    cell.primary.on_collect("d", Collect(1), HERE)
    assert cell.take() == [(("b",), Promise(1, 0, 0, (), 0, None))]
    cell.started("b", 1)
    cell.take()
    cell.primary.on_collect("d", Collect(1), HERE)
    assert cell.take() == []
    leader = collecting("c", "d")
    for epoch in (1, 0):
        leader.take()
        leader.primary.on_collect("e", Collect(epoch), HERE)
        assert leader.take() == [(("e",), Start(1, 0, (), 0, None))]
    waiting = Cell("c")
    waiting.primary.hear("d", 1)
    waiting.take()
    waiting.primary.on_collect("d", Collect(0), HERE)
    assert waiting.take() == [(("d",), Collect(1))]


def test_a_report_for_somebody_else_or_of_one_who_has_started_already_is_malformed() -> None:
    cell = Cell("b")
    with pytest.raises(WireError):
        cell.promised("c", 2)
    for started in (1, 2):
        with pytest.raises(WireError):
            cell.promised("c", 1, started=started)
    assert cell.epochs == (0, 0)


def test_a_report_of_an_epoch_that_is_over_does_not_count() -> None:
    cell = Cell("b")
    cell.primary.hear("c", 6)
    cell.take()
    for site in "cd":
        cell.promised(site, 1)
    assert cell.epochs == (0, 6)
    assert cell.sent(Collect) == [(("c",), Collect(6)), (("d",), Collect(6))]


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
