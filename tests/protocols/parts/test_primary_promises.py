"""The rules of epochs one by one, at one site of a cell that is driven by hand: who doubts, who promises and who
reports. Each breach of one loses a place that a majority has accepted, or leaves the cell without a primary, in some
run."""

from __future__ import annotations

import pytest

from ordercast.core import WireError
from ordercast.protocols.parts.primary import DOUBT_TICKS
from ordercast.protocols.parts.primary_packets import Agree, Collect, Doubt, Promise, Promised, Start
from tests.protocols.parts.primary_desk import HERE, M1, Cell, collecting


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
