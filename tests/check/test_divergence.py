"""Histories that differ: loudly, which is allowed, and silently, which is not."""

import pytest

from tests.check.build import outcome, verdict_of

NAME = "no-silent-divergence"
TWO = "a multicast m g\na multicast n g\n"


def test_equal_histories_hold() -> None:
    assert (
        outcome(NAME, TWO + "a deliver m\nb deliver m\nc deliver m\na deliver n\nb deliver n\nc deliver n") == "holds"
    )


def test_two_messages_in_another_order_violate() -> None:
    verdict = verdict_of(NAME, TWO + "a deliver m\na deliver n\nb deliver n\nb deliver m", "g:a,b")
    assert verdict.witnesses == 1
    assert verdict.first is not None
    assert verdict.first.why == "a delivers m before n, b delivers n before m, and neither was refused before"


def test_a_message_that_was_passed_by_violates_even_in_a_run_that_did_not_settle() -> None:
    verdict = verdict_of(NAME, TWO + "a deliver m\na deliver n\nb deliver n", "g:a,b", settled=False)
    assert verdict.first is not None
    assert verdict.first.why == "a delivers m before n, b delivers n without m, and neither was refused before"


def test_a_shorter_history_is_no_other_history_until_the_run_has_settled() -> None:
    rows = TWO + "a deliver m\na deliver n\nb deliver m"
    assert outcome(NAME, rows, "g:a,b", settled=False) == "vacuous"
    assert outcome(NAME, rows, "g:a,b") == "violated"


def test_a_shorter_history_is_no_other_history_where_somebody_is_down_for_good() -> None:
    rows = TWO + "a deliver m\na deliver n\nb deliver m\n"
    assert outcome(NAME, rows + "c fail", "g:a,b,c") == "vacuous"
    assert outcome(NAME, rows + "c fail reason=refused", "g:a,b,c") == "vacuous"
    assert outcome(NAME, rows + "c fail\nc recover", "g:a,b,c") == "violated"


def test_what_a_site_delivered_before_it_was_refused_is_excused_from_then_on() -> None:
    before = TWO + "a deliver m\na deliver n\n"
    after = "b deliver n\nb deliver m"
    assert outcome(NAME, before + "a fail reason=refused\n" + after, "g:a,b") == "holds"
    assert outcome(NAME, before + after + "\na fail reason=refused", "g:a,b") == "violated"
    assert outcome(NAME, before + "b fail reason=refused\n" + after, "g:a,b") == "violated"
    assert outcome(NAME, before + "a fail reason=down\n" + after, "g:a,b") == "violated"
    assert outcome(NAME, before + "a fail\n" + after, "g:a,b") == "violated"


def test_what_a_site_delivers_after_it_was_repaired_is_not_excused() -> None:
    rows = TWO + "a deliver m\na fail reason=refused\na recover\nb deliver m\nb multicast o g\n"
    assert outcome(NAME, rows + "b deliver n\nb deliver o\na deliver n\na deliver o", "g:a,b") == "holds"
    assert outcome(NAME, rows + "b deliver n\nb deliver o\na deliver o\na deliver n", "g:a,b") == "violated"
    assert outcome(NAME, rows + "b deliver n\nb deliver o\na deliver o", "g:a,b") == "violated"


def test_a_message_that_only_a_refused_site_has_is_owed_to_nobody_in_the_end() -> None:
    rows = TWO + "b deliver n\na deliver n\nb deliver m\n"
    assert outcome(NAME, rows + "b fail reason=refused\nb recover", "g:a,b") == "holds"
    assert outcome(NAME, rows + "b fail\nb recover", "g:a,b") == "violated"


@pytest.mark.parametrize(
    ("moves", "verdict"),
    [
        ("", "violated"),
        ("b leave g\n", "holds"),
        ("b leave g\nb join g\n", "holds"),
    ],
)
def test_a_site_that_has_left_the_group_may_pass_by_what_it_is_not_owed(moves: str, verdict: str) -> None:
    rows = f"a multicast l g\na multicast m g\na deliver l\nb deliver l\n{moves}a deliver m\na multicast n g\n"
    assert outcome(NAME, rows + "a deliver n\nb deliver n", "g:a,b") == verdict


def test_a_message_for_others_is_not_missed() -> None:
    rows = "a multicast m h\na multicast n g\na deliver m\na deliver n\nb deliver n"
    assert outcome(NAME, rows, "g:a,b h:a", settled=False) == "vacuous"


def test_a_second_delivery_does_not_change_the_history() -> None:
    assert outcome(NAME, TWO + "a deliver m\na deliver n\na deliver m\nb deliver m\nb deliver n", "g:a,b") == "holds"
